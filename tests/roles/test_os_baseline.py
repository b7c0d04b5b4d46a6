"""The role os_baseline on blank lab hosts: checked, converged, converged again, and refused.

The tests run in order on one host of each persona: first it is blank, then it is converged.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from harness import RoleRun
from remote import Remote

pytestmark = pytest.mark.lab

MIRROR = "http://10.213.0.1:8213"
KERNEL = platform.release()
PERSONAS = ["el8", "kylin-v10-sp2", "ubuntu-22.04"]
OURS = "/etc/sysctl.d/90-vllm-fleet.conf"
WHAT_WE_WRITE = f"ls -d {OURS} /etc/security/limits.d/9* /var/lib/vllm 2>/dev/null || true"
UNKNOWN_OS = 'NAME="Example Linux"\nID=example\nID_LIKE=fedora\nVERSION_ID=3\n'
INNOVATION = 'NAME="openEuler"\nVERSION="23.09"\nID="openEuler"\nVERSION_ID="23.09"\n'


@dataclass(frozen=True)
class Host:
    """A lab host of a persona, with the lab's mirror as its only repository."""

    persona: str
    remote: Remote

    @property
    def family(self) -> str:
        return "deb" if self.persona.startswith("ubuntu") else "rpm"

    @property
    def headers(self) -> str:
        return ("linux-headers-" if self.family == "deb" else "kernel-devel-") + KERNEL

    def told(self, command: str) -> str:
        return self.remote.told(command)

    def role(self, **options: Any) -> RoleRun:
        """Return the role with options (without their prefix) over those of every test."""
        address = f"{MIRROR}/{self.family}/{self.persona}/"
        common = {
            "repositories": [{"name": "lab", "baseurl": address, "gpgcheck": False}],
            "replace_repositories": True,
            "time_servers": ["10.213.0.1"],
            "user_groups": ["adm", "HwHiAiUser"],
            # A lab host shares its kernel: most of /proc/sys is read-only there.
            "sysctl_readonly": "report",
            **options,
        }
        variables = {f"os_baseline_{name}": value for name, value in common.items()}
        return RoleRun(self.remote.name, self.remote.inventory, "os_baseline", variables)


def raised(lab_host: Callable[..., Any], persona: str) -> Host:
    host = lab_host(f"osb-{persona.split('-')[0]}", persona)
    return Host(persona, Remote(host.name, host.inventory))


@pytest.fixture(scope="module", params=PERSONAS)
def host(request: pytest.FixtureRequest, lab_host: Callable[..., Any]) -> Host:
    """Return a blank host, also where an earlier session has left one."""
    from vllm_fleet.lab import api

    found = raised(lab_host, request.param)
    api.reset([found.remote.name])
    return found


@pytest.fixture(scope="module")
def el8(lab_host: Callable[..., Any]) -> Host:
    """Return the converged host on which the other tests run."""
    return raised(lab_host, "el8")


def test_blank_host_checked(host: Host) -> None:
    done = host.role().check()
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
    assert host.told(WHAT_WE_WRITE) == ""


def test_converged(host: Host) -> None:
    done = host.role().apply()
    assert done.ok, done.output
    settings = host.told(f"cat {OURS} /proc/sys/net/core/somaxconn").splitlines()
    assert "vm.swappiness = 10" in settings
    assert settings[-1] == "4096"
    limits = host.told("cat /etc/security/limits.d/90-vllm-fleet.conf")
    assert "vllm hard memlock unlimited" in limits
    assert host.told("id -nG vllm") == "vllm adm"
    assert "10.213.0.1" in host.told("chronyc -n sources")
    makefile = host.told(f"cat /lib/modules/{KERNEL}/build/Makefile")
    assert f"KERNELRELEASE := {KERNEL}" in makefile


def test_checked_again_is_clean_and_converged_again_changes_nothing(host: Host) -> None:
    for again in (host.role().check(), host.role().apply()):
        assert again.ok, again.output
        assert again.changed == []


