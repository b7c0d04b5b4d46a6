"""Which source of a value wins: conflicts of equal depth, and ``explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from validation import told

from vllm_fleet.cli.main import main
from vllm_fleet.inventory.explain import lines

HOSTS = """\
all:
  vars: {vllm_fleet: {name: demo}, level: all}
  children:
    cpu: {hosts: {n1: , n2: }}
    serving: {children: {cpu: }}
    builders: {hosts: {n1: }}
    site_b:
      hosts: {n1: }
      vars: {hugepages_attempts: 5, level: site_b}
    accel_npu:
      hosts: {n1: }
      vars: {hugepages_attempts: 6}
    zzz:
      hosts: {n1: }
      vars: {hugepages_attempts: 7}
"""


def report(judge: Any, hosts: str = HOSTS, **files: str) -> Any:
    named = {name.replace("__", "/") + ".yml": text for name, text in files.items()}
    return judge("", files={"hosts.yml": hosts} | named, settings="{}\n")


def winner(found: Any, host: str, name: str) -> tuple[Any, str]:
    """Return the value and kind of the source that wins."""
    source = lines(found.scene, found.collection.root / "roles", host, name)[0].sources[0]
    return source["value"], source["kind"]


def test_BR_41_groups_of_equal_depth_that_disagree_are_a_warning(judge: Any) -> None:
    found = report(judge)
    warnings = [w for w in found.report.warnings if w.option == "hugepages_attempts"]
    assert len(warnings) == 2
    assert "group zzz wins over group site_b" in told(warnings)
    assert "group zzz wins over group accel_npu" in told(warnings)
    assert "hosts.yml:9)" in told(warnings)
    assert [(w.line, w.hosts) for w in warnings] == [(15, ("n1",))] * 2
    assert found.inventory.variables["n1"]["hugepages_attempts"] == 7


@pytest.mark.parametrize(
    "files",
    [
        {"host_vars__n1": "hugepages_attempts: 1\n"},
        {"group_vars__cpu": "hugepages_attempts: 1\n"},
        {"group_vars__zzz": "ansible_group_priority: 1\nhugepages_attempts: 7\n"},
    ],
)
def test_BR_41_what_a_stronger_source_settles_is_no_conflict(judge: Any, files: Any) -> None:
    found = report(judge, **files)
    assert told(w for w in found.report.warnings if w.option == "hugepages_attempts") == ""


def test_BR_41_a_priority_settles_it(judge: Any) -> None:
    hosts = HOSTS.replace("vars: {hugepages_attempts: 6}",
                          "vars: {hugepages_attempts: 6, ansible_group_priority: 10}")  # fmt: skip
    found = report(judge, hosts)
    assert winner(found, "n1", "hugepages_attempts") == (6, "inventory, group accel_npu")
    assert told(w for w in found.report.warnings if w.option == "hugepages_attempts") == ""


def test_BR_41_a_child_wins_over_its_parent_in_silence(judge: Any) -> None:
    hosts = HOSTS.replace(
        "    zzz:\n      hosts: {n1: }", "    zzz:\n      children: {site_b: , accel_npu: }"
    )
    found = report(judge, hosts.replace("hugepages_attempts: 6", "other: 6"))
    assert winner(found, "n1", "hugepages_attempts") == (5, "inventory, group site_b")
    assert told(w for w in found.report.warnings if w.option == "hugepages_attempts") == ""


def test_equal_values_are_no_conflict(judge: Any) -> None:
    hosts = HOSTS.replace("attempts: 5", "attempts: 7").replace("attempts: 6", "attempts: 7")
    assert told(report(judge, hosts).report.warnings) == ""


def test_a_file_of_group_vars_wins_over_the_inventorys_own_groups(judge: Any) -> None:
    """Ansible's order, which surprises: group_vars/all comes after a child group in hosts.yml."""
    found = report(judge, group_vars__all="level: file\n")
    assert winner(found, "n1", "level") == ("file", "group_vars/all")
    assert found.inventory.variables["n1"]["level"] == "file"


@pytest.mark.parametrize("host", ["n1", "n2"])
def test_the_winner_is_the_one_that_ansible_takes(judge: Any, host: str) -> None:
    """Each layer in turn is taken away from above; our winner's value is always Ansible's."""
    layers = {
        "host_vars__n1": "level: host_vars\n",
        "group_vars__zzz": "level: vars_zzz\n",
        "group_vars__site_b": "level: vars_site_b\n",
        "group_vars__cpu": "level: vars_cpu\n",
        "group_vars__all": "level: vars_all\n",
    }
    names = list(layers)
    for count in range(len(names) + 1):
        kept = {name: layers[name] if name in names[count:] else "{}\n" for name in names}
        found = report(judge, **kept)
        assert winner(found, host, "level")[0] == found.inventory.variables[host]["level"]


