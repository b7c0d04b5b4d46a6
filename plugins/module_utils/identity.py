# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is: operating system, kernel, libraries, layout. Reads files only."""

import os
import platform
import sys

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import hostread, osinfo

__metaclass__ = type


def glibc():
    """Return the version of glibc; empty where the C library is another one."""
    try:
        name, _space, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (ValueError, OSError):
        return ""
    return version if name == "glibc" else ""


def collect(host):
    """Return the identity of a host."""
    system = hostread.operating_system(host)
    memory = osinfo.parse_meminfo(host.read("/proc/meminfo") or "")
    kernel = os.uname()
    return {
        "os": system,
        "kernel": kernel.release,
        "arch": kernel.machine,
        "page_size": os.sysconf("SC_PAGE_SIZE"),
        "glibc": glibc(),
        "systemd": hostread.systemd_version(host),
        "cgroup": hostread.cgroup_mode(host),
        "package_manager": hostread.package_manager(host, system["family"]),
        "python": {"executable": sys.executable, "version": platform.python_version()},
        "numa_nodes": hostread.numa_nodes(host),
        "hugepage_sizes": hostread.hugepage_sizes(host),
        "memory_kb": memory.get("MemTotal", 0),
        "cpus": os.sysconf("SC_NPROCESSORS_ONLN"),
        "is_container": hostread.is_container(host),
    }
