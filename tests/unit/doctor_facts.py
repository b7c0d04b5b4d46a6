"""Facts of hosts that are well, for tests that break one thing."""

from __future__ import annotations

import copy
from typing import Any

KERNEL = "5.10.0-136.12.0.86.oe2203sp1.aarch64"
GIB = 1024**3


def _device(address: str, kind: str, pci: str, node: int) -> dict[str, Any]:
    width = {"speed": "16.0 GT/s PCIe", "max_speed": "16.0 GT/s PCIe", "width": "16"}
    return {
        "address": address, "kind": kind, "pci": pci, "class": "120000", "subsystem": "19e5:3003",
        "numa_node": node, "cpus": "0-31", "driver": "", "link": {**width, "max_width": "16"},
    }  # fmt: skip


def _part(version: str, state: str = "installed", fits: str = "") -> dict[str, str]:
    return {"state": state, "version": version, "path": "/usr/local/Ascend", "fits": fits}


def _unit(name: str) -> dict[str, Any]:
    return {
        "name": name, "load": "loaded", "load_error": "", "active": "active", "sub": "running",
        "result": "success", "restarts": 0, "status": "0", "enabled": "enabled", "reload": False,
        "files": [], "started": 10.0, "newer_files": [], "journal": {},
    }  # fmt: skip


def _no_ascend() -> dict[str, Any]:
    none = _part("", "absent")
    cann = {"1": {"toolkit": none, "kernels": none}, "2": {"toolkit": none, "ops": none}}
    return {
        "driver": none, "firmware": none, "cann": copy.deepcopy(cann), "nnal": none,
        "module_loaded": False, "directories": [], "nodes": [], "network": [],
    }  # fmt: skip


def _hardware() -> dict[str, Any]:
    nodes = [{"id": node, "cpus": "0-31", "mem_kb": 1} for node in (0, 1)]
    room = {"path": "/", "mount": "/", "device": "/dev/sda1", "type": "ext4", "read_only": False}
    return {
        "pci": [],
        "npu_smi": {
            "state": "absent", "path": "", "rc": None, "failure": None, "version": "",
            "devices": [], "processes": [], "needs_environment": False, "health": {}, "board": None,
        },
        "nvidia_smi": {
            "state": "absent", "path": "", "rc": None, "failure": None, "driver": "", "cuda": "",
            "gpus": [], "topology": {},
        },
        "ascend": _no_ascend(),
        "nvidia": {
            "loaded": "", "open": None, "on_disk": "", "user_space": "", "fabric_manager": "",
            "nouveau_loaded": False,
        },
        "rdma": [{"device": "mlx5_0", "port": 1, "state": "ACTIVE", "physical": "LinkUp"}],
        "interfaces": [],
        "numa_nodes": nodes,
        "memory_kb": {"total": 1, "available": 1, "swap": 0},
        "disks": [],
        "file_systems": [{**room, "size": 200 * GIB, "free": 90 * GIB, "files_free_percent": 90}],
        "gcc": "10.3.1",
        "kernel_compiler": "10.3.1",
        "kernel_headers": {"running": KERNEL, "matching": True, "others": [], "modules": True},
    }  # fmt: skip


def host() -> dict[str, Any]:
    """Return a host without accelerators."""
    system = {"id": "openEuler", "key": "openEuler-22.03-SP1", "edition": "lts", "family": "rpm"}
    return {
        "identity": {
            "os": system, "kernel": KERNEL, "arch": "aarch64", "is_container": False,
            "python": {"executable": "/usr/bin/python3", "version": "3.9.9"},
        },
        "hardware": _hardware(),
        "clock": {"now": 1000.0, "synchronised": True},
        "reboot": {"reasons": [], "system": False, "packages": []},
        "updates": {"timers": [], "holds": []},
        "accounts": {"vllm": ["HwHiAiUser", "vllm"], "driver_user": True, "driver_group": True},
        "hugepages": [{"path": "/sys/kernel/mm/hugepages/x", "wanted": 512, "seen": 512}],
        "sysctl": [
            {"name": "vm.swappiness", "wanted": "0", "running": "0", "persisted": "0", "file": "a"}
        ],
        "boot_words": [],
        "instances": [
            {"name": "one", "release": "abc", "ascend_environment": True, "unit": True}
        ],
        "releases": [{"id": "abc", "complete": True, "packages": {"vllm": "0.23.0"},
                      "built_for": ""}],
        "listeners": {"16666": [], "60000": []},
        "selinux": {"enforcing": False, "bindings": False},
        "units": [_unit("vllm@one.service")],
        "kernel_log": [],
    }  # fmt: skip