def test_repositories_of_a_run_that_was_cut_off_have_their_indexes_read(host: Host) -> None:
    if host.family == "rpm":
        pytest.skip("dnf reads what it misses by itself")
    host.told("apt-get -qq remove -y chrony && rm -f /var/lib/apt/lists/*_Packages*")
    host.told("rm -f /var/cache/apt/*.bin; touch /var/lib/apt/lists")
    for done in (host.role().check(), host.role().apply()):
        assert done.ok, done.output
        assert "Install the packages that every host has" in done.changed
    again = host.role().apply()
    assert again.ok, again.output
    assert again.changed == []


def test_edited_and_stopped_is_put_right(el8: Host) -> None:
    el8.told(f"echo vm.swappiness=1 > {OURS}; systemctl stop chronyd")
    done = el8.role().apply()
    assert done.ok, done.output
    assert done.changed == ["Start the time service", "Set the kernel and read it back"]


def test_time_service_older_than_its_settings_is_restarted(el8: Host) -> None:
    done = el8.role(time_servers=["10.213.0.2"]).apply()
    assert done.ok, done.output
    restart = "Restart a time service that is older than its settings"
    assert done.changed == ["Name the time servers", restart]
    assert "10.213.0.2" in el8.told("chronyc -n sources")


def test_kernel_setting_that_a_container_cannot_have(el8: Host) -> None:
    done = el8.role(sysctl_readonly="fail").apply()
    ((task, message),) = done.failed
    assert task == "Set the kernel and read it back"
    assert "vm.swappiness: is" in message
    assert "not settable here" in message


def test_file_that_undoes_a_setting_is_named(el8: Host) -> None:
    other = "/etc/sysctl.d/99-other.conf"
    el8.told(f"echo net.core.somaxconn=128 > {other}")
    done = el8.role().check()
    el8.told(f"rm {other}")
    ((_task, message),) = done.failed
    assert f"net.core.somaxconn: {other} gives it 128 after" in message


def test_missing_headers_name_both_versions(el8: Host) -> None:
    el8.told(f"! rpm -q {el8.headers} || rpm -e $(rpm -q {el8.headers})")
    el8.told("echo 'excludepkgs=kernel-devel*' >> /etc/dnf/dnf.conf")
    done = el8.role().apply()
    el8.told("sed -i /^excludepkgs=/d /etc/dnf/dnf.conf")
    task, message = done.failed[-1]
    assert task == "Say which headers are missing"
    assert f"runs the kernel {KERNEL} and needs the package {el8.headers}" in message
    assert "Headers that its repositories have: none" in message
    assert el8.role().apply().ok


@pytest.mark.parametrize(
    ("release", "allow", "words"),
    [
        (UNKNOWN_OS, False, "unknown: The catalog has no row for example-3."),
        (INNOVATION, True, "not supported: It is an innovation release"),
    ],
)
def test_operating_system_that_is_refused(el8: Host, release: str, allow: bool, words: str) -> None:
    el8.told("mv /etc/os-release /etc/os-release.kept")
    el8.remote.write("/etc/os-release", release)
    done = el8.role(allow_unknown_os=allow).apply()
    el8.told("mv -f /etc/os-release.kept /etc/os-release")
    ((task, message),) = done.failed
    assert task == "Refuse an operating system that is not supported"
    assert words in message
    assert f"Host {el8.remote.name} runs" in message
    assert "openEuler-22.03-SP1" in message
    assert done.changed == []


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("time_sync", "ntpd", "value of os_baseline_time_sync must be one of"),
        ("repositories", [], "leaves no repository"),
        ("repositories", [{"name": "x", "baseurl": "/srv"}], "baseurl starts with"),
        ("memlock", "lots", "allowed: 'unlimited' or a number of KiB"),
        ("user", "root", "other than root"),
    ],
)
def test_bad_input_is_refused(el8: Host, option: str, value: Any, words: str) -> None:
    done = el8.role(**{option: value}).apply()
    ((_task, message),) = done.failed
    assert words in message
    assert done.changed == []
