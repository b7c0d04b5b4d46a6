# SPDX-License-Identifier: GPL-3.0-or-later
"""Which process listens on a TCP port, read from /proc."""

import os
import re

LISTEN = "0A"


def listening_inodes(table, port):
    """Return the socket inodes that listen on the port, from the text of /proc/net/tcp or tcp6."""
    inodes = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
            inodes.add(fields[9])
    return inodes


def units_of(cgroup):
    """Return the path components of /proc/PID/cgroup that are service units."""
    parts = re.split("[/\n]", cgroup)
    return {part for part in parts if part.endswith(".service")}


def listeners(port, proc="/proc"):
    """Return [{pid, name, units}] of the processes that listen on the port."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        inodes |= listening_inodes(_read(proc, "net", table), port)
    wanted = {"socket:[%s]" % inode for inode in inodes}
    found = [int(pid) for pid in os.listdir(proc) if pid.isdigit()] if wanted else []
    return [_describe(proc, pid) for pid in sorted(found) if _holds(proc, pid, wanted)]


def _holds(proc, pid, wanted):
    folder = os.path.join(proc, str(pid), "fd")
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(_link(os.path.join(folder, name)) in wanted for name in names)


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _describe(proc, pid):
    name = _read(proc, str(pid), "comm").strip()
    units = sorted(units_of(_read(proc, str(pid), "cgroup")))
    return {"pid": pid, "name": name, "units": units}


def _read(*parts):
    try:
        with open(os.path.join(*parts), "rb") as stream:
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def words(listener):
    """Return one listener as a person would say it."""
    where = " of %s" % ", ".join(listener["units"]) if listener["units"] else ""
    return "process %d (%s)%s" % (listener["pid"], listener["name"], where)
