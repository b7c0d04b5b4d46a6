"""The role os_baseline on blank lab hosts: checked, converged, converged again, and refused.

The tests run in order on one host of each persona: first it is blank, then it is converged.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from harness import RoleRun

pytestmark = pytest.mark.lab

MIRROR = "http://10.213.0.1:8213"
KERNEL = platform.release()
# A lab host shares its kernel with the machine below: most of /proc/sys is read-only there.
SHARED_KERNEL = {"os_baseline_sysctl_readonly": "report"}
PERSONAS = ["el8", "kylin-v10-sp2", "ubuntu-22.04"]
UNKNOWN_OS = 'NAME="Example Linux"\\nID=example\\nID_LIKE=fedora\\nVERSION_ID=3\\n'
INNOVATION = 'NAME="openEuler"\\nVERSION="23.09"\\nID="openEuler"\\nVERSION_ID="23.09"\\n'


def family(persona: str) -> str:
    return "deb" if persona.startswith("ubuntu") else "rpm"


def repository(persona: str) -> dict[str, Any]:
    """Return the lab's mirror of a persona as a repository of our own."""
    address = f"{MIRROR}/{family(persona)}/{persona}/"
    return {"name": "lab", "baseurl": address, "gpgcheck": False}


@pytest.fixture(scope="module", params=PERSONAS)
def role(request: pytest.FixtureRequest, lab_host: Callable[..., Any]) -> RoleRun:
    """Return the role on a host of a persona, with the lab's mirror as its only repository."""
    persona = request.param
    host = lab_host(f"osb-{persona.split('-')[0]}", persona)
    variables = {
        "os_baseline_repositories": [repository(persona)],
        "os_baseline_replace_repositories": True,
        "os_baseline_time_servers": ["10.213.0.1"],
        "os_baseline_user_groups": ["adm", "HwHiAiUser"],
        **SHARED_KERNEL,
    }
    return RoleRun(host.name, host.inventory, "os_baseline", variables)


def set_up(role: RoleRun, *tasks: dict[str, Any]) -> RoleRun:
    """Return the role with tasks that run on the host before it."""
    return replace(role, before=list(tasks))


def shell(command: str) -> dict[str, Any]:
    return {
        "name": "Ask the host",
        "ansible.builtin.shell": {"cmd": command},
        "check_mode": False,
        "changed_when": False,
    }


def ask(role: RoleRun, command: str) -> str:
    """Return what a shell command prints on the host, in a play whose role changes nothing."""
    done = set_up(role, shell(command)).check()
    (answer,) = [task for task in done.tasks if task.task == "Ask the host"]
    assert answer.status == "ok", done.output
    return str(answer.result["stdout"])


def test_blank_host_checked(role: RoleRun) -> None:
    before = ask(role, "ls /etc/sysctl.d /etc/security/limits.d; getent passwd vllm || true")
    done = role.check()
    assert done.ok, done.output
    for task in (
        "Write the repositories",
        "Install the packages that every host has",
        "Install the package with the headers",
        "Name the time servers",
        "Create the account",
        "Raise the limits of the account's sessions",
        "Set the kernel and read it back",
    ):
        assert task in done.changed, done.output
    assert before == ask(
        role, "ls /etc/sysctl.d /etc/security/limits.d; getent passwd vllm || true"
    )


def test_kernel_setting_that_a_container_cannot_have(role: RoleRun) -> None:
    role.variables["os_baseline_sysctl_readonly"] = "fail"
    try:
        done = role.check()
    finally:
        role.variables.update(SHARED_KERNEL)
    ((task, message),) = done.failed
    assert task == "Set the kernel and read it back"
    assert "vm.swappiness: is" in message
    assert "not settable here" in message


def test_converged(role: RoleRun) -> None:
    done = role.apply()
    assert done.ok, done.output
    assert "Set the kernel and read it back" in done.changed
    settings = ask(role, "cat /etc/sysctl.d/90-vllm-fleet.conf /proc/sys/net/core/somaxconn")
    assert "vm.swappiness = 10" in settings
    assert settings.endswith("4096")
    assert "vllm hard memlock unlimited" in ask(
        role, "cat /etc/security/limits.d/90-vllm-fleet.conf"
    )
    assert ask(role, "id -nG vllm") == "vllm adm"
    assert "server 10.213.0.1 iburst" in ask(
        role, "cat /etc/chrony.conf /etc/chrony/chrony.conf || :"
    )
    assert "10.213.0.1" in ask(role, "chronyc -n sources")


def test_headers_are_those_of_the_running_kernel(role: RoleRun) -> None:
    assert f"KERNELRELEASE := {KERNEL}" in ask(role, "cat /lib/modules/$(uname -r)/build/Makefile")


def test_checked_again_is_clean(role: RoleRun) -> None:
    done = role.check()
    assert done.ok, done.output
    assert done.changed == []


