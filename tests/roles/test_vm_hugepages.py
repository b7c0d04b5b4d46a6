"""Hugepages and vm.* on the emulated machine, whose kernel may really refuse.

The tests run in order on one machine, which is reset at the start. A module call takes seconds
there, so each run carries the kernel settings and the role together.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import RoleRun

pytestmark = [
    pytest.mark.lab,
    pytest.mark.vm,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

NAME = "vm-01"
SETTINGS = {"vm.max_map_count": 262149, "vm.swappiness": 7}
SETTINGS_FILE = "/etc/sysctl.d/90-vllm-fleet.conf"
PAGES = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
PENDING = "/var/lib/vllm-fleet/pending-reboot.d/hugepages.json"
HOG = "/dev/shm/hog"


class Machine:
    """The emulated machine, asked directly."""

    def __init__(self, inventory: Path) -> None:
        self.inventory = inventory

    def told(self, command: str) -> str:
        """Run a command that must succeed, and return its words."""
        from vllm_fleet.lab import settings, vm

        done = vm.ssh(settings.current(), command)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def pages(self) -> list[int]:
        return [int(self.told(f"cat {PAGES.format(node)}")) for node in (0, 1)]

    def boot_id(self) -> str:
        """Return the id of the present boot; nothing while the machine is away."""
        from vllm_fleet.lab import settings, vm

        return vm.ssh(settings.current(), "cat /proc/sys/kernel/random/boot_id").stdout.strip()

    def reboot(self, limit: float = 400) -> None:
        before = self.boot_id()
        self.told("systemctl --no-block reboot")
        deadline = time.monotonic() + limit
        while self.boot_id() in ("", before):
            assert time.monotonic() < deadline, f"not back within {limit} s"
            time.sleep(0.5)

    def role(self, pools: list[dict[str, Any]], **options: Any) -> RoleRun:
        """Return a run of the kernel settings and the role hugepages."""
        setting = {
            "name": "Set kernel settings",
            "vllm_fleet.baremetal.sysctl": {"values": SETTINGS},
        }
        wanted = {"hugepages_pools": pools, **{f"hugepages_{k}": v for k, v in options.items()}}
        return RoleRun(NAME, self.inventory, "hugepages", wanted, before=[setting])


@pytest.fixture(scope="module")
def machine(lab_host: Callable[[str, str], Any]) -> Machine:
    from vllm_fleet.lab import api

    host = lab_host(NAME, "debian-12")
    api.reset([NAME])
    return Machine(host.inventory)


EACH = [{"size": "2M", "count": 24, "node": "each"}]
MORE = [{"size": "2M", "count": 24, "node": "0"}, {"size": "2M", "count": 150, "node": "1"}]


def test_check_on_a_blank_host_predicts_and_touches_nothing(machine: Machine) -> None:
    before = machine.told("sysctl -n vm.max_map_count vm.swappiness")
    run = machine.role(EACH).check()
    assert run.ok, run.output
    assert run.changed == ["Set kernel settings", "Reserve the pages and read them back"]
    assert machine.pages() == [0, 0]
    assert machine.told("sysctl -n vm.max_map_count vm.swappiness") == before
    assert machine.told(f"ls -d {SETTINGS_FILE} /var/lib/vllm-fleet 2>/dev/null || true") == ""


def test_it_converges_and_a_second_run_changes_nothing(machine: Machine) -> None:
    run = machine.role(EACH).apply()
    assert run.ok, run.output
    assert machine.pages() == [24, 24]
    assert machine.told("sysctl -n vm.max_map_count vm.swappiness").split() == ["262149", "7"]
    for again in (machine.role(EACH).check(), machine.role(EACH).apply()):
        assert again.ok, again.output
        assert again.changed == []


def test_more_than_a_node_holds_is_refused_before_a_change(machine: Machine) -> None:
    run = machine.role([{"size": "2M", "count": 1000, "node": "1"}]).apply()
    assert not run.ok
    assert "node 1" in run.failed[0][1]
    assert machine.pages() == [24, 24]


def test_fewer_pages_than_asked_are_a_failure(machine: Machine) -> None:
    hog = f"of={shlex.quote(HOG)} bs=1M count=330"
    machine.told(f"numactl --membind=1 dd if=/dev/zero {hog} status=none")
    run = machine.role(MORE).apply()
    assert not run.ok
    assert "150" in run.failed[0][1]
    assert machine.pages()[1] < 150


def test_the_boot_loader_gives_what_the_running_kernel_could_not(machine: Machine) -> None:
    run = machine.role(MORE, boot_fallback=True).apply()
    assert run.ok, run.output
    assert machine.pages()[1] < 150
    assert "hugepages" in machine.told(f"cat {PENDING}")
    machine.reboot()
    assert "hugepages=174" in machine.told("cat /proc/cmdline")
    assert machine.pages() == [24, 150]
    assert machine.told("sysctl -n vm.max_map_count vm.swappiness").split() == ["262149", "7"]


def test_after_the_reboot_nothing_waits_and_nothing_changes(machine: Machine) -> None:
    first = machine.role(MORE, boot_fallback=True).apply()
    assert first.ok, first.output
    assert machine.told(f"ls {PENDING} 2>/dev/null || true") == ""
    again = machine.role(MORE, boot_fallback=True).apply()
    assert again.changed == []
