"""``validate`` and the catalog: which versions each host gets, and whether they go together."""

from __future__ import annotations

from typing import Any

import pytest
from validation import A2, PYTHON, SET, told

from vllm_fleet.inventory.declared import settled
from vllm_fleet.inventory.resolution import Pythons, interpreter_version


def test_one_word_gives_every_host_its_versions(judge: Any) -> None:
    report = judge(A2 + PYTHON, "ascend", SET).report
    assert told(report.problems) == ""
    found = report.sets[0]
    assert found["hosts"] == ["n1", "n2"]
    assert found["resolution"]["set"]["vllm"] == "0.23.0"
    assert found["resolution"]["set"]["driver"] == "26.0.RC1"


def test_a_host_may_have_a_set_of_its_own(judge: Any) -> None:
    own = {"host_vars/n2.yml": "vllm_fleet_release_set: ascend-2026.04\n"}
    report = judge(A2 + PYTHON, "ascend", SET, own).report
    by_host = {item["hosts"][0]: item["resolution"]["set"]["vllm"] for item in report.sets}
    assert by_host == {"n1": "0.23.0", "n2": "0.18.0"}


@pytest.mark.parametrize("settings", [SET, "vllm_fleet: {name: demo}\n"])
def test_an_unknown_set_is_refused_with_its_line(judge: Any, settings: str) -> None:
    word = "ascend-2026.8"
    variables = "" if "release_set" in settings else f"vllm_fleet_release_set: {word}\n"
    settings = settings.replace("ascend-2026.08", word)
    problem = judge(variables, "ascend", settings).report.problems[0]
    assert "did you mean ascend-2026.08?" in problem.message
    assert problem.line == (3 if variables else 1)
    assert problem.hosts == ("n1", "n2")


def test_a_set_for_another_accelerator_is_refused(judge: Any) -> None:
    report = judge("", "nvidia", SET).report
    assert "The set is for hosts with ascend, and this one is nvidia." in told(report.problems)


def test_a_set_and_a_version_that_contradict_are_refused(judge: Any) -> None:
    report = judge(A2 + PYTHON + 'vllm_build_version: "0.18.0"\n', "ascend", SET).report
    assert "vllm 0.18.0" in told(report.problems)


@pytest.mark.parametrize(
    ("driver", "cann", "verdict"),
    [
        ("24.1.0", "8.5.1", "unknown"),
        ("24.1.0", "8.5.0", "bad"),
        ("24.1.RC3", "8.0.RC3", "unknown"),
        ("25.2.2", "9.1.0", "good"),
        ("25.0.RC1", "9.1.0", "bad"),
        ("26.0.RC1", "9.1.0", "good"),
    ],
)
def test_BR_16_a_driver_and_a_cann_that_do_not_belong_together(
    judge: Any, driver: str, cann: str, verdict: str
) -> None:
    text = f'{A2}  driver: "{driver}"\n  cann: "{cann}"\n{PYTHON}'
    report = judge(text, "ascend").report
    pair = f"driver {driver} with CANN {cann}"
    problems = [p for p in report.problems if p.message.startswith(pair)]
    notes = [p for p in report.notes if p.message.startswith(pair)]
    assert (bool(problems), bool(notes)) == (verdict == "bad", verdict == "unknown")
    for problem in problems:
        assert "[ascend.yml cann_hdk" in problem.message
        assert problem.line == 9
        assert problem.option == "vllm_fleet_platform.driver"


def test_BR_16_unknown_is_a_note_and_no_error(judge: Any) -> None:
    text = A2 + '  driver: "99.1.0"\n' + PYTHON
    report = judge(text, "ascend", SET).report
    assert told(report.problems) == ""
    assert "driver 99.1.0 with CANN 9.1.0: unknown" in told(report.notes)


def test_BR_16_a_bad_pair_names_the_nearest_set_that_works(judge: Any) -> None:
    platform = "vllm_fleet_platform: {os: kylin-V10-SP3, arch: aarch64, chip: a2, gcc: 7.3.0}\n"
    report = judge(platform + PYTHON, "ascend", SET).report
    assert "nearest set that works" in told(report.problems)


def test_what_only_a_host_can_tell_is_settled_at_scan(judge: Any) -> None:
    report = judge("", "ascend", SET).report
    assert told(report.problems) == ""
    pairs = {(item["left"], tuple(item["hosts"])) for item in report.settled_at_scan}
    assert ("glibc", ("n1", "n2")) in pairs
    assert ("Python of the host", ("n1", "n2")) in pairs


