"""What ``validate`` finds, and where it says that it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vllm_fleet.inventory.check import Checker, Report
from vllm_fleet.inventory.load import load
from vllm_fleet.inventory.marks import Marks
from vllm_fleet.inventory.plays import Play, read_plays
from vllm_fleet.inventory.schema import read_settings
from vllm_fleet.inventory.specs import Finding, Option, check, load_specs

SPECS = """---
argument_specs:
  main:
    options:
      vllm_build_git_ref: {type: str}
      vllm_build_jobs: {type: int}
      vllm_build_source: {type: str, choices: [index, archive]}
      vllm_build_ok: {type: bool}
      vllm_build_share: {type: float}
      vllm_build_names: {type: list, elements: str}
      vllm_build_need: {type: path, required: true}
      vllm_build_mode: {type: str}
      vllm_build_when: {type: raw}
      vllm_build_instances:
        type: list
        elements: dict
        options:
          name: {type: str, required: true}
          port: {type: int, required: true}
          kind: {type: str, choices: [a, b]}
  plan:
    options:
      vllm_build_platforms: {type: list, elements: str, required: true}
"""
HEAD = """all:
  vars:
    vllm_fleet: {name: demo}
    vllm_build_need: /x
"""
TAIL = """  children:
    cpu:
      hosts: {n1: , n2: }
    serving: {children: {cpu: }}
"""
PLAYS = [Play("vllm_build", "serving", "/c/vllm_build.yml", (), {"vllm_build": frozenset()})]
Validate = Callable[..., Report]


@pytest.fixture
def validate(tmp_path: Path) -> Validate:
    """Return a function that checks an inventory given as text."""
    spec = tmp_path / "roles/vllm_build/meta/argument_specs.yml"
    spec.parent.mkdir(parents=True)
    spec.write_text(SPECS)

    def validate(text: str, name: str = "hosts.yml", limit: str = "") -> Report:
        source = tmp_path / "inv" / name
        source.parent.mkdir(exist_ok=True)
        source.write_text(text)
        inventory = load([str(source)], limit)
        marks = Marks(inventory.sources)
        return Checker(inventory, load_specs(tmp_path / "roles"), PLAYS, marks).report()

    return validate


def told(report: Report) -> list[tuple[int, str, str]]:
    """Return line, message and hint of every problem."""
    return [(item.line, item.message, item.hint) for item in report.problems]


def test_a_good_inventory_has_no_problems(validate: Validate) -> None:
    report = validate(HEAD + "    vllm_build_jobs: 4\n" + TAIL)
    assert told(report) == []
    assert report.settings is not None
    assert report.settings.name == "demo"


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("vllm_build_jobs: '8'", "must be a whole number, and is the string '8'", "without quotes"),
        ("vllm_build_jobs: true", "must be a whole number, and is the boolean true", ""),
        ("vllm_build_ok: 'no'", "must be true or false, and is the string 'no'", "true or false"),
        ("vllm_build_git_ref: 1234567", "must be a string, and is the number 1234567", "quote it"),
        ("vllm_build_mode: 12.50", "must be a string, and is the number 12.5", "quote it"),
        ("vllm_build_git_ref: off", "must be a string, and is the boolean false", "quote it"),
        ("vllm_build_source: archiv", "allowed: index, archive", "did you mean archive?"),
        ("vllm_build_names: one", "must be a list, and is the string 'one'", "write [one]"),
        ("vllm_build_names: [one, 2]", "vllm_build_names[1] must be a string", "quote it"),
        ("vllm_build_share: .inf", "became inf", "quote it"),
        ("vllm_build_jobs:", "has no value", "remove the line"),
        ("vllm_build_job: 8", "vllm_build_job is no known name", "did you mean vllm_build_jobs?"),
        ("vllm_biuld_jobs: 8", "is no known name", "did you mean vllm_build_jobs?"),
        ("vllm_flet: {}", "vllm_flet is no known name", "did you mean vllm_fleet?"),
        ("ansible_hots: x", "ansible_hots is no known name", "did you mean ansible_host?"),
        ("ansible_ssh_pas: x", "ansible_ssh_pas is no known name", "ansible_ssh_pass?"),
        ("something_else: .inf", "something_else became inf", "quote it"),
        ("vllm_build_instances: [{port: 1}]", "vllm_build_instances[0] lacks name", ""),
        ("vllm_build_instances: [{name: a, port: b}]", "[0].port must be a whole number", ""),
        ("vllm_build_instances: [{name: a, port: 1, pord: 2}]", "[0].pord is no option", "port?"),
        ("vllm_build_instances: [{name: a, port: 1, kind: c}]", "kind is 'c', allowed: a, b", ""),
    ],
)  # fmt: skip
def test_a_wrong_value_has_its_line_and_a_hint(
    validate: Validate, line: str, message: str, hint: str
) -> None:
    problems = told(validate(f"{HEAD}    {line}\n{TAIL}"))
    assert len(problems) == 1
    assert problems[0][0] == 5
    assert message in problems[0][1]
    assert hint in problems[0][2]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("vllm_build_jobs: 0644", "0644 becomes the number 420 (read as octal)"),
        ("vllm_build_when: 12:30:45", "12:30:45 becomes the number 45045 (read as base 60)"),
    ],
)
def test_BR_36_yaml_that_means_something_else(validate: Validate, line: str, message: str) -> None:
    problems = told(validate(f"{HEAD}    {line}\n{TAIL}"))
    assert [(number, message in text) for number, text, _ in problems] == [(5, True)]


@pytest.mark.parametrize("value", ["1234567e8", "001122e33445", "1234e567", "0x1F", "31"])
def test_BR_36_ini_values_that_become_numbers(validate: Validate, value: str) -> None:
    text = f"""[cpu]
