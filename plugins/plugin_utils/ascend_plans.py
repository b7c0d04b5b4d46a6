# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be done to a host's Ascend software, in order, or why it must not be. Pure.

The plan is made anew before every step, from what the vendor's records then say. So an order is
only ever "what comes first now", and a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    ascend_names,
    ascend_records,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import (
    PlanError,
    check_sha256,
    is_url,
    sha256_of,
)

Data = dict[str, Any]

# Where a host keeps installers: those of the versions before are the way back.
STORE = "/var/lib/vllm-fleet/ascend/packages"


def family(ascend: Data, chips: list[Data]) -> Data:
    """Return the catalog's row for the host's chips, or raise PlanError with the reason."""
    if not chips:
        raise PlanError(
            "no Ascend NPU is on the PCI bus (vendor 19e5, class 1200). Take the host out of the "
            "group ascend, or look at the card and the machine's own firmware"
        )
    rows = [_chip_row(ascend, chip["pci"]) for chip in chips]
    if len({row["family"] for row in rows}) > 1:
        named = ", ".join(sorted({row["name"] for row in rows}))
        raise PlanError(f"one host has chips of several families ({named}): no package fits all")
    row = rows[0]
    if not row["supported"]:
        raise PlanError(
            f"{row['name']} ({row['pci']}) is not supported: {row.get('note', 'see the catalog')}"
        )
    return row


def _chip_row(ascend: Data, pci: str) -> Data:
    row: Data | None = next((r for r in ascend["chips"] if r["pci"] == pci.lower()), None)
    if row is None:
        raise PlanError(f"the catalog knows no Ascend chip with the PCI id {pci}")
    return row


def packages(
    product: str, wanted: list[Data], chip: Data | None, machine: str, sums: Data
) -> dict[str, Data]:
    """Return part -> package; ``chip`` None stands for a host without an NPU (a builder)."""
    found: dict[str, Data] = {}
    for item in wanted:
        package = _package(product, item, chip, machine, sums)
        for part in _parts(product, package):
            if part in found:
                one, two = found[part]["name"], package["name"]
                raise PlanError(f"two packages bring the {part}: {one} and {two}")
            found[part] = {**package, "version": _version(part, package, item)}
    return {part: row for part, row in found.items() if row["version"]}


def _parts(product: str, package: Data) -> list[str]:
    """Return the parts that a package brings."""
    if package["part"] == "hdk" and product == "driver":
        return ["driver", "firmware"]
    if package["part"] not in ascend_names.PRODUCTS[product]:
        raise PlanError(f"{package['name']} is no package of {product}")
    return [package["part"]]


def _version(part: str, package: Data, item: Data) -> str:
    """Return a part's version; the name of the HDK's archive only says the driver's."""
    if package["part"] == "hdk" and part == "firmware":
        return str(item.get("firmware_version") or "")
    return str(package["version"])


def _package(product: str, item: Data, chip: Data | None, machine: str, sums: Data) -> Data:
    """Return one package, checked for this host, or raise PlanError."""
    src = str(item["src"])
    name = src.split("?", 1)[0].rsplit("/", 1)[-1]
    row = ascend_names.parse(name)
    if row is None:
        raise PlanError(
            f"{name} is no file name of an Ascend package. Keep the vendor's names, such as "
            "Ascend-hdk-910b-npu-driver_<version>_linux-aarch64.run"
        )
    _check_fit(product, name, row, chip, machine)
    sha256 = _sum(name, item.get("sha256"), sums)
    local = "" if is_url(src) else _local(src, sha256)
    headers = {"Referer": sums["referer"]} if src.startswith(sums["base"]) else {}
    told = {"name": name, "src": src, "local": local, "sha256": sha256, "headers": headers}
    return {**row, **told, "dest": f"{STORE}/{name}"}


def _check_fit(product: str, name: str, row: Data, chip: Data | None, machine: str) -> None:
    """Raise PlanError where a package is for another machine or chip."""
    if row["machine"] not in (None, machine):
        raise PlanError(f"{name} is for {row['machine']}, the host is {machine}")
    if not row["chip"] or chip is None:
        return
    tag = chip["tag"] if product == "driver" else chip["ops"]
    if row["chip"].lower() != tag.lower():
        raise PlanError(
            f"{name} is for the chip {row['chip']}, the host has {chip['name']}: its packages have "
            f"{tag} in their names"
        )


def _sum(name: str, given: Any, sums: Data) -> str:
    """Return the checksum: the given one, else the published one."""
    if given:
        return check_sha256(f"the sha256 of {name}", given)
    published = next((r["sha256"] for r in sums["files"] if r["name"] == name), None)
    if published is None:
        raise PlanError(f"the catalog has no published SHA-256 of {name}: give it as its sha256")
    return str(published)


def _local(src: str, sha256: str) -> str:
    """Return the path of a package on the controller, or raise PlanError."""
    path = Path(src).expanduser()
    if not path.is_file():
        raise PlanError(f"there is no file {path} on the controller")
    seen = sha256_of(path)
    if seen != sha256:
        raise PlanError(f"wrong checksum: {path} has SHA-256 {seen}, wanted {sha256}")
    return str(path)


def action(seen: Data, version: str) -> str:
    """Return what brings a part to a version: '' where it has it."""
    if seen["state"] == ascend_records.ABSENT:
        return "install"
    if seen["state"] == ascend_records.HALF:
        return "repair"
    if ascend_names.same_version(seen["version"], version):
        return ""
    try:
        return "upgrade" if versions.compare(seen["version"], version) < 0 else "downgrade"
    except versions.VersionError:
        return "upgrade"


def _step(part: str, what: str, seen: Data, package: Data | None = None) -> Data:
    return {
        "part": part,
        "action": what,
        "from": seen["version"] or seen["state"],
        "version": package["version"] if package else "",
        "package": package or {},
    }


