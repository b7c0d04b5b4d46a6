# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pairs must fit on a host with NVIDIA GPUs. Each rule judges one kind of pair."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.resolver_types import (
    BAD,
    GOOD,
    UNKNOWN,
    Case,
    Row,
)


def gpus(case: Case) -> list[Row]:
    """Return the catalog rows of the host's GPUs."""
    rows = case.rows("nvidia", "gpus")
    ids = {pci.lower()[:9] for pci in case.host.chips}
    return [row for row in rows if ids & set(row["pci"])]


def capabilities(case: Case) -> list[tuple[str, str]]:
    """Return (name, compute capability) of the GPUs: what the driver says comes first."""
    if case.host.compute_capability:
        return [("GPU", case.host.compute_capability)]
    return [(row["name"], row["compute_capability"]) for row in gpus(case)]


def engine_row(case: Case) -> Row | None:
    """Return what the wanted vLLM needs of CUDA and GPU."""
    vllm = case.set.get("vllm")
    rows = case.rows("nvidia", "engines")
    return next((r for r in rows if vllm and versions.matches(vllm, r["vllm"])), None)


def gpu_with_engine(case: Case) -> None:
    """Judge each GPU by the compute capability that this vLLM is compiled for."""
    row, right = engine_row(case), f"vllm {case.set.get('vllm')}"
    if row is None:
        return
    known = capabilities(case)
    if not case.host.chips and not known:
        case.unsettled("the GPU", right, "PCI id of the GPU")
    elif not known:
        case.say(
            f"chip {', '.join(case.host.chips)}", right, UNKNOWN, "The catalog lacks this GPU."
        )
    for name, capability in known:
        least = row["compute_capability"]
        fits = versions.matches(capability, f">={least}")
        reason = f"It has compute capability {capability}; this vLLM needs {least} or later."
        where = f"nvidia.yml engines: vllm {row['vllm']}"
        case.say(name, right, GOOD if fits else BAD, reason, row=row, where=where)


def driver_with_cuda(case: Case) -> None:
    """Judge the driver for CUDA: of its release, by minor compatibility, by a package."""
    cuda, driver = case.set.get("cuda"), case.set.get("driver")
    if cuda is None:
        return
    right = f"CUDA {cuda}"
    if driver is None:
        case.unsettled("the driver", right, "installed driver")
        return
    left = f"driver {driver}"
    row = _cuda_row(case, "cuda", cuda)
    if row is None:
        case.say(left, right, UNKNOWN, "No row has this CUDA.")
    elif versions.matches(driver, row["driver"]):
        reason = f"This CUDA was released for drivers {row['driver']}."
        case.say(left, right, GOOD, reason, row=row, where=f"nvidia.yml cuda: {row['cuda']}")
    elif not _by_compatibility(case, left, right, cuda, driver):
        reason = f"This CUDA needs a driver {row['driver']}."
        case.say(left, right, BAD, reason, row=row, where=f"nvidia.yml cuda: {row['cuda']}",
                 remedy="Install a newer driver, or take a release for an older CUDA.")  # fmt: skip


def _cuda_row(case: Case, section: str, cuda: str) -> Row | None:
    rows = case.rows("nvidia", section)
    return next((row for row in rows if versions.matches(cuda, row["cuda"])), None)


def _by_compatibility(case: Case, left: str, right: str, cuda: str, driver: str) -> bool:
    """Judge an older driver by what NVIDIA promises for it; say whether anything is promised."""
    minor = _cuda_row(case, "minor_compatibility", cuda)
    if minor and versions.matches(driver, minor["driver"]):
        reason = (f"Within this major version drivers {minor['driver']} are enough, "
                  "except for code that is compiled at run time.")  # fmt: skip
        where = f"nvidia.yml minor_compatibility: {minor['cuda']}"
        case.say(left, right, GOOD, reason, row=minor, where=where)
        return True
    forward = _cuda_row(case, "forward_compatibility", cuda)
    if forward and driver.split(".")[0] in forward["branches"]:
        reason = "It works with the compatibility package of this CUDA, on data-centre GPUs only."
        where = f"nvidia.yml forward_compatibility: {forward['cuda']}"
        case.say(left, right, UNKNOWN, reason, row=forward, where=where,
                 remedy="Install the compatibility package, or a newer driver.")  # fmt: skip
        return True
    return False


def gpu_with_cuda(case: Case) -> None:
    """Judge each GPU by the least CUDA that knows it."""
    cuda = case.set.get("cuda")
    for name, capability in capabilities(case) if cuda else []:
        rows = case.rows("nvidia", "capabilities")
        row = next((r for r in rows if versions.matches(capability, r["compute_capability"])), None)
        if row is not None and cuda is not None and not versions.matches(cuda, row["cuda"]):
            reason = f"A GPU of compute capability {capability} needs CUDA {row['cuda']}."
            where = f"nvidia.yml capabilities: {row['compute_capability']}"
            case.say(name, f"CUDA {cuda}", BAD, reason, row=row, where=where)


