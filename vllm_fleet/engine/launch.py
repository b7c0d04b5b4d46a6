"""Start ansible-playbook in a session of its own, and leave nothing behind when it must stop.

Run as a script with the standard library only. The standard input is the control line: a byte
asks for a stop, and its end says that the command itself is gone (killed, for example), which
means the same. Then ansible-playbook gets an interrupt and some time to report, after which every
process that came from it is ended and the private folder is removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 10.0
LAST_WORDS_S = 2.0


def parents() -> dict[int, int]:
    """Return the parent of every process that /proc shows."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                stat = (entry / "stat").read_text(errors="replace")
                found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def descendants(root: int) -> list[int]:
    """Return every process below ``root`` (orphans come to us: we are their subreaper)."""
    table, wanted = parents(), {root}
    grown = True
    while grown:
        more = {pid for pid, parent in table.items() if parent in wanted} - wanted
        wanted |= more
        grown = bool(more)
    return sorted(wanted - {root})


def end_all(signum: int) -> bool:
    """Signal everything below us; say whether there was anything."""
    alive = descendants(os.getpid())
    for pid in alive:
        with contextlib.suppress(OSError):
            os.kill(pid, signum)
    return bool(alive)


def reap() -> None:
    """Collect the exit status of orphans, so that they do not look alive."""
    with contextlib.suppress(OSError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def sweep() -> None:
    """End every process that came from ansible-playbook, politely first."""
    end_all(signal.SIGTERM)
    deadline = time.monotonic() + LAST_WORDS_S
    while time.monotonic() < deadline:
        reap()
        if not descendants(os.getpid()):
            return
        time.sleep(0.05)
    end_all(signal.SIGKILL)
    reap()


class Control:
    """Waits on the control line in a thread of its own, and stops the child when told to."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child
        self.cancelled = False
        self.orphaned = False
        self.done = threading.Event()

    def watch(self) -> None:
        """Wait for a byte or for the end of the line, then stop the child."""
        self.orphaned = not os.read(0, 1)
        if self.done.is_set():
            return
        self.cancelled = True
        self.child.send_signal(signal.SIGINT)
        if not self.wait_for_end():
            self.child.kill()

    def wait_for_end(self) -> bool:
        """Give the child its grace, unless a second byte says to hurry."""
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline and not self.done.wait(0.05):
            if not self.orphaned and select.select([0], [], [], 0)[0]:
                self.orphaned = not os.read(0, 1)
                if not self.orphaned:
                    return False
        return self.done.is_set()


def become_subreaper() -> None:
    """Have orphans of the run come to us instead of to init."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def ignore_signals() -> None:
    """Leave terminal signals to the command: it tells us through the control line."""
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(signum, signal.SIG_IGN)


def restore_signals() -> None:
    """Give the child the usual behaviour of the signals that we ignore."""
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(signum, signal.SIG_DFL)


def main(argv: list[str]) -> int:
    """Run ``argv[1:]``; ``argv[0]`` is the private folder to remove after a stop."""
    scratch, command = argv[0], argv[1:]
    os.setsid()
    become_subreaper()
    ignore_signals()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=restore_signals)
    control = Control(child)
    threading.Thread(target=control.watch, daemon=True).start()
    status = child.wait()
    control.done.set()
    if control.cancelled:
        sweep()
    if control.orphaned:
        shutil.rmtree(scratch, ignore_errors=True)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