def run(folder: Path, capsys: Any, *args: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["explain", "-i", str(folder / "inventory"), *args])
    said = capsys.readouterr()
    return code, said.out + said.err


def shown(text: str) -> list[list[str]]:
    """Return value and kind of each source that explain prints."""
    return [line.strip().split("  ")[:2] for line in text.splitlines()[1:]]


def test_explain_lists_every_source_with_the_winner_first(
    judge: Any, tmp_path: Path, capsys: Any
) -> None:
    report(judge)
    code, text = run(tmp_path, capsys, "n1", "hugepages_attempts")
    assert code == 0
    assert shown(text) == [
        ["* 7", "inventory, group zzz"],
        ["5", "inventory, group site_b"],
        ["6", "inventory, group accel_npu"],
        ["3", "default of role hugepages"],
    ]
    assert f"{tmp_path}/inventory/hosts.yml:15" in text
    assert "roles/hugepages/defaults/main.yml:" in text


def test_explain_as_json(judge: Any, tmp_path: Path, capsys: Any) -> None:
    report(judge)
    code, text = run(tmp_path, capsys, "n1", "--json")
    document = json.loads(text)
    assert (code, document["schema"], document["host"]) == (0, "vllm-fleet/explain/1", "n1")
    assert document["groups"] == ["all", "cpu", "serving", "builders", "site_b", "accel_npu", "zzz"]
    by_name = {item["name"]: item["sources"] for item in document["variables"]}
    assert set(by_name) == {"vllm_fleet", "level", "hugepages_attempts"}
    assert [s["wins"] for s in by_name["level"]] == [True, False]
    assert by_name["level"][0]["value"] == "site_b"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("n3",), "there is no host n3"),
        (("n1", "hugepages_attempt"), "did you mean hugepages_attempts?"),
        (("n1", "utter_nonsense"), "nothing defines utter_nonsense"),
    ],
)
def test_explain_refuses_what_is_not_there(
    judge: Any, tmp_path: Path, capsys: Any, args: tuple[str, ...], words: str
) -> None:
    report(judge)
    code, text = run(tmp_path, capsys, *args)
    assert code == 1
    assert words in text


def test_explain_shows_no_secret(judge: Any, tmp_path: Path, capsys: Any) -> None:
    secrets = """\
my_token: PLANTED-7f3a
deep: [{password: PLANTED-7f3a}]
address: https://user:PLANTED-7f3a@mirror.example/
vllm_service_secrets: {one: {X: PLANTED-7f3a}}
locked: !vault |
  $ANSIBLE_VAULT;1.1;AES256
  PLANTED-7f3a
"""
    report(judge, host_vars__n1=secrets)
    for args in ((), ("--json",)):
        code, text = run(tmp_path, capsys, "n1", *args)
        assert code == 0
        assert "my_token" in text
        assert "PLANTED" not in text
    assert "(vault)" in text


def test_explain_names_a_default_of_a_role_alone(judge: Any, tmp_path: Path, capsys: Any) -> None:
    report(judge)
    code, text = run(tmp_path, capsys, "n2", "hugepages_attempts")
    assert (code, shown(text)) == (0, [["* 3", "default of role hugepages"]])


def test_explain_sees_the_command_line_and_ini_ranges(
    judge: Any, tmp_path: Path, capsys: Any
) -> None:
    ini = "[zzz]\nn[1:2] level=host note='a b'\n[zzz:vars]\nlevel=group\n"
    report(judge, HOSTS.replace("vars: {hugepages_attempts: 7}", "vars: {}"))
    (tmp_path / "inventory/more").write_text(ini)
    (tmp_path / "extra.yml").write_text("level: command\n")
    _, text = run(tmp_path, capsys, "n1", "level", "-e", f"@{tmp_path}/extra.yml")
    kinds = [kind for _, kind in shown(text)]
    assert kinds == ["-e", "inventory, host n[1:2]", "inventory, group zzz",
                     "inventory, group site_b", "inventory, group all"]  # fmt: skip


def test_the_priority_of_a_group_is_no_variable(judge: Any) -> None:
    hosts = HOSTS.replace("{hugepages_attempts: 5, level", "{ansible_group_priority: 2, level")
    hosts = hosts.replace("{hugepages_attempts: 6}", "{ansible_group_priority: 3}")
    assert told(report(judge, hosts).report.warnings) == ""