def removal(found: Data, order: tuple[str, ...]) -> list[Data]:
    """Return the steps that remove parts."""
    present = [part for part in order if found[part]["state"] != ascend_records.ABSENT]
    return [_step(part, "remove", found[part]) for part in present]


# -- driver and firmware -----------------------------------------------------------------------


def driver_steps(found: Data, wanted: dict[str, Data]) -> list[Data]:
    """Return the steps for driver and firmware: firmware first where a driver is installed."""
    if "driver" not in wanted:
        raise PlanError(
            "ascend_driver_packages names no driver (Ascend-hdk-<chip>-npu-driver_<version>_...)"
        )
    check_ranges(found, wanted)
    installed = found["driver"]["state"] == ascend_records.INSTALLED
    order = ("firmware", "driver") if installed else ("driver", "firmware")
    present = [part for part in order if part in wanted]
    steps = [(part, action(found[part], wanted[part]["version"])) for part in present]
    return [_step(part, what, found[part], wanted[part]) for part, what in steps if what]


def check_ranges(found: Data, wanted: dict[str, Data]) -> None:
    """Raise PlanError where the record of what stays installed excludes what is to come."""
    parts = ("driver", "firmware")
    target = {p: (wanted[p] if p in wanted else found[p])["version"] for p in parts}
    for part, other in (parts, parts[::-1]):
        seen = found[part]
        stays = seen["state"] == ascend_records.INSTALLED and ascend_names.same_version(
            seen["version"], target[part]
        )
        if stays and target[other] and _excluded(target[other], seen["fits"]):
            raise PlanError(
                f"{part} {seen['version']} takes the {other} versions {seen['fits']}, not "
                f"{target[other]}. Choose a pair that the vendor released together"
            )


def _excluded(version: str, ranges: str) -> bool:
    """Say whether ranges exclude a version; ranges that cannot be read exclude nothing."""
    try:
        return bool(ranges) and not versions.in_intervals(version, ranges)
    except versions.VersionError:
        return False


# -- CANN --------------------------------------------------------------------------------------


def cann_version(wanted: dict[str, Data]) -> str:
    """Return the one version of all parts, or raise PlanError."""
    if "toolkit" not in wanted:
        raise PlanError("cann_packages names no toolkit (Ascend-cann-toolkit_<version>_...)")
    version = str(wanted["toolkit"]["version"])
    right = "ops" if ascend_records.generation(version) == 2 else "kernels"
    for part, row in wanted.items():
        if not ascend_names.same_version(row["version"], version):
            raise PlanError(f"{row['name']} is of CANN {row['version']}, the toolkit of {version}")
        if part in ("ops", "kernels") and part != right:
            raise PlanError(f"CANN {version} has its operators in the package {right}, not {part}")
    return version


def set_env(found: Data, wanted: dict[str, Data]) -> list[str]:
    """Return the scripts that set the environment of the CANN that is wanted, or is there."""
    present = [n for n in (2, 1) if found["cann"][str(n)]["toolkit"]["version"]]
    number = ascend_records.generation(cann_version(wanted)) if wanted else next(iter(present), 0)
    scripts = [ascend_records.set_env(number)] if number else []
    if scripts and ("nnal" in wanted or found["nnal"]["version"]):
        scripts.append(ascend_records.ROOT + "/nnal/atb/set_env.sh")
    return scripts


def cann_steps(found: Data, wanted: dict[str, Data], ascend: Data) -> list[Data]:
    """Return the steps for CANN: toolkit, operators, NNAL.

    Since 8.5 an older version is only reached by removing the newer one first.
    """
    version = cann_version(wanted)
    check_driver(found["driver"], version, ascend)
    number = ascend_records.generation(version)
    seen = {**found["cann"][str(number)], "nnal": found["nnal"]}
    order = [part for part in ascend_names.PRODUCTS["cann"] if part in wanted]
    steps = [_step(p, action(seen[p], wanted[p]["version"]), seen[p], wanted[p]) for p in order]
    steps = [step for step in steps if step["action"]]
    newer = [s for s in steps if s["action"] == "downgrade" and s["part"] != "nnal"]
    if not newer or not _uninstall_first(version, ascend):
        return steps
    away = [_step("toolkit", "remove", seen["toolkit"])]
    again = [_step(p, "install", seen[p], wanted[p]) for p in order if p != "nnal"]
    return away + again + [step for step in steps if step["part"] == "nnal"]


def _uninstall_first(version: str, ascend: Data) -> bool:
    row: Data = next((r for r in ascend["cann"] if versions.matches(version, r["versions"])), {})
    return bool(row.get("downgrade") == "uninstall first")


def check_driver(driver: Data, version: str, ascend: Data) -> None:
    """Raise PlanError where the installed driver is known not to work with this CANN."""
    rows = [row for row in ascend["cann_hdk"] if versions.matches(version, row["cann"])]
    for row in rows if driver["state"] == ascend_records.INSTALLED else []:
        if row.get("bad") and versions.matches(driver["version"], row["bad"]):
            raise PlanError(
                f"driver {driver['version']} does not work with CANN {version} ({row['source']}). "
                f"Install driver {row['paired']} first, the one that it was released with"
            )


def cann_removal(found: Data) -> Iterator[Data]:
    """Yield the steps that remove CANN of both generations, NNAL first."""
    yield from removal(found, ("nnal",))
    for number in (2, 1):
        toolkit = found["cann"][str(number)]["toolkit"]
        if toolkit["state"] != ascend_records.ABSENT:
            # The version tells the module which generation is meant.
            yield {**_step("toolkit", "remove", toolkit), "version": toolkit["version"]}
