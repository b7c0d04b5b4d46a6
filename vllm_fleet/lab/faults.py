"""Faults: what `lab break` does to a host, and how it is healed.

What a healing needs to know is kept beside the host's plan, so that it outlives a reboot.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vllm_fleet.lab.errors import LabError, LabRefusal
from vllm_fleet.lab.guest import Guest
from vllm_fleet.lab.settings import Lab
from vllm_fleet.lab.state import write_atomic

FILE = "faults.json"
SSH = "ssh.service"
HANG = "/etc/ssh/sshd_config.d/00-lab-fault.conf"
DISK = "/run/vllm-fleet-lab/full-disk"
EDIT = b"# edited by hand\n"
OWN_FILES = "etc/vllm-fleet"
Saved = dict[str, str]


@dataclass(frozen=True)
class Fault:
    """One kind of fault: `inject` gets the option and returns what `heal` needs."""

    what: str
    option: str
    inject: Callable[[Guest, str], Saved]
    heal: Callable[[Guest, Saved], None]


def refuse(guest: Guest, _option: str) -> Saved:
    guest.run("systemctl", "mask", "--runtime", "--now", SSH)
    _cut_sessions(guest)
    return {}


def heal_refuse(guest: Guest, _saved: Saved) -> None:
    guest.run("systemctl", "unmask", "--runtime", SSH)
    guest.run("systemctl", "start", SSH)


def hang(guest: Guest, _option: str) -> Saved:
    guest.path(HANG).write_text("ForceCommand sleep infinity\n", encoding="utf-8")
    guest.run("systemctl", "reload", SSH)
    _cut_sessions(guest)
    return {}


def heal_hang(guest: Guest, _saved: Saved) -> None:
    guest.path(HANG).unlink(missing_ok=True)
    guest.run("systemctl", "reload", SSH)
    _cut_sessions(guest)


def _cut_sessions(guest: Guest) -> None:
    """End what is logged in: a connection kept open would not notice the fault."""
    # pkill's status 1: there was none.
    guest.run("sh", "-c", "pkill -f '^sshd: root' || test $? -eq 1")


def edited_file(guest: Guest, option: str) -> Saved:
    path = option or _managed_file(guest)
    file = guest.path(path)
    if file.is_symlink() or not file.is_file():
        raise LabRefusal(f"{guest.name} has no plain file {path}", hint="give another --path")
    before = file.read_bytes()
    with file.open("ab") as handle:
        handle.write(EDIT)
    return {"path": path, "content": base64.b64encode(before).decode()}


def _managed_file(guest: Guest) -> str:
    root = guest.path("/")
    found = sorted(path for path in (root / OWN_FILES).rglob("*") if path.is_file())
    if not found:
        raise LabRefusal(f"{guest.name} has no file in /{OWN_FILES}", hint="give --path FILE")
    return f"/{found[0].relative_to(root)}"


def heal_edited_file(guest: Guest, saved: Saved) -> None:
    guest.path(saved["path"]).write_bytes(base64.b64decode(saved["content"]))


def stopped_unit(guest: Guest, option: str) -> Saved:
    unit = option or _engine(guest)
    guest.run("systemctl", "stop", unit)
    return {"unit": unit}


def _engine(guest: Guest) -> str:
    listed = guest.run("systemctl", "list-units", "--plain", "--no-legend", "vllm@*")
    if not listed.strip():
        raise LabRefusal(f"no unit vllm@… runs on {guest.name}", hint="give --unit UNIT")
    return listed.split()[0]


def heal_stopped_unit(guest: Guest, saved: Saved) -> None:
    guest.run("systemctl", "start", saved["unit"])


def full_disk(guest: Guest, option: str) -> Saved:
    """Lay a full file system over a folder: its content stays readable, writes fail."""
    path = option or "/opt"
    upper, work, filler = (f"{DISK}/{name}" for name in ("upper", "work", "filler"))
    guest.run("mkdir", "-p", path, DISK)
    guest.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", DISK)
    guest.run("mkdir", upper, work)
    options = f"lowerdir={path},upperdir={upper},workdir={work}"
    guest.run("mount", "-t", "overlay", "overlay", "-o", options, path)
    # dd's status 1: the disk is full, as it should be.
    guest.run("sh", "-c", f"dd if=/dev/zero of={filler} bs=4k 2>/dev/null || test $? -eq 1")
    return {"path": path}


def heal_full_disk(guest: Guest, saved: Saved) -> None:
    for place in (saved["path"], DISK):
        # (A reboot has already healed this.)
        guest.run("sh", "-c", f"! mountpoint -q {place} || umount --lazy {place}")


FAULTS = {
    "refuse": Fault("nothing answers on the ssh port", "", refuse, heal_refuse),
    "hang": Fault("ssh answers, and no command returns", "", hang, heal_hang),
    "edited-file": Fault("a managed file is changed", "path", edited_file, heal_edited_file),
    "stopped-unit": Fault("a unit is stopped", "unit", stopped_unit, heal_stopped_unit),
    "full-disk": Fault("a folder's file system is full", "path", full_disk, heal_full_disk),
}


def inject(lab: Lab, name: str, fault: str, option: str = "") -> None:
    """Break a host."""
    kind = _known(fault)
    saved = load(lab, name)
    if fault in saved:
        raise LabError(f"{name} has the fault {fault} already", hint=f"lab break {name} --heal")
    saved[fault] = kind.inject(Guest(lab, name), option)
    _save(lab, name, saved)


def _known(fault: str) -> Fault:
    if fault not in FAULTS:
        raise LabRefusal(f"unknown fault {fault!r}", hint=f"the lab knows: {', '.join(FAULTS)}")
    return FAULTS[fault]


def heal(lab: Lab, name: str, fault: str = "") -> list[str]:
    """Heal one fault of a host, or all (the last first); return which."""
    saved = load(lab, name)
    chosen = [fault] if fault else list(reversed(saved))
    for one in chosen:
        kind = _known(one)
        if one not in saved:
            raise LabRefusal(f"{name} has no fault {one}", hint=f"it has: {_some(saved)}")
        kind.heal(Guest(lab, name), saved.pop(one))
        _save(lab, name, saved)
    return chosen


def _some(saved: dict[str, Saved]) -> str:
    return ", ".join(saved) or "none"


def load(lab: Lab, name: str) -> dict[str, Saved]:
    """Return a host's faults with what healing them needs."""
    path = _file(lab, name)
    if not path.exists():
        return {}
    saved: dict[str, Saved] = json.loads(path.read_text(encoding="utf-8"))
    return saved


def _save(lab: Lab, name: str, saved: dict[str, Saved]) -> None:
    write_atomic(_file(lab, name), json.dumps(saved, indent=2), mode=0o600)


def _file(lab: Lab, name: str) -> Path:
    return lab.host_dir(name) / FILE
