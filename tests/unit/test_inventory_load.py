"""Inventories that Ansible reads badly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vllm_fleet.errors import ConfigError, Problem
from vllm_fleet.inventory.load import load

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


def problem_of(*sources: str, **options: Any) -> Problem:
    with pytest.raises(ConfigError) as caught:
        load(sources, **options)
    return caught.value.problems[0]


BROKEN = "n0 ansible_host=192.0.2.8\nn1 ansible_host = 192.0.2.9\n"


def test_BR_34_a_broken_source_names_file_and_line(write: Write) -> None:
    file = write("broken.ini", BROKEN)
    problem = problem_of(file)
    assert (problem.file, problem.line) == (file, 2)
    assert "without spaces around the equals sign" in problem.hint


def test_BR_34_a_missing_source_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere.yml")
    assert problem_of(missing).file == missing


@pytest.mark.parametrize("order", [1, -1])
def test_BR_34_a_good_source_does_not_hide_a_broken_one(write: Write, order: int) -> None:
    sources = [write("good.ini", "n1\n"), write("broken.ini", BROKEN)][::order]
    problem = problem_of(*sources)
    assert problem.file.endswith("broken.ini")
    assert problem.line == 2


def test_BR_34_a_broken_file_in_a_folder_is_found(write: Write, tmp_path: Path) -> None:
    write("inv/good.ini", "n1\n")
    file = write("inv/worse.yml", "all:\n  hosts:\n    a:\n     b: [\n")
    problem = problem_of(str(tmp_path / "inv"))
    assert (problem.file, problem.line) == (file, 5)


def test_BR_34_no_hosts_at_all_is_an_error(write: Write) -> None:
    with pytest.raises(ConfigError, match="no hosts selected"):
        load([write("empty.yml", "all:\n  hosts: {}\n")])


@pytest.mark.parametrize("limit", ["npu", "n1:npu", "n1,npu", "n1:&npu", "all:!npu"])
def test_BR_34_a_limit_with_an_unknown_word_is_an_error(write: Write, limit: str) -> None:
    source = write("good.ini", "[npus]\nn1\n")
    with pytest.raises(ConfigError, match="npu is no host or group") as caught:
        load([source], limit)
    assert "did you mean npus?" in caught.value.hint


def test_BR_34_a_limit_that_leaves_nothing_is_an_error(write: Write) -> None:
    with pytest.raises(ConfigError, match="no hosts selected by --limit"):
        load([write("good.ini", "n1\n")], "all:!n1")


def test_no_inventory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm_fleet.inventory import load as module

    monkeypatch.setattr(module.constants, "DEFAULT_HOST_LIST", ["/etc/ansible/hosts"])
    with pytest.raises(ConfigError, match="give one with -i"):
        load([])


@pytest.mark.parametrize("line", ["compute[000-001]", "npu[1:b]", "npu[1:10:3]z["])
def test_BR_35_what_is_no_range_is_an_error(write: Write, line: str) -> None:
    assert problem_of(write("hosts.ini", f"[npu]\n{line}\n")).file.endswith("hosts.ini")


def test_BR_35_a_dash_range_gets_a_hint(write: Write) -> None:
    problem = problem_of(write("hosts.ini", "[npu]\nn1\ncompute[000-001]\n"))
    assert problem.line == 3
    assert problem.hint == "a range is written with a colon: [000:001]"


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("npu[001:004]", ("npu001", "npu002", "npu003", "npu004")),
        ("npu[1:10:3]", ("npu1", "npu4", "npu7", "npu10")),
        ("x[a:c]", ("xa", "xb", "xc")),
        ("[a:c]x", ("ax", "bx", "cx")),
    ],
)
def test_BR_35_good_ranges_expand(write: Write, line: str, hosts: tuple[str, ...]) -> None:
    assert load([write("hosts.ini", f"[npu]\n{line}\n")]).hosts == hosts


def test_BR_39_a_number_as_a_name_has_its_line(write: Write) -> None:
    problem = problem_of(write("hosts.yml", "all:\n  hosts:\n    n1:\n    3750:\n"))
    assert problem.line == 4
    assert "is read as a number" in problem.message
    assert problem.hint == 'quote it: "3750":'


def test_BR_43_unicode_names_survive(write: Write) -> None:
    assert load([write("hosts.ini", "计算节点-01\n")]).hosts == ("计算节点-01",)


def test_variables_are_plain_data_from_every_place(write: Write, tmp_path: Path) -> None:
    write("group_vars/all.yml", "one: {a: [1, true, 1.5, text]}\ntwo: group\n")
    write("host_vars/n1.yml", "two: host\n")
    source = write("hosts.ini", "n1 three=3\n")
    extra = write("extra.yml", "four: 4\n")
    variables = load([source], extra_vars_files=[extra]).variables["n1"]
    assert variables["one"] == {"a": [1, True, 1.5, "text"]}
    assert [type(item) for item in variables["one"]["a"]] == [int, bool, float, str]
    assert [variables[name] for name in ("two", "three", "four")] == ["host", 3, 4]


def test_a_broken_file_of_variables_names_its_line(write: Write) -> None:
    source = write("hosts.ini", "n1\n")
    extra = write("extra.yml", "a: 1\nb: [\n")
    problem = problem_of(source, extra_vars_files=[extra])
    assert problem.file == extra
    assert problem.line in {2, 3}


@pytest.mark.parametrize(
    ("text", "line"), [("---\n\tx: 1\n", 2), ("a: [1\nb: 2\n", 2), ("- a\n", 0)]
)
def test_broken_group_vars_are_an_error_and_no_crash(write: Write, text: str, line: int) -> None:
    hosts = write("inv/hosts.yml", "all: {hosts: {n1: }}\n")
    file = write("inv/group_vars/all.yml", text)
    problem = problem_of(hosts)
    assert problem.line == line
    assert file in (problem.file or problem.message)


def test_groups_and_their_parents(write: Write) -> None:
    text = "[ascend]\nn1\n[cpu]\nn2\n[serving:children]\nascend\ncpu\n"
    inventory = load([write("hosts.ini", text)], "n1")
    assert inventory.selected == ("n1",)
    assert inventory.groups["serving"] == ("n1", "n2")
    assert "serving" in inventory.parents["cpu"]
    assert inventory.matching("serving:!cpu") == ("n1",)
