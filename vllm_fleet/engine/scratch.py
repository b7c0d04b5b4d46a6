"""A run's private folder: in memory only, for us only, and gone afterwards in every case."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vllm_fleet.errors import ConfigError

PREFIX = "vllm-fleet-run"


def memory_mounts(text: str) -> set[str]:
    """Return the mount points of ``/proc/mounts`` that live in memory."""
    rows = (line.split() for line in text.splitlines())
    return {row[1] for row in rows if len(row) > 2 and row[2] in {"tmpfs", "ramfs"}}


def base_dir() -> Path:
    """Return a writable folder in memory, or refuse: credentials must not reach a disk."""
    mounts = memory_mounts(Path("/proc/mounts").read_text(encoding="utf-8", errors="replace"))
    wanted = ["/dev/shm", os.environ.get("XDG_RUNTIME_DIR", ""), "/run"]  # noqa: S108
    for name in wanted:
        if name in mounts and os.access(name, os.W_OK | os.X_OK):
            return Path(name)
    raise ConfigError(
        "there is no writable tmpfs at /dev/shm, $XDG_RUNTIME_DIR or /run",
        hint="mount one at /dev/shm: a run keeps its credentials in memory only",
    )


def started(pid: int) -> str:
    """Return when a process started (in kernel ticks), or nothing where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def _is_left_over(folder: Path) -> bool:
    """Say whether the run that made this folder is gone."""
    pid, _, start = folder.name.removeprefix(f"{PREFIX}-").partition("-")[0].partition(".")
    return pid.isdigit() and started(int(pid)) != start


def remove_left_overs(base: Path) -> list[Path]:
    """Remove folders of runs that died without tidying up; return them."""
    gone = []
    for folder in base.glob(f"{PREFIX}-*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.getuid() and _is_left_over(folder):
                shutil.rmtree(folder, ignore_errors=True)
                gone.append(folder)
    return gone


@contextlib.contextmanager
def scratch(base: Path | None = None) -> Iterator[Path]:
    """Give a private folder in memory, and remove it afterwards whatever happens."""
    base = base or base_dir()
    remove_left_overs(base)
    owner = f"{PREFIX}-{os.getpid()}.{started(os.getpid())}-"
    folder = Path(tempfile.mkdtemp(prefix=owner, dir=base))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