def test_hosts_that_do_not_serve_are_not_judged(judge: Any) -> None:
    hosts = "all: {children: {cpu: {hosts: {n1: }}, serving: {}, builders: {}}}\n"
    assert judge("", files={"hosts.yml": hosts}).report.sets == []


def test_pins_of_the_requirements_count(judge: Any) -> None:
    pins = "vllm_build_requirements: [vllm-ascend==0.18.0, torch==2.11.0, other>=1]\n"
    found = told(judge(A2 + PYTHON + pins, "ascend").report.problems)
    assert "vllm-ascend 0.18.0" in found
    assert "torch 2.11.0" in found


@pytest.mark.parametrize(
    ("chip", "words"),
    [
        ("a4", "a4 is no accelerator of the catalog"),
        ("H100", "did you mean H100 PCIe?"),
        ("[a2, b9]", "vllm_fleet_platform.chip[1] b9 is no accelerator"),
        ("H200", "the host is in group ascend | move it to group nvidia"),
        ('"10de:2335"', "move it to group nvidia"),
    ],
)
def test_a_wrong_chip_is_refused(judge: Any, chip: str, words: str) -> None:
    assert words in told(
        judge(f"vllm_fleet_platform: {{chip: {chip}}}\n", "ascend").report.problems
    )


@pytest.mark.parametrize(
    "chip", ["a2", "A2", "Ascend 910B", "Atlas 800I A2", '"19e5:d802"', '"19E5:D802"', "910B"]
)
def test_a_chip_has_many_names(judge: Any, chip: str) -> None:
    report = judge(f"vllm_fleet_platform: {{chip: {chip}}}\n", "ascend", SET).report
    assert told(report.problems) == ""
    verdicts = report.sets[0]["resolution"]["verdicts"]
    assert any("Atlas A2" in v["left"] and v["verdict"] == "good" for v in verdicts)


def test_BR_14_the_word_910B_is_told_to_be_doubtful(judge: Any) -> None:
    report = judge("vllm_fleet_platform: {chip: 910B}\n", "ascend").report
    assert "first-generation cards so, too" in told(report.notes)
    old = judge("vllm_fleet_platform: {chip: 910a}\n", "ascend").report
    assert "vllm-ascend starts with the Atlas A2" in told(old.problems)


def test_BR_17_a_declared_firmware_is_judged_with_its_driver(judge: Any) -> None:
    text = f'{A2}  driver: "25.5.0"\n  firmware: "1.0.0"\n{PYTHON}'
    report = judge(text, "ascend").report
    assert "firmware 1.0.0" in told(report.problems) + told(report.notes)


@pytest.mark.parametrize(
    ("key", "words", "is_error"),
    [
        ("openeuler-22.03-sp4", "did you mean openEuler-22.03-SP4?", True),
        ("openEuler 22.03 SP4", "did you mean openEuler-22.03-SP4?", True),
        ("openEuler-26.03", "is no system of the catalog", False),
        ("slackware-15", "is no system of the catalog", False),
    ],
)
def test_BR_03_a_systems_key_is_the_catalogs(
    judge: Any, key: str, words: str, is_error: bool
) -> None:
    report = judge(f"vllm_fleet_platform: {{os: {key}}}\n{PYTHON}").report
    assert words in told(report.problems if is_error else report.warnings)
    assert is_error or told(report.problems) == ""


@pytest.mark.parametrize(
    ("key", "kind"),
    [("kylin-V10-SP2", "good"), ("kylin-V11", "unknown"), ("openEuler-22.03-SP1", "good")],
)
def test_BR_02_a_service_pack_is_part_of_the_key(judge: Any, key: str, kind: str) -> None:
    report = judge(f"vllm_fleet_platform: {{os: {key}}}\n{PYTHON}").report
    verdicts = report.sets[0]["resolution"]["verdicts"]
    assert [v["verdict"] for v in verdicts if v["left"] == f"system {key}"] == [kind]


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("glibc", "2.34", "glibc must be a string; is 2.34 | quote it"),
        ("driver", "25.5", "driver must be a string; is 25.5 | quote it"),
        ("python", "3.10", "python must be a string; is 3.1 | quote it"),
        ("os", "22.03", "os must be a string; is 22.03 | quote it"),
        ("arch", "arm64", "did you mean aarch64?"),
        ("arch", "amd64", "did you mean x86_64?"),
        ("devices", "0", "devices input should be greater"),
        ("diver", "'1'", "vllm_fleet_platform.diver is no setting here | did you mean driver?"),
    ],
)
def test_BR_04_a_platform_is_checked(judge: Any, part: str, value: str, words: str) -> None:
    report = judge(f"vllm_fleet_platform:\n  {part}: {value}\n").report
    assert words in told(report.problems)
    assert report.problems[0].line == 3


