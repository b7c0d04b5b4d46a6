"""The emulated machine: an ordinary host with its own kernel, NUMA nodes and boot loader.

The machine belongs to a lab of its own (bridge, network, home), so that a lab in use is left be;
only the cached image is shared.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from vllm_fleet.lab import keys, network, settings, vm, vm_qemu

pytestmark = [
    pytest.mark.lab,
    pytest.mark.vm,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]

ROOT = Path(__file__).resolve().parents[2]
HOMES = Path("/var/lib/vllm-fleet-lab-vm-test")
NODES = "/sys/devices/system/node"
PAGES = "hugepages/hugepages-2048kB/nr_hugepages"
UP = """
import sys
from pathlib import Path
from vllm_fleet.lab import vm
from vllm_fleet.lab.settings import Lab
home, cache, bridge, prefix = sys.argv[1:]
vm.up(Lab(Path(home), Path(cache), bridge, prefix))
"""


def make_lab(name: str, bridge: str, prefix: str) -> settings.Lab:
    """Make a lab whose place is always the same, and not pytest's, which other runs clear."""
    home = HOMES / name
    lab = settings.Lab(home, settings.current().cache, bridge, prefix)
    vm.down(lab)  # what a killed test run left
    shutil.rmtree(home, ignore_errors=True)
    network.raise_bridge(lab)
    keys.ensure(lab, {vm.NAME: lab.address(vm.NUMBER)})
    return lab


def remove(lab: settings.Lab) -> None:
    vm.down(lab)
    network.remove_bridge(lab)
    shutil.rmtree(lab.home)
    with contextlib.suppress(OSError):  # the other lab is there
        HOMES.rmdir()


def assert_no_trace(lab: settings.Lab) -> None:
    machine = vm_qemu.Machine(vm.NAME, lab.host_dir(vm.NAME), lab.bridge, vm.MAC)
    assert vm_qemu.pids(machine) == []
    assert not machine.home.exists()
    assert not Path("/sys/class/net", machine.tap).exists()
    assert not list(lab.cache.glob("vm-build-*"))


def wait_until(what: Callable[[], object], limit: float) -> None:
    deadline = time.monotonic() + limit
    while not what():
        assert time.monotonic() < deadline, f"not within {limit} s"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def lab() -> Iterator[settings.Lab]:
    made = make_lab("used", "vfvmtest0", "10.213.77")
    try:
        vm.up(made)
        yield made
        vm.down(made)
        assert_no_trace(made)
    finally:
        remove(made)


def told(lab: settings.Lab, command: str) -> str:
    """Run a command that must succeed, and return its words."""
    done = vm.ssh(lab, command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def boot_id(lab: settings.Lab) -> str:
    """Return the id of the present boot; nothing while the machine is away."""
    return vm.ssh(lab, "cat /proc/sys/kernel/random/boot_id").stdout.strip()


def test_it_is_an_ordinary_host_for_ansible(lab: settings.Lab, tmp_path: Path) -> None:
    host = {
        "ansible_host": lab.address(vm.NUMBER),
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(lab.client_key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={lab.known_hosts}"
        " -o StrictHostKeyChecking=yes",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {vm.NAME: host}}}), encoding="utf-8")
    ansible = Path(sys.executable).with_name("ansible")
    done = subprocess.run(
        [ansible, "-i", inventory, vm.NAME, "-m", "ansible.builtin.ping"],
        capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path,
    )  # fmt: skip
    assert '"ping": "pong"' in done.stdout, done.stdout + done.stderr


def test_the_kernel_refuses_hugepages_and_takes_vm_settings(lab: settings.Lab) -> None:
    assert told(lab, f"cat {NODES}/online") == "0-1"
    given = told(lab, f"echo 1000 >{NODES}/node1/{PAGES}; cat {NODES}/node[01]/{PAGES}").split()
    assert given[0] == "0"
    assert 0 < int(given[1]) < 1000
    told(lab, f"echo 0 >{NODES}/node1/{PAGES}")
    assert told(lab, "sysctl -n -w vm.max_map_count=262145; sysctl -n vm.max_map_count").endswith(
        "262145"
    )


def test_a_kernel_argument_goes_through_its_own_boot_loader(lab: settings.Lab) -> None:
    before = vm.status(lab)["pid"]
    boot = boot_id(lab)
    assert "hugepages=" not in told(lab, "cat /proc/cmdline")
    told(
        lab, """sed -i 's/^GRUB_CMDLINE_LINUX="/&hugepagesz=2M hugepages=40 /' /etc/default/grub"""
    )
    told(lab, "update-grub")
    told(lab, "systemctl --no-block reboot")
    wait_until(lambda: boot_id(lab) not in ("", boot), 400)
    assert "hugepages=40" in told(lab, "cat /proc/cmdline")
    assert told(lab, "cat /proc/sys/vm/nr_hugepages") == "40"
    assert vm.status(lab)["pid"] == before


def test_reset_brings_the_first_state_back(lab: settings.Lab) -> None:
    told(lab, "touch /root/mark")
    vm.reset(lab)
    assert vm.ssh(lab, "test -e /root/mark").returncode == 1
    assert "hugepages=" not in told(lab, "cat /proc/cmdline")
    assert abs(int(told(lab, "date +%s")) - time.time()) < 30


def test_up_again_changes_nothing(lab: settings.Lab) -> None:
    before = vm.status(lab)
    vm.up(lab)
    assert vm.status(lab) == before


def test_down_clears_up_after_a_killed_up() -> None:
    lab = make_lab("killed", "vfvmtest1", "10.213.78")
    arguments = [str(lab.home), str(lab.cache), lab.bridge, lab.prefix]
    process = subprocess.Popen([sys.executable, "-c", UP, *arguments], cwd=ROOT)
    try:
        wait_until(lambda: vm.status(lab)["state"] == "running", 900)
        process.send_signal(signal.SIGKILL)
        process.wait()
        vm.down(lab)
        assert_no_trace(lab)
    finally:
        process.kill()
        process.wait()
        remove(lab)
