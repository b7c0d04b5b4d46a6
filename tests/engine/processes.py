"""Look at this machine's processes, and wait for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def command_lines() -> list[str]:
    """Return the command line of every process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def sleepers(marker: int) -> list[str]:
    """Return the sleeps of a certain length: a test's own mark."""
    return [line for line in command_lines() if line.startswith(f"sleep {marker}")]


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")
