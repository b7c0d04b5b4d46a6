"""A control group per host: systemd in the guest needs one of its own, and `down` finds by it
every process that a host has ever started."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from vllm_fleet.lab.process import tell

ROOT = Path("/sys/fs/cgroup")
PARENT = "vllm-fleet-lab"
# systemd's own hierarchies: alone (v2), or beside each other (hybrid).
LEGACY = ("systemd", "unified")


def hierarchies() -> list[Path]:
    """Return the hierarchies in which systemd keeps its units."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return [ROOT / name for name in LEGACY if (ROOT / name / "cgroup.procs").exists()]


def join(key: str) -> None:
    """Move this process, and so its children, into the host's group."""
    for root in hierarchies():
        group = root / PARENT / key
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.procs").write_text(str(os.getpid()))


def processes(key: str) -> set[int]:
    """Return every process in the host's group and the groups below it."""
    found: set[int] = set()
    for root in hierarchies():
        for file in (root / PARENT / key).rglob("cgroup.procs"):
            found |= _read(file)
    return found - {0}


def _read(file: Path) -> set[int]:
    try:
        return {int(line) for line in file.read_text().split()}
    except OSError:
        # The group went away while we looked.
        return set()


def kill(key: str, limit: float = 10) -> None:
    """Kill what is left in the group and remove it."""
    deadline = time.monotonic() + limit
    while (left := processes(key)) and time.monotonic() < deadline:
        for pid in left - {os.getpid()}:
            tell(pid, signal.SIGKILL)
        time.sleep(0.02)
    remove(key)


def remove(key: str) -> None:
    """Remove the host's empty groups, and the parent with the last of them."""
    for root in hierarchies():
        group = root / PARENT / key
        for folder in sorted(_folders(group), key=lambda path: len(path.parts), reverse=True):
            _rmdir(folder)
        _rmdir(root / PARENT)


def any_left() -> bool:
    """Say whether any lab's host has a group."""
    return any((root / PARENT).exists() for root in hierarchies())


def names(prefix: str) -> set[str]:
    """Return what follows this prefix in the names of the groups that there are."""
    groups = [group for root in hierarchies() for group in (root / PARENT).glob(f"{prefix}*")]
    return {group.name.removeprefix(prefix) for group in groups if group.is_dir()}


def _folders(group: Path) -> list[Path]:
    return [path for path in [group, *group.rglob("*")] if path.is_dir()]


def _rmdir(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        # Missing, or another host's group is in it.
        return