def test_templates_in_a_platform_are_left_to_the_run(judge: Any) -> None:
    text = "vllm_fleet_platform: {arch: '{{ x }}', os: '{{ y }}', glibc: '2.34'}\n"
    assert told(judge(text).report.problems) == ""
    assert settled({"a": "{{ x }}", "b": [1, "{{ y }}"]}) == {"b": [1]}


def test_our_variables_are_known_and_misspelt_ones_are_not(judge: Any) -> None:
    found = told(judge("vllm_fleet_platfrom: {}\nvllm_fleet_relase_set: a\n").report.problems)
    assert "did you mean vllm_fleet_platform?" in found
    assert "did you mean vllm_fleet_release_set?" in found


# ansible-core and the Pythons

EL8 = "vllm_fleet_platform: {os: el-8}\n"


@pytest.mark.parametrize(
    ("variables", "kind"),
    [
        ("ansible_python_interpreter: /usr/bin/python3.6\n", "problem"),
        ("vllm_fleet_platform: {python: '3.6'}\n", "problem"),
        ("vllm_fleet_platform: {python: 3.6.8}\n", "problem"),
        (EL8 + "ansible_python_interpreter: /usr/bin/python3\n", "problem"),
        (EL8, "warning"),
        ("vllm_fleet_platform: {os: kylin-V10-SP2}\n", "warning"),
        (EL8 + "ansible_python_interpreter: /usr/bin/python3.12\n", ""),
        ("vllm_fleet_platform: {os: el-8, python: '3.11'}\n", ""),
        ("", "scan"),
        ("ansible_python_interpreter: /opt/something/python\n", "scan"),
        ("ansible_python_interpreter: '{{ x }}'\n", "scan"),
    ],
)  # fmt: skip
def test_BR_07_a_target_python_that_is_too_old(
    judge: Any, monkeypatch: pytest.MonkeyPatch, variables: str, kind: str
) -> None:
    monkeypatch.setattr("vllm_fleet.inventory.check.core_version", lambda: "2.19.14")
    report = judge(variables + PYTHON).report
    words = "with ansible-core 2.19.14: bad"
    assert (words in told(report.problems)) is (kind == "problem")
    assert (words in told(report.warnings)) is (kind == "warning")
    lost = [i for i in report.settled_at_scan if i["left"] == "Python of the host"]
    assert bool(lost) is (kind == "scan")
    if kind == "problem":
        found = next(p for p in report.problems if words in p.message)
        assert "SyntaxError" in found.message
        assert "use ansible-core 2.16" in found.hint
        assert "use ansible-core 2.21" in found.hint
        assert found.line


def test_BR_07_an_older_core_manages_older_pythons(
    judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vllm_fleet.inventory.check.core_version", lambda: "2.16.19")
    report = judge("vllm_fleet_platform: {python: '3.6'}\n" + PYTHON).report
    assert "with ansible-core" not in told(report.problems)


def test_a_controller_that_is_too_old_is_told(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "vllm_fleet.inventory.resolution.controller.python_version", lambda: "3.9.2"
    )
    monkeypatch.setattr("vllm_fleet.inventory.check.core_version", lambda: "2.19.14")
    assert "this machine: Python 3.9.2 with ansible-core" in told(judge().report.problems)
    assert Pythons.__doc__


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/usr/bin/python3.11", ("3.11", True)),
        ("/opt/vllm/python/3.11/bin/python3", ("3.11", True)),
        ("/usr/bin/python3", ("3.9.9", True)),
        ("/usr/libexec/platform-python", ("3.9.9", True)),
        ("auto_silent", ("3.9.9", False)),
        (None, ("3.9.9", False)),
        ("/opt/x/bin/python3", ("", False)),
    ],
)
def test_the_version_of_an_interpreter(path: Any, found: tuple[str, bool]) -> None:
    assert interpreter_version(path, "3.9.9") == found
