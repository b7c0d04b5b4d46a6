# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes hold an NPU open. Reads /proc."""

import os
import re

__metaclass__ = type

_NODE = re.compile(r"^/dev/(davinci\d+|davinci_manager|devmm_svm|hisi_hdc)( \(deleted\))?$")
# Daemons of the driver itself: its installer stops them.
OWN = ("dmp_daemon", "msnpureport", "slogd", "log-daemon", "ascend_monitor")


def is_node(path):
    """Tell whether a path is a device node of an NPU."""
    return _NODE.match(path) is not None


def holders(proc="/proc"):
    """Return [(pid, command, node)] of the processes that hold an NPU, each process once."""
    found = []
    for name in sorted(os.listdir(proc), key=_number):
        node = _held(os.path.join(proc, name, "fd")) if name.isdigit() else None
        command = _command(os.path.join(proc, name)) if node else ""
        if node and command not in OWN:
            found.append((int(name), command, node))
    return found


def _number(name):
    return int(name) if name.isdigit() else -1


def _held(folder):
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    targets = [_target(os.path.join(folder, name)) for name in names]
    return next((target for target in sorted(targets) if is_node(target)), None)


def _target(link):
    try:
        return os.readlink(link)
    except OSError:
        return ""


def _command(folder):
    try:
        with open(os.path.join(folder, "comm"), "rb") as stream:
            return stream.read().decode("utf-8", "replace").strip()
    except (IOError, OSError):
        return "?"


def in_words(rows):
    """Return the holders for a message."""
    return ", ".join("%s (pid %d, %s)" % (command, pid, node) for pid, command, node in rows)
