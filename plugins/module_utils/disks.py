# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks, and how much room the file systems have that matter to us."""

import os
import re

__metaclass__ = type

# Asked for their room. A file system over the network is not: its server may hang.
PLACES = ("/", "/boot", "/usr/local", "/opt", "/var", "/var/lib/vllm", "/var/log")
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "9p", "fuse.sshfs")
_ESCAPE = re.compile(r"\\(\d{3})")


def parse_mounts(text):
    """Return [{path, device, type, options}] of /proc/self/mounts, in its order."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) > 3:
            found.append(
                {
                    "path": _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), words[1]),
                    "device": words[0],
                    "type": words[2],
                    "options": words[3].split(","),
                }
            )
    return found


def mount_of(path, mounts):
    """Return the mount that a path lies on: the longest, and of two at one place the last."""
    best = None
    for mount in mounts:
        top = mount["path"].rstrip("/") + "/"
        if (path.rstrip("/") + "/").startswith(top) and (
            best is None or len(mount["path"]) >= len(best["path"])
        ):
            best = mount
    return best


def rooms(host, places=PLACES):
    """Return one row for each file system below the places: its room in bytes and files."""
    mounts = parse_mounts(host.read("/proc/self/mounts") or "")
    found = {}
    for place in places:
        mount = mount_of(place, mounts)
        if mount is None or mount["path"] in found:
            continue
        if mount["type"] in _REMOTE or host.exists(place):
            found[mount["path"]] = _room(host, place, mount)
    return [found[path] for path in sorted(found)]


def _room(host, place, mount):
    row = {
        "path": place,
        "mount": mount["path"],
        "device": mount["device"],
        "type": mount["type"],
        "read_only": "ro" in mount["options"],
        "size": None,
        "free": None,
        "files_free_percent": None,
    }
    if mount["type"] not in _REMOTE:
        seen = os.statvfs(host.path(place))
        row["size"] = seen.f_blocks * seen.f_frsize
        row["free"] = seen.f_bavail * seen.f_frsize
        row["files_free_percent"] = (
            int(100 * seen.f_favail / seen.f_files) if seen.f_files else None
        )
    return row


def devices(host):
    """Return the disks: name, model, size in bytes, whether it turns."""
    names = [
        name for name in host.names("/sys/block") if not re.match(r"^(loop|ram|zram|sr)", name)
    ]
    return [_disk(host, name) for name in names]


def _disk(host, name):
    base = "/sys/block/" + name
    sectors = (host.read(base + "/size") or "0").strip()
    return {
        "name": name,
        "model": (host.read(base + "/device/model") or "").strip(),
        "bytes": int(sectors) * 512 if sectors.isdigit() else 0,
        "rotational": (host.read(base + "/queue/rotational") or "").strip() == "1",
    }
