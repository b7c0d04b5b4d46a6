# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a host's files below a root directory (another one than / only in tests)."""

import os
import platform
import re

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import osinfo

__metaclass__ = type

_NODES = "/sys/devices/system/node"
_HUGEPAGES = "/sys/kernel/mm/hugepages"
_MANAGERS = ("apt-get", "dnf", "yum")
_SYSTEMD_DIRECTORIES = ("/usr/lib/systemd", "/lib/systemd")


class Host:
    """The files of one host."""

    def __init__(self, root="/"):
        self.root = root

    def path(self, path):
        """Return the real path of a path on the host."""
        return os.path.join(self.root, path.lstrip("/"))

    def read(self, path):
        """Return the text of a file; None where there is none or it cannot be read."""
        try:
            with open(self.path(path), "rb") as stream:
                return stream.read().decode("utf-8", "replace")
        except (IOError, OSError):
            return None

    def names(self, path):
        """Return the names in a directory, sorted; none where there is no such directory."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def exists(self, path):
        """Tell whether there is something at the path."""
        return os.path.exists(self.path(path))

    def link_name(self, path):
        """Return the last part of what a link points to; '' where there is no link."""
        try:
            return os.path.basename(os.readlink(self.path(path)))
        except OSError:
            return ""


def operating_system(host):
    """Return the identity of the operating system."""
    text = host.read("/etc/os-release") or host.read("/usr/lib/os-release") or ""
    return osinfo.identify(text, host.read("/etc/.productinfo") or "")


def package_manager(host, family):
    """Return the package manager that is on the host, never one that a table promises."""
    present = [name for name in _MANAGERS if host.exists("/usr/bin/" + name)]
    if os.path.realpath(host.path("/usr/bin/dnf")).endswith("/dnf5"):
        present.append("dnf5")
    return osinfo.package_manager(family, present)


def systemd_version(host):
    """Return the version of systemd as a number; None where there is none."""
    directories = list(_SYSTEMD_DIRECTORIES)
    directories += ["/usr/lib/%s-linux-gnu/systemd" % platform.machine()]
    names = [name for directory in directories for name in host.names(directory)]
    return osinfo.systemd_version(names)


def cgroup_mode(host):
    """Return v1, v2 or hybrid; '' where no control groups are mounted."""
    if host.exists("/sys/fs/cgroup/cgroup.controllers"):
        return "v2"
    if host.exists("/sys/fs/cgroup/unified/cgroup.controllers"):
        return "hybrid"
    return "v1" if host.names("/sys/fs/cgroup") else ""


def numa_nodes(host):
    """Return [{id, cpus, mem_kb}] of the NUMA nodes; none where the kernel knows no nodes."""
    ids = [re.match(r"^node(\d+)$", name) for name in host.names(_NODES)]
    return [_node(host, number) for number in sorted(int(m.group(1)) for m in ids if m)]


def _node(host, number):
    base = "%s/node%d" % (_NODES, number)
    memory = osinfo.parse_meminfo(host.read(base + "/meminfo") or "")
    return {
        "id": number,
        "cpus": (host.read(base + "/cpulist") or "").strip(),
        "mem_kb": memory.get("MemTotal", 0),
    }


def hugepage_sizes(host):
    """Return the hugepage sizes of the kernel in bytes."""
    return osinfo.parse_size_list(host.names(_HUGEPAGES))


def is_container(host):
    """Tell whether the host shares its kernel with a machine below it."""
    if host.exists("/.dockerenv") or host.exists("/run/.containerenv"):
        return True
    return bool((host.read("/run/systemd/container") or "").strip())
