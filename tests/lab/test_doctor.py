"""The doctor on lab hosts: it names what was broken, and it changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vllm_fleet.lab import api, settings
from vllm_fleet.lab.guest import Guest
from vllm_fleet.lab.planning import pyenv

pytestmark = pytest.mark.lab
FIRST, SECOND = "dr-1", "dr-2"
PERSONAS = {FIRST: "openeuler-22.03-sp1", SECOND: "ubuntu-22.04"}
UNIT = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
INSTANCE = "/etc/vllm-fleet/instances/one.env"
NEEDS_PATH = """#!/bin/sh
case "$LD_LIBRARY_PATH" in
*/driver/lib64*) ;;
*) echo "npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open" >&2
exit 127 ;;
esac
test "$2" = "" && cat /usr/local/share/table || exit 1
"""
OCCUPIED = """#!/bin/sh
echo 'DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)'
echo 'dcmi module initialize failed. ret is -8005'
exit 255
"""
COLLECTIONS = Path(__file__).parents[2] / "playbooks/collections"
OLD_PYTHONS = list(pyenv().glob("3.6*"))
TABLE = Path(__file__).parents[1] / "fixtures/npu_smi/a2-910b4-25.0.rc1.1.txt"
# Everything that anybody could have changed: content, mode, owner and time of each file.
LISTING = (
    "find /etc /opt /root /usr /var/lib /srv -xdev -type f -printf '%p %m %u %s %T@\\n' | sort;"
    "find /etc /opt /root /var/lib /usr/local -xdev -type f -exec sha256sum {} + | sort"
)


@pytest.fixture(scope="module")
def inventory() -> Iterator[Path]:
    """Return the inventory of two hosts that are blank, one of them with NPUs."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    api.down([name for name in PERSONAS if name in {row["name"] for row in api.status()}])
    api.up({FIRST: PERSONAS[FIRST]}, hardware="kunpeng-920-910b")
    yield api.up({SECOND: PERSONAS[SECOND]}).inventory
    api.down(list(PERSONAS))


@pytest.fixture
def first(inventory: Path) -> Iterator[Guest]:
    yield Guest(settings.current(), FIRST)
    api.reset([FIRST])


def doctor(inventory: Path, *hosts: str) -> tuple[int, dict[str, Any]]:
    """Examine hosts as a user would."""
    done = subprocess.run(
        [sys.executable, "-m", "vllm_fleet", "doctor", "-i", str(inventory), "--json",
         "--limit", ",".join(hosts or PERSONAS)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


def codes(told: dict[str, Any], host: str = FIRST) -> set[str]:
    return {row["code"] for row in told["hosts"][host]["findings"]}


def test_one_call_names_the_hardware(inventory: Path) -> None:
    ansible = Path(sys.executable).with_name("ansible")
    module = ["-m", "vllm_fleet.baremetal.accelerators", "--check"]
    done = subprocess.run(
        [ansible, FIRST, "-i", str(inventory), *module],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS)},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    told = json.loads(done.stdout.partition("=>")[2])
    assert told["changed"] is False
    hardware = told["ansible_facts"]["vllm_fleet_hardware"]
    npus = [row for row in hardware["pci"] if row["kind"] == "npu"]
    assert [row["pci"] for row in npus] == ["19e5:d802"] * 8
    assert sorted(row["numa_node"] for row in npus) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert hardware["npu_smi"]["state"] == "absent"


def install(guest: Guest, path: str, text: str, mode: int = 0o755) -> None:
    place = guest.path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    place.chmod(mode)


def serve(guest: Guest) -> None:
    """Run something that looks like an instance of ours."""
    install(guest, "/etc/systemd/system/vllm@.service", UNIT, 0o644)
    install(guest, INSTANCE, "MODEL=a\n", 0o600)
    guest.run("systemctl", "daemon-reload")
    guest.run("systemctl", "enable", "--now", "vllm@one")


def test_blank_hosts_and_nothing_changes(inventory: Path, first: Guest) -> None:
    before = first.run("sh", "-c", LISTING)
    code, told = doctor(inventory)
    assert first.run("sh", "-c", LISTING) == before
    assert code == 2
    assert told["counts"]["examined"] == 2
    assert "npu-driver-absent" in codes(told)
    assert codes(told, SECOND) == set()


def test_several_things_at_once(inventory: Path, first: Guest) -> None:
    serve(first)
    install(first, "/run/reboot-required", "", 0o644)
    install(first, "/usr/local/sbin/npu-smi", OCCUPIED)
    install(first, "/root/.bashrc", "echo Welcome to the machine\n", 0o644)
    api.break_host(FIRST, "full-disk", "/opt")
    api.break_host(FIRST, "edited-file", INSTANCE)
    code, told = doctor(inventory)
    assert code == 2
    expected = {"disk-full", "service-stale", "reboot-pending", "npu-dcmi-8005", "login-noise"}
    assert expected <= codes(told)
    assert "npu-smi-no-devices" not in codes(told)
    api.break_host(FIRST, "stopped-unit", "vllm@one.service")
    _code, told = doctor(inventory, FIRST)
    assert "service-stopped" in codes(told)
    assert api.heal_host(FIRST) == ["stopped-unit", "edited-file", "full-disk"]


def test_br_12_a_tool_that_needs_its_environment(inventory: Path, first: Guest) -> None:
    install(first, "/usr/local/sbin/npu-smi", NEEDS_PATH)
    install(first, "/usr/local/share/table", TABLE.read_text(encoding="utf-8"), 0o644)
    _code, told = doctor(inventory, FIRST)
    assert "npu-environment" in codes(told)
    assert "npu-smi-library-missing" not in codes(told)
    # The table has one of the eight NPUs of the bus.
    assert "npu-missing" in codes(told)


def test_br_08_no_python_and_the_others_go_on(inventory: Path, first: Guest) -> None:
    first.run("sh", "-c", "for p in /usr/bin/python3*; do mv $p /var/tmp/; done")
    code, told = doctor(inventory)
    assert code == 2
    assert codes(told) == {"python-none"}
    assert told["hosts"][SECOND]["status"] == "examined"


def test_a_host_that_refuses_does_not_hold_up_the_rest(inventory: Path, first: Guest) -> None:
    api.break_host(FIRST, "refuse")
    code, told = doctor(inventory)
    assert code == 4
    assert codes(told) == {"port-refused"}
    assert told["hosts"][SECOND]["status"] == "examined"


@pytest.mark.slow
def test_a_host_that_hangs_is_cut_off(inventory: Path, first: Guest) -> None:
    api.break_host(FIRST, "hang")
    code, told = doctor(inventory)
    assert code == 3
    assert codes(told) == {"host-hangs"}
    assert told["hosts"][SECOND]["status"] == "examined"
    api.heal_host(FIRST)


@pytest.mark.skipif(not OLD_PYTHONS, reason="there is no Python 3.6 to show to a host")
def test_br_07_a_host_with_python_3_6_only(inventory: Path) -> None:
    api.down([FIRST])
    api.up({FIRST: "el8"}, python="3.6")
    code, told = doctor(inventory)
    assert code == 2
    (finding,) = told["hosts"][FIRST]["findings"]
    assert finding["code"] == "python-too-old"
    assert "3.6.15" in finding["seen"]
    assert "use ansible-core 2.16" in finding["seen"]
    assert told["hosts"][SECOND]["status"] == "examined"
