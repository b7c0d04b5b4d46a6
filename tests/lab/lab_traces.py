"""What can be seen of a lab on this machine, and waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from vllm_fleet.lab.settings import Lab


def eventually(true: Callable[[], bool], limit: float = 30) -> bool:
    """Wait until something is true; say whether it became so."""
    deadline = time.monotonic() + limit
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def traces(lab: Lab) -> dict[str, list[str]]:
    """Return everything of a lab that can be found on this machine."""
    home = str(lab.home)
    return {
        "mounts": [line for line in _lines("/proc/mounts") if home in line],
        "links": [name for name in _names("/sys/class/net") if _is_ours(lab, name)],
        "processes": [argv for argv in _commands() if home in argv or lab.gateway in argv],
        "groups": [str(path) for path in Path("/sys/fs/cgroup").rglob(f"{lab.bridge}-*")],
        "files": [home] if lab.home.exists() else [],
    }


NOTHING: dict[str, list[str]] = {
    name: [] for name in ("mounts", "links", "processes", "groups", "files")
}


def _is_ours(lab: Lab, name: str) -> bool:
    return name == lab.bridge or name.startswith("vb-t-")


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def _commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode(errors="replace").replace("\0", " "))
        except OSError:
            continue
    return found


def _names(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]