def _npu(number: int, address: str) -> dict[str, Any]:
    return {
        "npu": number, "chip": 0, "phy": None, "name": "910B3", "health": "OK", "power_w": 90.0,
        "temperature_c": 40, "hugepages": None, "bus_id": address, "aicore_percent": 0,
        "memory_mb": {"used": 0, "total": 0}, "hbm_mb": {"used": 1, "total": 65536},
    }  # fmt: skip


def ascend() -> dict[str, Any]:
    """Return a host with two NPUs, everything installed, and an instance."""
    found = host()
    hardware, software = found["hardware"], found["hardware"]["ascend"]
    hardware["pci"] = [
        _device("0000:c1:00.0", "npu", "19e5:d802", 1),
        _device("0000:01:00.0", "npu", "19e5:d802", 0),
    ]
    board = {"driver": "25.5.0", "firmware": "7.8.0.5.216", "compatible": True}
    hardware["npu_smi"].update(
        state="good", path="/usr/local/sbin/npu-smi", rc=0, board=board,
        devices=[_npu(0, "0000:c1:00.0"), _npu(1, "0000:01:00.0")],
    )  # fmt: skip
    software.update(
        driver=_part("25.5.0", fits="[7.0.0,8.9.9]"),
        firmware=_part("7.8.0.5.216"),
        nnal=_part("8.5.0"),
        module_loaded=True,
        nodes=[
            {"path": f"/dev/{name}", "user": "HwHiAiUser", "group": "HwHiAiUser", "mode": "0660"}
            for name in ("davinci0", "davinci1", "davinci_manager")
        ],
        network=[
            {"npu": n, "wanted": f"192.0.2.{n}", "address": f"192.0.2.{n}", "link": "UP",
             "health": "Success", "tls": False}
            for n in (0, 1)
        ],
    )  # fmt: skip
    software["cann"]["2"] = {"toolkit": _part("8.5.0"), "ops": _part("8.5.0")}
    packages = {"vllm_ascend": "0.18.0", "torch": "2.9.0", "torch_npu": "2.9.0.post1"}
    packages["triton_ascend"] = "3.2.0"
    found["releases"][0].update(packages=packages, built_for="A2")
    return found


def _gpu(address: str) -> dict[str, Any]:
    return {
        "bus_id": address, "name": "NVIDIA H200", "uuid": "GPU-0", "persistence": True,
        "fabric": {"state": "Completed", "status": "Success"}, "recovery_action": "",
        "temperature_c": 36, "slowdowns": [], "uncorrected_ecc": 0,
        "remapped_rows": {"pending": False, "failure": False}, "retired_pages_pending": False,
    }  # fmt: skip


def nvidia() -> dict[str, Any]:
    """Return a host with two GPUs on an NVSwitch."""
    found = host()
    hardware = found["hardware"]
    hardware["pci"] = [
        _device("0000:3b:00.0", "gpu", "10de:2335", 0),
        _device("0000:af:00.0", "gpu", "10de:2335", 1),
        _device("0000:b0:00.0", "nvswitch", "10de:22a3", 1),
    ]
    hardware["nvidia_smi"].update(
        state="good", path="/usr/bin/nvidia-smi", rc=0, driver="580.159.04", cuda="13.0",
        gpus=[_gpu("0000:3b:00.0"), _gpu("0000:af:00.0")],
    )  # fmt: skip
    hardware["nvidia"].update(
        loaded="580.159.04", on_disk="580.159.04", user_space="580.159.04", open=True,
        fabric_manager="580.159.04",
    )  # fmt: skip
    found["units"].append(_unit("nvidia-fabricmanager.service"))
    return found
