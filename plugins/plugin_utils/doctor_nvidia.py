# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about NVIDIA GPUs and their software: facts in, findings out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.doctor_types import (
    Facts,
    Rule,
    Scene,
    Seen,
    of_kind,
    some,
)

# Exit codes of nvidia-smi with a row of their own in the catalog.
EXITS = frozenset({"2", "3", "4", "6", "8", "9", "10", "12", "13", "14", "15"})
# Answers that other rules explain better, where a driver is absent or not loaded.
EXPLAINED = frozenset({"6", "9", "12"})
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([^)]*)\): (\d+)")


def driver(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Where the bus has GPUs there is a driver, one version of it, and its module is loaded."""
    gpus, told = of_kind(facts, "gpu"), facts["hardware"]["nvidia"]
    if not gpus:
        return
    if told["nouveau_loaded"]:
        yield Seen("nouveau-loaded", "/sys/module/nouveau is there")
    if not told["loaded"]:
        if told["user_space"] or told["on_disk"]:
            seen = f"libraries {told['user_space'] or 'none'}, module {told['on_disk'] or 'none'}"
            yield Seen("gpu-module-not-loaded", f"{seen}, none loaded")
        else:
            yield Seen("gpu-driver-absent", f"{len(gpus)} GPUs ({gpus[0]['pci']}), no driver")


def agreement(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """The loaded module and the libraries are of one version."""
    told, failure = facts["hardware"]["nvidia"], facts["hardware"]["nvidia_smi"]["failure"]
    loaded, user = told["loaded"], told["user_space"]
    if not user and failure and failure["kind"] == "mismatch":
        user = failure["code"]
    if not loaded or not user or _same(loaded, user):
        return
    disk = told["on_disk"]
    seen = f"module {loaded} is loaded, libraries are {user}, module on disk: {disk or 'unknown'}"
    mixed = bool(disk) and not _same(disk, user)
    yield Seen("gpu-driver-mixed" if mixed else "gpu-driver-reboot", seen)


def _same(one: str, two: str) -> bool:
    """Say whether two versions are one; NVML leaves the last part out (580.159 of 580.159.04)."""
    short, long = sorted((one.split("."), two.split(".")), key=len)
    return long[: len(short)] == short


def tool(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """nvidia-smi is there and answers."""
    told, versions = facts["hardware"]["nvidia_smi"], facts["hardware"]["nvidia"]
    if told["state"] == "absent":
        if versions["loaded"]:
            yield Seen("nvidia-smi-missing", f"module {versions['loaded']} is loaded")
    elif told["state"] == "broken":
        yield from _failure(told["failure"], told["path"], facts)
    elif told["rc"] == 14:
        yield Seen("nvidia-smi-exit-14", f"{told['path']} ended with 14")


def _failure(failure: dict[str, str], path: str, facts: Facts) -> Iterator[Seen]:
    kind, code, said = failure["kind"], failure["code"], failure["said"]
    if kind == "timeout":
        yield Seen("nvidia-smi-hangs", f"{path}: {said}")
    elif kind == "not-executable":
        yield Seen("nvidia-smi-broken", f"{path}: {said}")
    elif kind == "mismatch":
        if not list(agreement(facts, Scene())):
            yield Seen("gpu-driver-reboot", said)
    elif code in EXPLAINED and list(driver(facts, Scene())):
        return
    else:
        yield Seen(
            f"nvidia-smi-exit-{code if code in EXITS else '255'}", f"{path} ({code}): {said}"
        )


def count(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """nvidia-smi shows every GPU of the bus."""
    bus = {row["address"] for row in of_kind(facts, "gpu")}
    shown = {row["bus_id"] for row in facts["hardware"]["nvidia_smi"]["gpus"]}
    if shown and bus - shown:
        yield Seen("gpu-missing", f"the bus has {len(bus)}, missing {some(sorted(bus - shown))}")


def health(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Every GPU is well."""
    for gpu in facts["hardware"]["nvidia_smi"]["gpus"]:
        for code, seen in _complaints(gpu):
            yield Seen(code, f"{gpu['bus_id']} ({gpu['name']}): {seen}", gpu["bus_id"])


def _complaints(gpu: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a GPU says about itself."""
    if gpu["recovery_action"]:
        yield "gpu-recovery", gpu["recovery_action"]
    if gpu["uncorrected_ecc"]:
        yield "gpu-ecc", f"{gpu['uncorrected_ecc']} errors since the driver was loaded"
    if gpu["remapped_rows"]["failure"]:
        yield "gpu-rows-failed", "row remapping has failed"
    elif gpu["remapped_rows"]["pending"] or gpu["retired_pages_pending"]:
        yield "gpu-rows-pending", "bad rows are to be replaced"
    if gpu["slowdowns"]:
        yield "gpu-slowdown", f"{', '.join(gpu['slowdowns'])} at {gpu['temperature_c']} °C"
    if gpu["persistence"] is False:
        yield "gpu-persistence-off", "persistence mode is disabled"
    state, status = gpu["fabric"]["state"], gpu["fabric"]["status"]
    if state and (state != "Completed" or status not in ("", "Success")):
        yield "fabric-not-ready", f"{state} {status}".strip()


def fabric(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Where there are NVSwitches, Fabric Manager runs in the driver's version."""
    if not of_kind(facts, "nvswitch"):
        return
    told = facts["hardware"]["nvidia"]
    units = {row["name"]: row for row in facts["units"]}
    unit = units.get("nvidia-fabricmanager.service")
    if unit is None or unit["active"] != "active":
        state = unit["active"] if unit else "not installed"
        yield Seen("fabric-manager-down", f"nvidia-fabricmanager.service is {state}")
    if told["fabric_manager"] and told["loaded"] and told["fabric_manager"] != told["loaded"]:
        seen = f"Fabric Manager {told['fabric_manager']}, driver {told['loaded']}"
        yield Seen("fabric-manager-mismatch", seen)


def kernel_log(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """The kernel reports no errors of GPUs."""
    xids: dict[str, str] = {}
    for line in facts["kernel_log"]:
        found = _XID.search(line)
        if found:
            xids[found.group(1)] = f"{found.group(1)}: Xid {found.group(2)}: {line}"
        if "not supported by open nvidia.ko" in line:
            yield Seen("gpu-open-module", line)
    for address, line in xids.items():
        yield Seen("gpu-xid", line, address)


RULES: tuple[Rule, ...] = (driver, agreement, tool, count, health, fabric, kernel_log)