n1 vllm_build_git_ref={value}
[serving:children]
cpu
[all:vars]
vllm_fleet={{"name": "demo"}}
vllm_build_need=/x
"""
    problems = told(validate(text, "hosts.ini"))
    assert [(line, hint.startswith("quote it")) for line, _, hint in problems] == [(2, True)]


def test_BR_36_ini_words_for_booleans_are_strings(validate: Validate) -> None:
    text = """[cpu]
n1
[serving:children]
cpu
[all:vars]
vllm_fleet={"name": "demo"}
vllm_build_need=/x
vllm_build_ok=yes
"""
    problems = told(validate(text, "hosts.ini"))
    assert [(line, "True or False" in hint) for line, _, hint in problems] == [(8, True)]


def test_templates_are_settled_at_run(validate: Validate) -> None:
    lines = "    vllm_build_jobs: '{{ 4 * 2 }}'\n    vllm_build_names: ['{{ x }}']\n"
    report = validate(HEAD + lines + TAIL)
    assert told(report) == []
    assert report.settled_at_run == ["vllm_build_jobs", "vllm_build_names"]


def test_one_problem_for_all_hosts_with_the_same_value(validate: Validate) -> None:
    report = validate(HEAD + "    vllm_build_jobs: many\n" + TAIL)
    assert [problem.hosts for problem in report.problems] == [("n1", "n2")]


def test_a_hosts_own_value_is_where_it_is_said_to_be(validate: Validate) -> None:
    text = HEAD + "    vllm_build_jobs: 1\n" + TAIL.replace("n1: ", "n1: {vllm_build_jobs: x}")
    problem = validate(text).problems[0]
    assert (problem.line, problem.hosts) == (8, ("n1",))


def test_values_in_group_vars_have_that_file(validate: Validate, tmp_path: Path) -> None:
    file = tmp_path / "inv/group_vars/cpu/build.yml"
    file.parent.mkdir(parents=True)
    file.write_text("---\nvllm_build_jobs: x\n")
    problem = validate(HEAD + TAIL).problems[0]
    assert (problem.file, problem.line) == (str(file), 2)


def test_nested_problems_have_the_line_of_the_part(validate: Validate) -> None:
    text = """    vllm_build_instances:
      - name: one
        port: 1
      - name: two
        port: x
