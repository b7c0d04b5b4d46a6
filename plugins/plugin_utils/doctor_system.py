# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the operating system: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import os_support
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.doctor_types import (
    GIB,
    Facts,
    Rule,
    Scene,
    Seen,
    gib,
    of_kind,
    some,
)

# Less than both: a big disk has room at 97 %, a small one is not full with 1 GiB in use.
LEAST_FREE = 2 * GIB
LEAST_SHARE = 0.05
LEAST_FILES_PERCENT = 2
LARGEST_SKEW_S = 5.0
DRIVER_WORDS = ("nvidia", "cuda", "ascend", "kernel", "linux-image")


def operating_system(facts: Facts, scene: Scene) -> Iterator[Seen]:
    """The system is one that the roles support; unknown is not bad."""
    catalog = scene.part("operating_systems")
    if not catalog:
        return
    told = os_support.verdict(facts["identity"]["os"], dict(catalog))
    code = {"bad": "os-unsupported", "unknown": "os-untested"}.get(told["verdict"])
    if code:
        yield Seen(code, f"{facts['identity']['os']['key']}: {told['reason']}")


def rights(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Only root can read everything."""
    user = facts.get("user", "root")
    if user != "root":
        yield Seen("not-root", f"modules run as {user}")


def clock(facts: Facts, scene: Scene) -> Iterator[Seen]:
    """The clock agrees with the controller's, and something keeps it so."""
    told = facts["clock"]
    if scene.now is not None:
        apart = told["now"] - scene.now
        # The facts are as old as the way here took.
        if not -(LARGEST_SKEW_S + scene.took) <= apart <= LARGEST_SKEW_S:
            word = "ahead of" if apart > 0 else "behind"
            yield Seen("clock-skew", f"it is {abs(apart):.0f} s {word} the controller's")
    if told["synchronised"] is False and not facts["identity"]["is_container"]:
        yield Seen("clock-unsynchronised", "systemd says that the clock is not synchronised")


def disks(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """File systems have room and can be written."""
    for row in facts["hardware"]["file_systems"]:
        where = row["mount"]
        if row["read_only"]:
            yield Seen("disk-read-only", f"{where} ({row['device']}) is mounted read-only", where)
            continue
        size, free = row["size"], row["free"]
        if size and free < LEAST_FREE and free < size * LEAST_SHARE:
            yield Seen("disk-full", f"{where} has {gib(free)} free of {gib(size)}", where)
        files = row["files_free_percent"]
        if files is not None and files < LEAST_FILES_PERCENT:
            yield Seen("disk-files-exhausted", f"{where} has {files} % of its files free", where)


def kernel_log(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """The kernel says nothing of sick disks or of killed processes."""
    for code, words in (
        ("disk-errors", ("I/O error, dev", "Remounting filesystem read-only")),
        ("memory-killed", ("Out of memory: Kill",)),
    ):
        lines = [line for line in facts["kernel_log"] if any(word in line for word in words)]
        if lines:
            yield Seen(code, lines[-1])


def reboot(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Nothing waits for a reboot."""
    told = facts["reboot"]
    reasons = list(told["reasons"])
    if told["system"]:
        names = some(told["packages"]) or "no package is named"
        reasons.append(f"the distribution asks for it ({names})")
    if reasons:
        yield Seen("reboot-pending", "; ".join(reasons))


def _accelerators(facts: Facts) -> bool:
    return bool(of_kind(facts, "npu") or of_kind(facts, "gpu"))


def kernel(facts: Facts, scene: Scene) -> Iterator[Seen]:
    """On a host with a driver, the running kernel has its modules, headers and compiler."""
    if not _accelerators(facts):
        return
    headers, system = facts["hardware"]["kernel_headers"], facts["identity"]["os"]
    running = headers["running"]
    if not headers["modules"] and not facts["identity"]["is_container"]:
        yield Seen("kernel-modules-missing", f"/lib/modules/{running} is not there")
    if not headers["matching"]:
        rows = scene.part("operating_systems").get("operating_systems", [])
        row = next((row for row in rows if row["key"] == system["key"]), {})
        package = os_support.kernel_headers(running, system["family"], row)
        others = some(headers["others"]) or "none"
        yield Seen(
            "headers-mismatch", f"kernel {running} runs, headers: {others}; wanted: {package}"
        )
    yield from _compiler(facts)


def _compiler(facts: Facts) -> Iterator[Seen]:
    found, built = facts["hardware"]["gcc"], facts["hardware"]["kernel_compiler"]
    if not found:
        yield Seen("compiler-missing", "/usr/bin/gcc is not there or does not start")
    elif built and found.split(".")[0] != built.split(".")[0]:
        yield Seen("compiler-mismatch", f"gcc is {found}, the kernel was built with {built}")


def updates(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Where updates install themselves, the driver and the kernel are held."""
    timers = facts["updates"]["timers"]
    if not timers or not _accelerators(facts):
        return
    holds = facts["updates"]["holds"]
    if not any(word in hold.lower() for hold in holds for word in DRIVER_WORDS):
        held = some(holds) or "nothing"
        yield Seen("unattended-upgrades", f"{some(timers)} is enabled; held: {held}")


def hugepages(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Every pool has the pages that our file asks for."""
    for row in facts["hugepages"]:
        if row["seen"] is None or row["seen"] < row["wanted"]:
            seen = "none: there is no such pool" if row["seen"] is None else str(row["seen"])
            said = f"{row['path']}: {seen} of {row['wanted']}"
            yield Seen("hugepages-short", said, row["path"])
    if facts["boot_words"]:
        words = " ".join(facts["boot_words"])
        yield Seen("reboot-pending", f"the next boot gives the kernel: {words}")


def sysctl(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Kernel settings run as wanted, and stay so at the next boot."""
    for row in facts["sysctl"]:
        name, wanted = row["name"], row["wanted"].split()
        if row["running"] is not None and row["running"].split() != wanted:
            seen = f"{name} is {row['running']}, wanted {row['wanted']}"
            yield Seen("sysctl-running-differs", seen, name)
        if row["persisted"].split() != wanted:
            seen = f"{row['file']} sets {name} to {row['persisted']}, wanted {row['wanted']}"
            yield Seen("sysctl-overridden", seen, name)


def selinux(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """With SELinux, the interpreter has the bindings."""
    if facts["selinux"]["enforcing"] and not facts["selinux"]["bindings"]:
        python = facts["identity"]["python"]["executable"]
        yield Seen("selinux-bindings", f"{python} cannot import selinux")


def rdma(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """RDMA ports are up."""
    for row in facts["hardware"]["rdma"]:
        if row["state"] and row["state"] != "ACTIVE":
            name = f"{row['device']}/{row['port']}"
            yield Seen("rdma-link-down", f"{name} is {row['state']} ({row['physical']})", name)


def placement(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Accelerators have a NUMA node and all their lanes."""
    devices = of_kind(facts, "npu") + of_kind(facts, "gpu")
    lost = [row["address"] for row in devices if row["numa_node"] is None]
    if lost and len(facts["hardware"]["numa_nodes"]) > 1:
        yield Seen("numa-unknown", f"the kernel says -1 for {some(lost)}")
    for row in devices:
        width, most = row["link"]["width"], row["link"]["max_width"]
        if width.isdigit() and most.isdigit() and 0 < int(width) < int(most):
            seen = f"{row['address']} uses {width} of {most} lanes"
            yield Seen("pcie-width", seen, row["address"])


RULES: tuple[Rule, ...] = (
    operating_system,
    rights,
    clock,
    disks,
    kernel_log,
    reboot,
    kernel,
    updates,
    hugepages,
    sysctl,
    selinux,
    rdma,
    placement,
)
