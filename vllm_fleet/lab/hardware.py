"""Write sysfs trees for hardware that is not there: PCI devices and NUMA nodes.

A unit in the guest lays them over the kernel's (`show-hardware` in ``data/base.yml``). The files
are plain ones: a fake hugepage pool takes whatever is written to it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_fleet.lab import labdata
from vllm_fleet.lab.errors import LabRefusal

PCI = "bus/pci/devices"
NODES = "devices/system/node"
CONFIG_SIZE = 256
BITS_PER_WORD = 32
# In pages: a pool is empty until somebody fills it.
POOL = ("nr_hugepages", "free_hugepages", "surplus_hugepages")


def load(name: str) -> dict[str, Any]:
    """Return the data of one kind of hardware; an unknown name is refused with the known ones."""
    if name not in labdata.names("hardware"):
        known = ", ".join(labdata.names("hardware"))
        raise LabRefusal(f"unknown hardware {name!r}", hint=f"the lab knows: {known}")
    return labdata.read(f"hardware/{name}")


def write(target: Path, data: Mapping[str, Any]) -> None:
    """Write the trees, and the list of those to lay over /sys."""
    files = {**_pci(data), **_nodes(data), "mounts": f"{PCI}\n{NODES}\n"}
    for path, content in files.items():
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            place.write_bytes(content)
        else:
            place.write_text(content, encoding="utf-8")


def _pci(data: Mapping[str, Any]) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    for row in data["devices"]:
        folder = f"{PCI}/{row['address']}"
        values = {**data["device"], **_place(data, row["node"])}
        files |= {f"{folder}/{name}": f"{value}\n" for name, value in values.items()}
        files[f"{folder}/config"] = config_space(data["device"])
        files[f"{folder}/resource"] = f"{'0x' + '0' * 16} 0x{'0' * 16} 0x{'0' * 16}\n" * 7
        files[f"{folder}/uevent"] = _uevent(data["device"], row["address"])
    return files


def _place(data: Mapping[str, Any], node: int) -> dict[str, str]:
    cpus = node_cpus(data, node)
    return {
        "numa_node": str(node),
        "local_cpulist": cpu_list(cpus),
        "local_cpus": cpu_map(cpus, data["nodes"] * data["cpus_per_node"]),
        "irq": "0",
        "enable": "1",
        "current_link_speed": "16.0 GT/s PCIe",
        "current_link_width": "16",
        "max_link_speed": "16.0 GT/s PCIe",
        "max_link_width": "16",
    }


def config_space(device: Mapping[str, str]) -> bytes:
    """Return the start of the device's PCI configuration space (lspci reads it)."""
    number = {name: int(value, 16) for name, value in device.items()}
    head = struct.pack("<HHHH", number["vendor"], number["device"], 0x0406, 0x0010)
    head += struct.pack("<I", number["class"] << 8 | number["revision"])
    subsystem = struct.pack("<HH", number["subsystem_vendor"], number["subsystem_device"])
    return (head.ljust(0x2C, b"\0") + subsystem).ljust(CONFIG_SIZE, b"\0")


def _uevent(device: Mapping[str, str], address: str) -> str:
    bare = {name: value.removeprefix("0x").upper() for name, value in device.items()}
    return (
        f"PCI_CLASS={bare['class'].lstrip('0')}\nPCI_ID={bare['vendor']}:{bare['device']}\n"
        f"PCI_SUBSYS_ID={bare['subsystem_vendor']}:{bare['subsystem_device']}\n"
        f"PCI_SLOT_NAME={address}\n"
    )


def _nodes(data: Mapping[str, Any]) -> dict[str, str]:
    numbers = range(data["nodes"])
    every = cpu_list(numbers)
    names = ("online", "possible", "has_cpu", "has_memory", "has_normal_memory")
    files = {f"{NODES}/{name}": f"{every}\n" for name in names}
    for node in numbers:
        content = _node(data, node)
        files |= {f"{NODES}/node{node}/{name}": text for name, text in content.items()}
    return files


def _node(data: Mapping[str, Any], node: int) -> dict[str, str]:
    cpus = node_cpus(data, node)
    files = {
        "cpulist": f"{cpu_list(cpus)}\n",
        "cpumap": f"{cpu_map(cpus, data['nodes'] * data['cpus_per_node'])}\n",
        "distance": " ".join(map(str, data["distances"][node])) + "\n",
        "meminfo": meminfo(node, data["memory_kb_per_node"]),
        "numastat": "numa_hit 0\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\n"
        "local_node 0\nother_node 0\n",
    }
    for size in data["hugepage_sizes_kb"]:
        files |= {f"hugepages/hugepages-{size}kB/{name}": "0\n" for name in POOL}
    return files


def meminfo(node: int, total_kb: int) -> str:
    """Return a node's meminfo: nearly everything is free."""
    used = total_kb // 64
    rows = {"MemTotal": total_kb, "MemFree": total_kb - used, "MemUsed": used}
    lines = [f"Node {node} {name + ':':<14} {value:>9} kB\n" for name, value in rows.items()]
    pools = ("HugePages_Total", "HugePages_Free", "HugePages_Surp")
    return "".join([*lines, *(f"Node {node} {name + ':':<16} {0:>5}\n" for name in pools)])


def node_cpus(data: Mapping[str, Any], node: int) -> range:
    """Return the CPUs of a node."""
    first = node * data["cpus_per_node"]
    return range(first, first + data["cpus_per_node"])


def cpu_list(cpus: range) -> str:
    """Return a run of CPUs as the kernel lists it: `0-31`."""
    return f"{cpus[0]}-{cpus[-1]}" if len(cpus) > 1 else str(cpus[0])


def cpu_map(cpus: range, total: int) -> str:
    """Return CPUs as the kernel's bit mask: words of 32 bits, the highest first."""
    mask = sum(1 << cpu for cpu in cpus)
    words = range(-(-total // BITS_PER_WORD))
    parts = [f"{mask >> (word * BITS_PER_WORD) & 0xFFFFFFFF:08x}" for word in words]
    return ",".join(reversed(parts))
