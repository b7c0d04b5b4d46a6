"""Each fault shows, and is gone once it is healed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from lab_traces import eventually

from vllm_fleet.lab import api, hosts
from vllm_fleet.lab.errors import LabError, LabRefusal
from vllm_fleet.lab.guest import Guest
from vllm_fleet.lab.settings import Lab

pytestmark = pytest.mark.lab
NAME = "t-broken"
UNIT = "[Service]\nExecStart=sleep infinity\n"


@pytest.fixture(scope="module")
def lab(own_lab: Lab) -> Iterator[Lab]:
    """Return a lab with one host, which the tests break and heal."""
    api.up({NAME: "openeuler-22.03-sp1"}, lab=own_lab)
    yield own_lab
    api.down(lab=own_lab)


@pytest.fixture
def guest(lab: Lab) -> Iterator[Guest]:
    yield Guest(lab, NAME)
    api.heal_host(NAME, lab=lab)
    assert ssh(lab, "true").returncode == 0


def address(lab: Lab) -> str:
    return str(api.status(lab=lab)[0]["address"])


def ssh(lab: Lab, command: str, limit: float = 20) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            "ssh", "-i", str(lab.client_key), "-o", f"UserKnownHostsFile={lab.known_hosts}",
            "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5",
            f"root@{address(lab)}", command,
        ],
        capture_output=True, text=True, timeout=limit, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_refuse(lab: Lab, guest: Guest) -> None:
    api.break_host(NAME, "refuse", lab=lab)
    assert "Connection refused" in ssh(lab, "true").stderr
    assert api.status(lab=lab)[0]["faults"] == ["refuse"]
    assert api.heal_host(NAME, lab=lab) == ["refuse"]
    assert eventually(lambda: hosts.answers(address(lab)))


def test_hang(lab: Lab, guest: Guest) -> None:
    api.break_host(NAME, "hang", lab=lab)
    assert hosts.answers(address(lab))
    with pytest.raises(subprocess.TimeoutExpired):
        ssh(lab, "true", limit=3)
    api.heal_host(NAME, "hang", lab=lab)
    assert ssh(lab, "echo back").stdout == "back\n"


def test_hang_ends_connections_that_are_open(lab: Lab, guest: Guest) -> None:
    before = subprocess.Popen(
        ["ssh", "-i", str(lab.client_key), "-o", f"UserKnownHostsFile={lab.known_hosts}",
         f"root@{address(lab)}", "echo in; sleep infinity"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert before.stdout is not None
    assert before.stdout.readline() == "in\n"
    api.break_host(NAME, "hang", lab=lab)
    assert before.wait(timeout=20) != 0


def test_edited_file(lab: Lab, guest: Guest) -> None:
    with pytest.raises(LabRefusal, match="has no file in /etc/vllm-fleet"):
        api.break_host(NAME, "edited-file", lab=lab)
    guest.run("sh", "-c", "mkdir -p /etc/vllm-fleet && echo MODEL=a > /etc/vllm-fleet/one.env")
    guest.run("chmod", "600", "/etc/vllm-fleet/one.env")
    api.break_host(NAME, "edited-file", lab=lab)
    assert guest.run("cat", "/etc/vllm-fleet/one.env") == "MODEL=a\n# edited by hand\n"
    api.heal_host(NAME, lab=lab)
    assert guest.run("cat", "/etc/vllm-fleet/one.env") == "MODEL=a\n"
    assert guest.run("stat", "-c", "%a", "/etc/vllm-fleet/one.env") == "600\n"


def test_edited_file_of_a_given_path(lab: Lab, guest: Guest) -> None:
    api.break_host(NAME, "edited-file", "/etc/hostname", lab=lab)
    assert guest.run("cat", "/etc/hostname") == f"{NAME}\n# edited by hand\n"


def test_stopped_unit(lab: Lab, guest: Guest) -> None:
    guest.path("/etc/systemd/system/vllm@.service").write_text(UNIT)
    guest.run("systemctl", "daemon-reload")
    guest.run("systemctl", "start", "vllm@one")
    api.break_host(NAME, "stopped-unit", lab=lab)
    assert active(guest, "vllm@one") == "inactive"
    api.heal_host(NAME, lab=lab)
    assert active(guest, "vllm@one") == "active"


def test_stopped_unit_of_a_given_name(lab: Lab, guest: Guest) -> None:
    api.break_host(NAME, "stopped-unit", "systemd-logind.service", lab=lab)
    assert active(guest, "systemd-logind") == "inactive"


def active(guest: Guest, unit: str) -> str:
    return guest.run("systemctl", "show", "--value", "--property=ActiveState", unit).strip()


def test_full_disk(lab: Lab, guest: Guest) -> None:
    guest.run("sh", "-c", "mkdir -p /opt/vllm && echo kept > /opt/vllm/file")
    api.break_host(NAME, "full-disk", lab=lab)
    assert ssh(lab, "cat /opt/vllm/file").stdout == "kept\n"
    wrote = ssh(lab, "head -c 100000 /dev/zero > /opt/vllm/new")
    assert wrote.returncode != 0
    assert "No space left on device" in wrote.stderr
    assert "No space left on device" in ssh(lab, "echo more >> /opt/vllm/file").stderr
    api.heal_host(NAME, lab=lab)
    assert ssh(lab, "echo more >> /opt/vllm/file && cat /opt/vllm/file").stdout == "kept\nmore\n"


def test_a_reboot_does_not_confuse_the_healing(lab: Lab, guest: Guest) -> None:
    api.break_host(NAME, "full-disk", "/srv", lab=lab)
    guest.run("systemctl", "reboot")
    assert eventually(lambda: _rebooted(lab, guest.init))
    assert api.heal_host(NAME, lab=lab) == ["full-disk"]


def _rebooted(lab: Lab, old_init: int) -> bool:
    return old_init not in hosts.cgroup_processes(lab, NAME) and hosts.answers(address(lab))


def test_what_is_refused(lab: Lab, guest: Guest) -> None:
    with pytest.raises(LabRefusal, match="unknown fault 'fire'"):
        api.break_host(NAME, "fire", lab=lab)
    with pytest.raises(LabRefusal, match="no lab host nobody is up"):
        api.break_host("nobody", "refuse", lab=lab)
    with pytest.raises(LabRefusal, match="has no fault hang"):
        api.heal_host(NAME, "hang", lab=lab)
    api.break_host(NAME, "edited-file", "/etc/hostname", lab=lab)
    with pytest.raises(LabError, match="has the fault edited-file already"):
        api.break_host(NAME, "edited-file", "/etc/hostname", lab=lab)