def test_converged_again_changes_nothing(role: RoleRun) -> None:
    done = role.apply()
    assert done.ok, done.output
    assert done.changed == []


def test_edited_and_stopped_is_put_right(role: RoleRun) -> None:
    ruin = "echo vm.swappiness=1 > /etc/sysctl.d/90-vllm-fleet.conf; pkill -x chronyd"
    wait = "while pgrep -x chronyd; do sleep 0.1; done"
    done = set_up(role, shell(f"{ruin}; timeout 20 sh -c '{wait}'")).apply()
    assert done.ok, done.output
    assert done.changed == ["Start the time service", "Set the kernel and read it back"]


def test_time_service_older_than_its_settings_is_restarted(role: RoleRun) -> None:
    role.variables["os_baseline_time_servers"] = ["10.213.0.1", "10.213.0.2"]
    done = role.apply()
    assert done.ok, done.output
    assert "Restart a time service that is older than its settings" in done.changed
    assert "10.213.0.2" in ask(role, "chronyc -n sources")
    assert role.apply().changed == []


def test_file_that_undoes_a_setting_is_named(role: RoleRun) -> None:
    other = "/etc/sysctl.d/99-other.conf"
    done = set_up(role, shell(f"echo net.core.somaxconn=128 > {other}")).apply()
    ask(role, f"rm {other}")
    ((_task, message),) = done.failed
    assert f"net.core.somaxconn: {other} gives it 128 after" in message


def test_missing_headers_name_both_versions(role: RoleRun) -> None:
    remove = "rm -rf /tmp/empty && mkdir /tmp/empty"
    forget = {
        "name": "Forget the headers",
        "ansible.builtin.package": {"name": headers(role), "state": "absent"},
    }
    role.variables["os_baseline_repositories"][0]["baseurl"] = empty_repository(role)
    try:
        done = set_up(role, shell(f"{remove}; {make_empty(role)}"), forget).apply()
    finally:
        role.variables["os_baseline_repositories"] = [repository(persona_of(role))]
    (_first, (task, message)) = done.failed
    assert task == "Say which headers are missing"
    assert f"runs the kernel {KERNEL} and needs the package {headers(role)}" in message
    assert role.apply().ok


def persona_of(role: RoleRun) -> str:
    return next(name for name in PERSONAS if name.split("-")[0] == role.host[len("osb-") :])


def headers(role: RoleRun) -> str:
    prefix = "linux-headers" if family(persona_of(role)) == "deb" else "kernel-devel"
    return f"{prefix}-{KERNEL}"


def empty_repository(role: RoleRun) -> str:
    return "file:///tmp/empty"


def make_empty(role: RoleRun) -> str:
    """Return the command that makes a repository without packages."""
    if family(persona_of(role)) == "deb":
        return ": > /tmp/empty/Packages"
    return (
        "mkdir /tmp/empty/repodata && printf '%s' '<?xml version=\"1.0\"?><repomd"
        ' xmlns="http://linux.duke.edu/metadata/repo"></repomd>\''
        " > /tmp/empty/repodata/repomd.xml"
    )


@pytest.mark.parametrize(
    ("release", "allow", "words"),
    [
        (UNKNOWN_OS, False, "unknown: The catalog has no row for example-3."),
        (INNOVATION, True, "not supported: It is an innovation release"),
    ],
)
def test_operating_system_that_is_refused(
    role: RoleRun, release: str, allow: bool, words: str
) -> None:
    swap = "cp -P /etc/os-release /tmp/os-release.kept && rm /etc/os-release"
    lie = shell(f"{swap} && printf '{release}' > /etc/os-release")
    role.variables["os_baseline_allow_unknown_os"] = allow
    try:
        done = set_up(role, lie).apply()
    finally:
        ask(role, "mv -f /tmp/os-release.kept /etc/os-release")
        del role.variables["os_baseline_allow_unknown_os"]
    ((task, message),) = done.failed
    assert task == "Refuse an operating system that is not supported"
    assert words in message
    assert f"Host {role.host} runs" in message
    assert "openEuler-22.03-SP1" in message
    assert done.changed == []


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("os_baseline_time_sync", "ntpd", "value of os_baseline_time_sync must be one of"),
        ("os_baseline_repositories", [], "leaves no repository"),
        ("os_baseline_repositories", [{"name": "x", "baseurl": "/srv"}], "baseurl starts with"),
        ("os_baseline_memlock", "lots", "allowed: 'unlimited' or a number of KiB"),
        ("os_baseline_user", "root", "other than root"),
        ("os_baseline_sysctl", {"vm.swappiness": 1.5}, "not a whole number"),
    ],
)
def test_bad_input_is_refused(role: RoleRun, option: str, value: Any, words: str) -> None:
    before = role.variables.get(option)
    done = replace(role, variables={**role.variables, option: value}).apply()
    ((_task, message),) = done.failed
    assert words in message
    assert done.changed == []
    assert role.variables.get(option) == before
