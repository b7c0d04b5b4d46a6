# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that a host has for serving models, in one go."""

import os

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    disks,
    hostread,
    kernel_build,
    npu_host,
    nvidia_host,
    osinfo,
    pci,
    rdma,
)

__metaclass__ = type


def collect(host, runner):
    """Return the accelerators, what their tools and records say, and what lies around them."""
    kernel = os.uname()
    devices = pci.devices(host)
    return {
        "pci": devices,
        "npu_smi": npu_host.smi(host, runner),
        "nvidia_smi": nvidia_host.smi(host, runner),
        "ascend": _ascend(host, runner, kernel.machine),
        "nvidia": nvidia_host.versions(host, runner, kernel.machine),
        "rdma": rdma.links(host),
        "interfaces": rdma.interfaces(host),
        "numa_nodes": hostread.numa_nodes(host),
        "memory_kb": _memory(host),
        "disks": disks.devices(host),
        "file_systems": disks.rooms(host),
        "gcc": kernel_build.compiler(host, runner),
        "kernel_compiler": kernel_build.kernel_compiler(host.read("/proc/version") or ""),
        "kernel_headers": kernel_build.headers(host, kernel.release),
    }


def _ascend(host, runner, machine):
    found = npu_host.software(host, machine)
    found["nodes"] = npu_host.nodes(host)
    found["network"] = npu_host.network(host, runner, found["driver"]["path"])
    return found


def _memory(host):
    """Return total, available and swap in kB."""
    found = osinfo.parse_meminfo(host.read("/proc/meminfo") or "")
    return {
        "total": found.get("MemTotal", 0),
        "available": found.get("MemAvailable", 0),
        "swap": found.get("SwapTotal", 0),
    }
