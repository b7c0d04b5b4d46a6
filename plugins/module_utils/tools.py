# SPDX-License-Identifier: GPL-3.0-or-later
"""Run tools that may hang: by absolute path, in a known environment, each under a time limit.

A tool that waits for a sick device in the kernel cannot even be killed. It is left alone then, and
its output lies in a file, so that nobody waits for it.
"""

import os
import signal
import subprocess
import tempfile
import time

__metaclass__ = type

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C",
    "LANGUAGE": "C",
}
LARGEST = 2 * 1024 * 1024
_KILL_GRACE = 2


class Tools:
    """Runs tools; all of them together get a budget of seconds."""

    def __init__(self, budget=90):
        self.deadline = time.monotonic() + budget

    def run(self, argv, limit=20, environment=None):
        """Return (rc, text) with both outputs in one text; rc is None where it did not end."""
        left = min(limit, self.deadline - time.monotonic())
        if left <= 0:
            return None, "not asked: the tools before it took all the time there was"
        with tempfile.TemporaryFile() as output:
            rc = _run(argv, left, dict(ENVIRONMENT, **(environment or {})), output)
            output.seek(0)
            text = output.read(LARGEST).decode("utf-8", "replace")
        return rc, text


def _run(argv, limit, environment, output):
    """Return the exit code; None at the time limit, 127 or 126 where it cannot be started."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        output.write(str(error).encode("utf-8", "replace"))
        return 127 if isinstance(error, FileNotFoundError) else 126
    try:
        return process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        _end(process)
        return None


def _end(process):
    """Kill the tool and what it started; do not wait for one that the kernel holds."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=_KILL_GRACE)
    except (OSError, subprocess.TimeoutExpired):
        pass


def find(host, paths):
    """Return (path, problem) of the first path that is there; ('', '') where none is."""
    for path in paths:
        real = host.path(path)
        if not os.path.lexists(real):
            continue
        if os.path.isdir(real):
            return path, "it is a directory"
        if not os.path.exists(real):
            return path, "it is a link to nothing"
        if not os.access(real, os.X_OK):
            return path, "it may not be executed"
        return path, ""
    return "", ""
