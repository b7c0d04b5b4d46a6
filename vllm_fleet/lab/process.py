"""Run programs: with the C locale, with their output kept for the error message."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vllm_fleet.lab.errors import LabError

PR_SET_PDEATHSIG = 1
SHOWN_LINES = 12


def run(
    argv: Sequence[str | Path],
    *,
    limit: float = 60,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str = "",
) -> str:
    """Run a program to its end and return its standard output; its failure is a LabError."""
    command = [str(part) for part in argv]
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=limit,
            env={**os.environ, "LC_ALL": "C", "LANGUAGE": "C", **(env or {})},
            cwd=cwd,
            preexec_fn=die_with_parent(),
        )
    except FileNotFoundError as error:
        raise LabError(f"{command[0]}: no such program") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{' '.join(command[:3])} …: not done after {limit:.0f} s") from error
    if done.returncode:
        raise LabError(_failure(command, done.returncode, done.stdout + done.stderr))
    return done.stdout


def _failure(command: Sequence[str], status: int, output: str) -> str:
    tail = "\n".join(output.strip().splitlines()[-SHOWN_LINES:])
    return f"{' '.join(command)}: exit status {status}\n{tail}"


def contained(argv: Sequence[str | Path]) -> list[str]:
    """Return a command line that runs ``argv`` in namespaces of its own.

    However it ends (even killed), its processes and mounts end with it: the kernel clears them.
    """
    return [
        "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc",
        "--kill-child=KILL", "--", *map(str, argv),
    ]  # fmt: skip


def die_with_parent(signum: int = signal.SIGKILL) -> Callable[[], None]:
    """Return a function for a new child: the kernel then ends it together with its parent."""
    libc = ctypes.CDLL(None, use_errno=True)

    def ask_kernel() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signum)

    return ask_kernel


def commands() -> dict[int, list[str]]:
    """Return the command line of every process."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            argv = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:
            # It ended while we looked.
            continue
        found[int(entry.name)] = argv
    return found


def tell(pid: int, signum: int) -> None:
    """Send a signal; fine when the process has ended."""
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return
