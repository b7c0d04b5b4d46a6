"""Kernel limits that are too low for a fleet on one machine: raised for as long as it is up."""

from __future__ import annotations

import json
from pathlib import Path

from vllm_fleet.lab import cgroups
from vllm_fleet.lab.settings import Lab
from vllm_fleet.lab.state import write_atomic

ROOT = Path("/proc/sys")
# systemd takes about a dozen inotify instances, and all guests' root is one user to the kernel.
NEEDED = {"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 262144}


def lift(lab: Lab) -> None:
    """Raise what is too low; the old values are written down first."""
    before = {name: int((ROOT / name).read_text()) for name in NEEDED}
    low = {name: value for name, value in before.items() if value < NEEDED[name]}
    if not low:
        return
    write_atomic(_file(lab), json.dumps({**low, **_remembered(lab)}))
    for name in low:
        (ROOT / name).write_text(str(NEEDED[name]))


def restore(lab: Lab) -> None:
    """Put the old values back, unless another lab still has hosts."""
    if cgroups.any_left():
        return
    for name, value in _remembered(lab).items():
        (ROOT / name).write_text(str(value))
    _file(lab).unlink(missing_ok=True)


def _remembered(lab: Lab) -> dict[str, int]:
    path = _file(lab)
    values: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    return values


def _file(lab: Lab) -> Path:
    """In the cache: whichever lab goes last restores them."""
    return lab.cache / "limits.json"
