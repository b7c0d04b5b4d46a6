"""``validate`` and how values are written: YAML, INI, secrets in clear text, removed variables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from validation import SET, told

from vllm_fleet.engine.request import Credentials
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.marks import shell_words

PLANTED = "PLANTED-7f3a"


def ini(line: str) -> dict[str, str]:
    """Return an INI inventory with one line for host n1; it stands in line 2."""
    rest = "[serving:children]\ncpu\n[builders]\n[all:vars]\nvllm_fleet={'name': 'demo'}\n"
    return {
        "hosts.yml": "all: {children: {cpu: {hosts: {n1: }}}}\n",
        "hosts": f"[cpu]\n{line}\n{rest}",
    }


# Versions that become numbers


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("os_version: 22.03", "os_version: 22.03 becomes the number 22.03"),
        ("os_version: 20.10", "os_version: 20.10 becomes the number 20.1"),
        ("my_release: 3.10", "my_release: 3.10 becomes the number 3.1"),
        ("my: {cann: 9.0}", "my.cann: 9.0 becomes the number 9.0"),
        ("my: [{driver_version: 25.50}]", "my.driver_version: 25.50 becomes the number 25.5"),
    ],
)
def test_BR_04_a_version_that_yaml_makes_a_number(judge: Any, line: str, words: str) -> None:
    problem = judge(f"{line}\n").report.problems[0]
    assert words in problem.message
    assert "quote this value" in problem.hint
    assert problem.line == 2


@pytest.mark.parametrize("value", ["22.03", "20.10"])
def test_BR_04_a_version_that_ini_makes_a_number(judge: Any, value: str) -> None:
    problem = judge(files=ini(f"n1 os_version={value}")).report.problems[0]
    assert f"os_version: {value} becomes the number" in problem.message
    assert (Path(problem.file).name, problem.line) == ("hosts", 2)


@pytest.mark.parametrize(
    "line", ['os_version: "22.03"', "share: 0.90", "my: {threshold: 1.50}", "os_version: 22.03.1"]
)
def test_BR_04_numbers_and_quoted_versions_are_let_through(judge: Any, line: str) -> None:
    assert told(judge(f"{line}\n").report.problems) == ""


@pytest.mark.parametrize("line", ["window: 12:30:45", "mac: 10:11:22:33:44:55"])
def test_BR_36_base_60_is_refused_in_every_variable(judge: Any, line: str) -> None:
    problem = judge(f"{line}\n").report.problems[0]
    assert "(read as base 60)" in problem.message
    assert problem.line == 2


# What INI files cut


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("n1 pw_hint=pa#ss", "pw_hint"),
        ('n1 note="a b" pw_hint=pa#ss x=its', "pw_hint"),
        ("n1 a=1 color=#fff", "color"),
        ('n1 a="x#y" b=x#y', "b"),
    ],
)
def test_BR_37_a_hash_that_cuts_a_value(judge: Any, line: str, name: str) -> None:
    problem = next(p for p in judge(files=ini(line)).report.problems if "cuts" in p.message)
    assert problem.message.startswith(f"{name}: an unquoted # cuts the value")
    assert (Path(problem.file).name, problem.line) == ("hosts", 2)
    assert problem.hint == "quote the value"


@pytest.mark.parametrize(
    "line", ['n1 note="a # b"', "n1 note='x#y'", "n1 a=1 # a comment", "n1 a=1 #comment"]
)
def test_BR_37_a_quoted_hash_and_a_comment_are_let_through(judge: Any, line: str) -> None:
    report = judge(files=ini(line)).report
    assert told(report.problems + report.warnings) == ""


@pytest.mark.parametrize("line", ["n1 x=it's-'", 'n1 note=a"b"', "n1 args=-o'X Y'"])
def test_BR_37_quotes_inside_a_value_vanish(judge: Any, line: str) -> None:
    assert "quotes inside a value are taken away" in told(judge(files=ini(line)).report.warnings)


def test_BR_37_a_comment_after_a_group_variable_is_kept(judge: Any) -> None:
    files = ini("n1")
    files["hosts"] += "note=abc # not a comment\nother='abc # quoted'\n"
    warnings = judge(files=files).report.warnings
    assert [w.message for w in warnings] == ["note: the comment becomes part of the value"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('n1 a="b c" d=e', ["n1", 'a="b c"', "d=e"]),
        ("n1 a='x=\"y\"' # z", ["n1", "a='x=\"y\"'"]),
        ("n1 a=1#2 b=3", ["n1", "a=1"]),
        ("", []),
    ],
)
def test_words_of_a_line(line: str, words: list[str]) -> None:
    assert shell_words(line) == words


# Secrets


@pytest.mark.parametrize(
    "line",
    [
        f"ansible_ssh_pass: {PLANTED}",
        f"ansible_become_password: {PLANTED}",
        f"my_token: {PLANTED}",
        f"api_key: {PLANTED}",
        f"signing_key: {PLANTED}",
        f"db: {{users: [{{password: {PLANTED}}}]}}",
        f"vllm_service_environment: {{VLLM_API_KEY: {PLANTED}}}",
        f"vllm_service_secrets: {{one: {{SOMETHING: {PLANTED}}}}}",
        f"my_mirror: https://user:{PLANTED}@mirror.example/",
        f"vllm_build_index_url: https://user:{PLANTED}@mirror.example/",
        "ansible_ssh_pass: 123456",
    ],
)
def test_a_secret_in_clear_text_is_refused_and_never_shown(judge: Any, line: str) -> None:
    report = judge(f"{line}\n").report
    found = [p for p in report.problems if "in clear text" in p.message]
    assert len(found) == 1
    assert found[0].line == 2
    assert PLANTED not in told(report.problems + report.warnings + report.notes)
    assert "123456" not in told(found)


@pytest.mark.parametrize(
    "line",
    [
        "ansible_ssh_pass: '{{ vault_pass }}'",
        "ansible_ssh_pass: \"{{ lookup('ansible.builtin.env', 'X') }}\"",
        "ansible_ssh_private_key_file: /root/.ssh/id",
        "public_key: ssh-ed25519 AAAA",
        "authorized_keys: [ssh-ed25519 AAAA]",
        "gpg_key: https://mirror.example/key",
        "max_tokens: 4",
        "token_limit: 4096",
        "tokenizer: /data/tokenizer",
        "use_password: false",
        "my_password: ''",
        "my_password:",
        "password_file: /etc/x",
    ],
)
def test_what_is_no_secret_is_let_through(judge: Any, line: str) -> None:
    assert told(judge(f"{line}\n").report.problems) == ""


def test_a_secret_in_an_ini_file_is_refused(judge: Any) -> None:
    report = judge(files=ini(f"n1 ansible_ssh_pass='{PLANTED}'")).report
    assert "ansible_ssh_pass: is a secret in clear text" in told(report.problems)
    assert PLANTED not in told(report.problems)


def test_secrets_from_a_file_of_the_command_line_are_let_through(
    judge: Any, tmp_path: Path
) -> None:
    file = tmp_path / "extra.yml"
    file.write_text(f"ansible_become_password: {PLANTED}\n")
    assert told(judge(extra_vars_files=(str(file),)).report.problems) == ""


def test_encrypted_secrets_are_let_through(judge: Any, tmp_path: Path) -> None:
    cipher = "!vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\n"
    found = told(judge(f"my_token: {cipher}").report.problems)
    assert "clear text" not in found


# Files that Ansible does not read, and removed variables


def test_a_file_that_a_folder_hides_is_told(judge: Any) -> None:
    files = {"group_vars/cpu/one.yml": "my_x: 1\n", "group_vars/cpu.yml": "my_x: 2\n"}
    report = judge(files=files).report
    assert [Path(w.file).name for w in report.warnings] == ["cpu.yml"]
    assert "does not read this file" in told(report.warnings)


def test_BR_43_a_removed_variable_is_named_with_its_release(
    judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"name": "vllm_build_python", "removed": "0.2.0", "reason": "it moved",
           "today": "python_runtime_version"}  # fmt: skip
    load = Knowledge.load
    rows = {"variables": [row]}
    monkeypatch.setattr(
        Knowledge, "load", lambda self, n: rows if n == "removed_variables" else load(self, n)
    )
    problems = judge("vllm_build_python: '3.11'\n").report.problems
    assert [(p.message, p.hint, p.line) for p in problems] == [
        ("vllm_build_python was removed in 0.2.0: it moved", "today: python_runtime_version", 2)
    ]


def test_BR_43_unicode_names_work(judge: Any) -> None:
    cpu = "cpu: {hosts: {计算节点-01: {max_批: 1}}}"
    hosts = f"all: {{children: {{{cpu}, serving: {{children: {{cpu: }}}}, builders: {{}}}}}}"
    found = judge(files={"hosts.yml": hosts})
    assert found.inventory.selected == ("计算节点-01",)
    assert told(found.report.problems) == ""


@pytest.mark.parametrize(("word", "meant"), [("hots", "host"), ("ssh_pas", "ssh_pass")])
def test_BR_43_misspelt_names_of_ansible(judge: Any, word: str, meant: str) -> None:
    problem = judge(f"ansible_{word}: x\n").report.problems[0]
    assert (problem.hint, problem.line) == (f"did you mean ansible_{meant}?", 2)


def test_BR_26_sizes_of_hugepages_are_whole_numbers(judge: Any) -> None:
    report = judge("hugepages_pools: [{size: 2M, count: 16609.0}]\n").report
    assert "must be a whole number, and is the number 16609.0" in told(report.problems)
    assert told(judge("hugepages_pools: [{size: 2M, count: 16609}]\n").report.problems) == ""


def test_BR_39_numbers_as_names_of_hosts_and_groups(judge: Any) -> None:
    from vllm_fleet.errors import ConfigError

    for hosts in ("all: {hosts: {3750: }}\n", "all: {children: {910: {hosts: {a: }}}}\n"):
        with pytest.raises(ConfigError) as caught:
            judge("", settings=SET, files={"hosts.yml": hosts})
        problem = caught.value.problems[0]
        assert (problem.line, problem.hint.startswith("quote it")) == (1, True)


# What is never shown, and what is no inventory in INI


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"vllm_service_secrets: {PLANTED}", "vllm_service_secrets must be a mapping"),
        (f"vllm_build_build_environment: [{{MY_TOKEN: {PLANTED}}}]", "must be a mapping"),
        (f"hugepages_pools: [{{size: 2M, my_password: {PLANTED}}}]", "is no option here"),
        (f"vllm_fleet_platform: {{my_password: {PLANTED}}}", "is no setting here"),
    ],
)
def test_a_secret_of_a_wrong_type_is_not_shown_either(judge: Any, line: str, words: str) -> None:
    report = judge(f"{line}\n").report
    assert words in told(report.problems)
    assert PLANTED not in told(report.problems)


def test_an_encrypted_value_is_never_shown(judge: Any, tmp_path: Path) -> None:
    password = tmp_path / "vault"
    password.write_text("only for this test\n")
    beside = Path(sys.executable).parent / "ansible-vault"
    cipher = subprocess.run(
        [beside, "encrypt_string", "--vault-password-file", password, PLANTED, "--name", "x"],
        capture_output=True, text=True, check=True,
    ).stdout.removeprefix("x:")  # fmt: skip
    text = f"hugepages_attempts:{cipher}\nvllm_build_method:{cipher}\n"
    credentials = Credentials(vault_password_files=(str(password),))
    report = judge(text, credentials=credentials).report
    assert "hugepages_attempts must be a whole number" in told(report.problems)
    assert "vllm_build_method has a value that is not allowed" in told(report.problems)
    assert PLANTED not in told(report.problems + report.warnings + report.notes)


def test_a_number_that_a_hash_cuts_in_a_group(judge: Any) -> None:
    files = ini("n1")
    files["hosts"] += "my_pin=12#34\nother=a#b\n"
    problems = judge(files=files).report.problems
    assert [(p.option, p.line) for p in problems] == [("my_pin", 8)]


def test_a_program_is_not_read_as_an_inventory_in_ini(judge: Any, tmp_path: Path) -> None:
    script = """#!/bin/sh
# it's a program: x=pa#ss
echo '{"cpu": {"hosts": ["p1"]}, "serving": {"children": ["cpu"]}, "builders": {"hosts": []}}'
"""
    folder = tmp_path / "inventory"
    folder.mkdir()
    (folder / "program").write_text(script)
    (folder / "program").chmod(0o755)
    found = judge()
    assert "p1" in found.inventory.selected
    assert told(found.report.problems + found.report.warnings) == ""


def test_what_is_said_of_several_groups_of_hosts_is_said_once(judge: Any) -> None:
    own = {"host_vars/n2.yml": "vllm_fleet_release_set: ascend-2026.08\n"}
    problems = judge("vllm_fleet_platform: {chip: H200}\n", "ascend", SET, own).report.problems
    assert [(p.message.partition(" is ")[0], p.hosts) for p in problems][:1] == [
        ("vllm_fleet_platform.chip", ("n1", "n2"))
    ]