def driver_with_branch(case: Case) -> None:
    """Judge the driver by the life of its branch."""
    driver = case.set.get("driver")
    if driver is None:
        return
    branch = driver.split(".")[0]
    row = next((r for r in case.rows("nvidia", "branches") if r["branch"] == branch), None)
    left, right = f"driver {driver}", f"branch {branch}"
    where = f"nvidia.yml branches: {branch}"
    if row is None:
        case.say(left, right, UNKNOWN, "NVIDIA's list of supported branches does not name it.")
    elif case.wanted.month and row["eol"] < case.wanted.month:
        reason = f"Its support ended in {row['eol']}: no more fixes, also for security."
        case.say(left, right, UNKNOWN, reason, row=row, where=where)
    else:
        case.say(left, right, GOOD, f"Supported until {row['eol']}.", row=row, where=where)


def modules_with_gpu(case: Case) -> None:
    """Judge the flavour of the kernel modules for GPUs and driver."""
    flavour = case.wanted.kernel_modules or case.host.kernel_modules
    driver = case.set.get("driver")
    for gpu in gpus(case):
        row = _modules_row(case, gpu["architecture"])
        if row is None:
            continue
        where = f"nvidia.yml kernel_modules: {', '.join(row['architectures'])}"
        if row.get("driver") and driver and not versions.matches(driver, row["driver"]):
            reason = f"GPUs of this generation need a driver {row['driver']}."
            case.say(gpu["name"], f"driver {driver}", BAD, reason, row=row, where=where)
        if flavour:
            _flavour(case, gpu, row, flavour, where)
    rule = case.catalog.get("nvidia", {}).get("proprietary_modules")
    if flavour == "proprietary" and driver and rule:
        fits = versions.matches(driver, rule["driver"])
        reason = f"Proprietary modules exist for drivers {rule['driver']} only."
        case.say("proprietary kernel modules", f"driver {driver}", GOOD if fits else BAD, reason,
                 row=rule, where="nvidia.yml proprietary_modules")  # fmt: skip


def _modules_row(case: Case, architecture: str) -> Row | None:
    rows = case.rows("nvidia", "kernel_modules")
    return next((row for row in rows if architecture in row["architectures"]), None)


def _flavour(case: Case, gpu: Row, row: Row, flavour: str, where: str) -> None:
    wrong = {"impossible": "open", "required": "proprietary"}.get(row["open"])
    reason = f"Open kernel modules are {row['open']} for this generation."
    verdict = BAD if flavour == wrong else GOOD
    case.say(gpu["name"], f"{flavour} kernel modules", verdict, reason, row=row, where=where)


def system_with_repository(case: Case) -> None:
    """Say how a driver gets onto this system."""
    if case.host.os is None:
        case.unsettled("the operating system", "NVIDIA's repositories", "operating system")
        return
    rows = case.rows("nvidia", "repositories")
    row = next((r for r in rows if case.host.os in r["os"]), None)
    left = f"system {case.host.os}"
    where = f"nvidia.yml repositories: {case.host.os}"
    driver = case.set.get("driver")
    if row is None or row["path"] is None:
        reason = "NVIDIA has no repository for it; the runfile installs."
        case.say(left, "NVIDIA's repositories", UNKNOWN, reason, row=row, where=where)
    elif case.host.arch and case.host.arch not in row["arches"]:
        reason = f"NVIDIA's repository is for {', '.join(row['arches'])}; the runfile installs."
        case.say(left, "NVIDIA's repositories", UNKNOWN, reason, row=row, where=where)
    elif driver and row.get("drivers") and not versions.matches(driver, row["drivers"]):
        reason = f"NVIDIA's repository has drivers {row['drivers']} for it."
        case.say(left, f"driver {driver}", BAD, reason, row=row, where=where)
    else:
        reason = f"Packages from {row['path']}, by {row['install']}."
        case.say(left, "NVIDIA's repositories", GOOD, reason, row=row, where=where)


def fabric_with_driver(case: Case) -> None:
    """Judge Fabric Manager: with NVSwitch it must be exactly the driver's version."""
    driver = case.set.get("driver")
    rule = case.catalog.get("nvidia", {}).get("fabric_manager")
    if rule is None or driver is None or not any(row.get("nvswitch") for row in gpus(case)):
        return
    left, right = f"Fabric Manager {case.host.fabric_manager}", f"driver {driver}"
    if case.host.fabric_manager is None:
        case.unsettled("Fabric Manager", right, "version of Fabric Manager")
        return
    same = versions.compare(case.host.fabric_manager, driver) == 0
    reason = "On hosts with NVSwitch both must have exactly the same version."
    where = "nvidia.yml fabric_manager"
    case.say(left, right, GOOD if same else BAD, reason, row=rule, where=where)


RULES: tuple[Callable[[Case], None], ...] = (
    gpu_with_engine,
    driver_with_cuda,
    gpu_with_cuda,
    driver_with_branch,
    modules_with_gpu,
    system_with_repository,
    fabric_with_driver,
)
