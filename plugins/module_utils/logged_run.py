# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a long command with its output in a file, a time limit, and nothing left behind."""

import io
import os
import signal
import subprocess

__metaclass__ = type

TAIL = 4000


def run_logged(command, log, env, timeout, cwd=None):
    """Append the command's output to ``log``; return its exit code, or None at the time limit."""
    with io.open(log, "ab") as stream:
        stream.write(("+ %s\n" % " ".join(command)).encode("utf-8", "replace"))
        stream.flush()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=dict(os.environ, **env),
            cwd=cwd,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end_group(process)


def _end_group(process):
    """End what is left of the command's process group, compilers included."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def tail(log, size=TAIL):
    """Return the last characters of a log."""
    with io.open(log, "rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - size))
        return stream.read().decode("utf-8", "replace")
