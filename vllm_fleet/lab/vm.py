"""vm-01, the lab's emulated machine: what containers cannot show.

Its own kernel, two NUMA nodes with real hugepages that the kernel may refuse, writable ``vm.*``,
and kernel arguments through its own boot loader. For Ansible it is an ordinary host.

``up``, ``down``, ``reset`` and ``status`` take the lab, whose bridge and keys must be there.
The first ``up`` builds the image; every ``up`` ends with a snapshot of the ready machine, so that
``reset`` takes seconds.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from vllm_fleet.lab import keys, vm_image, vm_qemu, vm_seed
from vllm_fleet.lab import machine as here
from vllm_fleet.lab.errors import LabError
from vllm_fleet.lab.settings import Lab
from vllm_fleet.lab.vm_qemu import Control, Machine

__all__ = ["NAME", "NUMBER", "PROGRAMS", "down", "reset", "status", "up"]

NAME = "vm-01"
NUMBER = 14
MAC = "52:54:00:d5:00:0e"
READY_LIMIT_S = 600  # a busy machine takes minutes where an idle one takes 25 s
SNAPSHOT = "ready"

# Program -> the Debian package that brings it.
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "gpg": "gpg",
    "mkfs.ext4": "e2fsprogs",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "unshare": "util-linux",
}


def up(lab: Lab) -> None:
    """Start the machine and return once it answers over ssh; no change when it runs already."""
    here.require(PROGRAMS)
    machine = _machine(lab)
    vm_image.clean_leftovers(lab.cache)
    if not vm_qemu.pids(machine):
        _start(lab, machine, vm_image.ensure_image(lab.cache))
    wait_ready(lab)
    with Control(machine) as control:
        if SNAPSHOT not in control.monitor("info snapshots").split():
            _monitor(control, f"savevm {SNAPSHOT}")


def down(lab: Lab) -> None:
    """Cut the power and remove every trace but the cached image; fine when nothing runs."""
    machine = _machine(lab)
    vm_qemu.stop(machine)
    vm_image.clean_leftovers(lab.cache)
    shutil.rmtree(machine.home, ignore_errors=True)


def reset(lab: Lab) -> None:
    """Bring the machine back to what it was when it first answered."""
    machine = _machine(lab)
    if not (vm_qemu.pids(machine) and _go_back(machine)):
        down(lab)
        up(lab)
        return
    wait_ready(lab)
    # The snapshot woke up with its own old idea of the time.
    clock = ssh(lab, "hwclock", "--hctosys")
    if clock.returncode:
        raise LabError(f"{NAME}: its clock was not set: {clock.stderr.strip()}")


def status(lab: Lab) -> dict[str, object]:
    """Return the machine's state: ``running``, ``stopped`` (its disk is kept) or ``absent``."""
    machine = _machine(lab)
    found = vm_qemu.pids(machine)
    state = "running" if found else "stopped" if machine.overlay.exists() else "absent"
    return {
        "name": NAME,
        "state": state,
        "address": lab.address(NUMBER),
        "pid": found[0] if found else None,
        "console": str(machine.console),
    }


def ssh(lab: Lab, *command: str, limit: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run a command in the machine with the lab's key; no answer in time is ssh's status 255."""
    options = (
        "BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=yes",
        f"UserKnownHostsFile={lab.known_hosts}", "ConnectTimeout=10", "LogLevel=ERROR",
    )  # fmt: skip
    words = [f"-o{option}" for option in options]
    argv = ["ssh", "-i", str(lab.client_key), *words, f"root@{lab.address(NUMBER)}", *command]
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 255, "", f"no answer within {limit:.0f} s")


def wait_ready(lab: Lab, limit: float = READY_LIMIT_S) -> None:
    """Return when the machine answers over ssh; otherwise say what its console says."""
    machine = _machine(lab)
    deadline = time.monotonic() + limit
    why = "no answer"
    while time.monotonic() < deadline:
        if not vm_qemu.pids(machine):
            raise LabError(f"{NAME}: the emulator ended; {_console(machine)}")
        answer = ssh(lab, "true", limit=30)
        if answer.returncode == 0:
            return
        why = answer.stderr.strip() or why
        time.sleep(0.5)
    raise LabError(f"{NAME}: no ssh within {limit:.0f} s ({why}); {_console(machine)}")


def _machine(lab: Lab) -> Machine:
    return Machine(NAME, lab.host_dir(NAME), lab.bridge, MAC)


def _start(lab: Lab, machine: Machine, image: Path) -> None:
    machine.home.mkdir(parents=True, exist_ok=True)
    if not machine.overlay.exists():
        vm_seed.write(machine.seed, _identity(lab))
        vm_qemu.create_overlay(machine, image)
    vm_qemu.start(machine)


def _identity(lab: Lab) -> vm_seed.Identity:
    return vm_seed.Identity(
        name=NAME,
        address=lab.address(NUMBER),
        prefix=24,
        gateway=lab.gateway,
        host_key=lab.host_key(NAME).read_text(),
        authorized_key=keys.public_key(lab.client_key),
    )


def _go_back(machine: Machine) -> bool:
    """Load the snapshot of the ready machine; False where there is none or it does not load."""
    try:
        with Control(machine) as control:
            _monitor(control, f"loadvm {SNAPSHOT}")
    except (OSError, LabError):
        return False
    return True


def _monitor(control: Control, line: str) -> None:
    said = control.monitor(line)
    if said:
        raise LabError(f"{NAME}: {line} failed: {said}")


def _console(machine: Machine) -> str:
    if not machine.console.exists():
        return "it has no console log"
    return f"its console: {machine.console.read_text(errors='replace')[-800:]}"