"""
    assert [line for line, _, _ in told(validate(HEAD + text + TAIL))] == [9]


def test_a_required_option_that_is_missing_is_named(validate: Validate) -> None:
    report = validate(HEAD.replace("    vllm_build_need: /x\n", "") + TAIL)
    assert [item.message for item in report.problems] == [
        "vllm_build_need is missing: role vllm_build requires it"
    ]
    assert report.problems[0].hosts == ("n1", "n2")


def test_a_key_that_stands_twice_is_an_error(validate: Validate) -> None:
    text = HEAD + "    vllm_build_jobs: 1\n    vllm_build_jobs: 2\n" + TAIL
    assert told(validate(text)) == [(6, "vllm_build_jobs stands twice here; the first is lost", "")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{}", "vllm_fleet.name is missing"),
        ("{name: Demo}", "vllm_fleet.name must be lower-case"),
        ("{name: 7}", "vllm_fleet.name must be a string"),
        ("{name: demo, rollot: {}}", "vllm_fleet.rollot is no setting here"),
        ("{name: demo, rollout: {serial: 0}}", "vllm_fleet.rollout.serial must be a number"),
        ("{name: demo, rollout: {serial: '0%'}}", "vllm_fleet.rollout.serial must be a number"),
        ("{name: demo, rollout: {max_fail_percentage: 101}}", "max_fail_percentage"),
        ("{name: demo, rollout: 3}", "vllm_fleet.rollout must be a mapping"),
        ("[]", "vllm_fleet must be a mapping"),
    ],
)
def test_settings_are_checked(validate: Validate, settings: str, message: str) -> None:
    problems = told(validate((HEAD + TAIL).replace("{name: demo}", settings)))
    assert [(line, message in text) for line, text, _ in problems] == [(3, True)]


@pytest.mark.parametrize("serial", [1, 25, "1%", "100%", [1, "10%", 50]])
def test_good_batches(serial: object) -> None:
    assert read_settings({"name": "a", "rollout": {"serial": serial}})[1] == []


def test_settings_are_required(validate: Validate) -> None:
    text = (HEAD + TAIL).replace("    vllm_fleet: {name: demo}\n", "")
    assert "no mapping vllm_fleet" in told(validate(text))[0][1]


def test_settings_belong_into_all(validate: Validate) -> None:
    text = HEAD + TAIL.replace("n2: ", "n2: {vllm_fleet: {name: other}}")
    assert "belongs into group all" in told(validate(text))[0][1]


def test_BR_34_a_group_that_a_play_names_must_be_there(validate: Validate) -> None:
    text = HEAD + TAIL.replace("serving", "servin")
    problems = told(validate(text))
    assert problems[0][1:] == (
        "there is no group serving, and vllm_build.yml works on it",
        "did you mean servin?",
    )


def test_an_accelerator_group_is_needed(validate: Validate) -> None:
    problems = told(validate(HEAD + TAIL.replace("cpu", "gpus")))
    assert "no host is in one of the groups ascend, nvidia, cpu" in problems[0][1]


def test_group_vars_for_a_group_that_is_not_there_are_an_error(
    validate: Validate, tmp_path: Path
) -> None:
    file = tmp_path / "inv/group_vars/servin.yml"
    file.parent.mkdir(parents=True)
    file.write_text("one: 1\ntwo: 2\n")
    (problem,) = validate(HEAD + TAIL).problems
    assert problem.file == str(file)
    assert problem.message.startswith("there is no group servin")
    assert problem.hint == "did you mean serving?"


def test_a_misspelt_accelerator_group_is_guessed(validate: Validate) -> None:
    (warning,) = validate(HEAD + TAIL + "    nvida: {hosts: {x1: }}\n").warnings
    assert warning.hint == "nvida: did you mean nvidia?"


def test_a_host_has_one_accelerator(validate: Validate) -> None:
    report = validate(HEAD + TAIL + "    ascend: {hosts: {n1: }}\n")
    assert report.problems[0].hosts == ("n1",)
    assert "more than one of the groups" in report.problems[0].message


def test_hosts_that_nothing_works_on_are_a_warning(validate: Validate) -> None:
    report = validate(HEAD + TAIL + "    others: {hosts: {x1: }}\n")
    assert told(report) == []
    assert [warning.hosts for warning in report.warnings] == [("x1",)]


def test_only_the_hosts_of_the_limit_are_checked(validate: Validate) -> None:
    text = HEAD + TAIL.replace("n2: ", "n2: {vllm_build_jobs: x}")
    assert told(validate(text, limit="n1")) == []
    assert len(told(validate(text, limit="n2"))) == 1


def test_a_value_that_cannot_be_decrypted_is_named(validate: Validate) -> None:
    cipher = "$ANSIBLE_VAULT;1.1;AES256\n        6162\n"
    text = f"{HEAD}    vllm_build_git_ref: !vault |\n        {cipher}{TAIL}"
    problem = validate(text).problems[0]
    assert problem.line == 5
    assert "is encrypted" in problem.message
    assert "--vault-id" in problem.hint


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (Option("float"), 1),
        (Option("raw"), object()),
        (Option("bytes"), "64G"),
        (Option("dict"), {"any": 1}),
        (Option("list"), [1, "a", {}]),
        (Option("str", choices=("a", "b")), "{{ x }}"),
        (Option("list", elements="str", choices=("a", "b")), ["a"]),
    ],
)
def test_good_values(option: Option, value: object) -> None:
    assert list(check(option, value)) == []


def test_choices_count_for_elements() -> None:
    wanted = Option("list", elements="str", choices=("a", "b"))
    assert [item.path for item in check(wanted, ["a", "c"])] == [(1,)]
    assert isinstance(next(check(wanted, ["c"])), Finding)


def test_plays_are_read_with_their_imports(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_text(
        "- import_playbook: one.yml\n- {hosts: [a, b], roles: [x.y.role_b]}\n"
    )
    (tmp_path / "one.yml").write_text(
        """- name: "Stage one: Do it"
  hosts: serving:&cpu:!old
  tags: [one]
  roles: [{role: x.y.role_a, vars: {role_a_x: 1}}]
- name: "Stage two: Build it"
  hosts: builders
  tasks:
    - block:
        - ansible.builtin.include_role: {name: x.y.role_c, tasks_from: build}
"""
    )
    first, second, third = read_plays(tmp_path / "site.yml")
    assert (first.stage, first.groups()) == ("one", ["serving", "cpu", "old"])
    assert list(first.roles) == ["role_a"]
    assert "role_a_x" in first.roles["role_a"]
    assert (second.is_stage(), second.included) == (True, frozenset({"role_c"}))
    assert (third.stage, third.pattern, third.is_stage()) == ("", "a:b", False)
