"""One run at a time for each fleet: a file lock, which the kernel frees when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from vllm_fleet.errors import LockedError


@contextlib.contextmanager
def fleet_lock(folder: Path, run_id: str) -> Iterator[None]:
    """Hold the fleet's lock, or say who holds it."""
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(_held(folder, handle), hint="wait until it has ended") from None
        _sign(handle, run_id)
        yield
    finally:
        os.close(handle)


def _sign(handle: int, run_id: str) -> None:
    """Write down who holds the lock, for the message of the next one."""
    holder = {"run": run_id, "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(holder).encode(), 0)


def _held(folder: Path, handle: int) -> str:
    """Return the message that names the holder."""
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        who = f"run {holder['run']}, process {holder['pid']}, since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        who = "another run"
    return f"the fleet {folder.name} is locked by {who}"
