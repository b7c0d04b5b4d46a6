# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about Ascend NPUs and their software: facts in, findings out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import npu_family, versions
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.doctor_types import (
    Facts,
    Rule,
    Scene,
    Seen,
    of_kind,
    some,
)

GROUP = "HwHiAiUser"
DCMI_OTHER = "npu-dcmi-other"
# Codes with a row of their own in the catalog.
DCMI = frozenset(
    {*(str(code) for code in range(8001, 8018)), "8020", "8255"},
)
_DEVICE = re.compile(r"^/dev/davinci\d+$")


def _software(facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = facts["hardware"]["ascend"]
    return found


def _installed(part: dict[str, Any]) -> bool:
    return bool(part["state"] == "installed")


def chips(facts: Facts, scene: Scene) -> Iterator[Seen]:
    """Every NPU is of a family that vLLM supports; the PCI id decides, never the name."""
    catalog = scene.part("ascend")
    rows = {row["pci"]: row for row in catalog.get("chips", [])}
    told = {}
    for device in of_kind(facts, "npu"):
        row = rows.get(device["pci"])
        if row is not None and not row["supported"]:
            told[device["pci"]] = f"{row['name']} ({device['pci']}): {row.get('note', '')}"
    for seen in told.values():
        yield Seen("npu-unsupported", seen)
    if not told and not of_kind(facts, "npu") and catalog:
        yield from _by_table(facts, catalog)


def _by_table(facts: Facts, catalog: Any) -> Iterator[Seen]:
    """Judge by npu-smi's table where the bus is not to be seen (in a container)."""
    for row in facts["hardware"]["npu_smi"]["devices"]:
        memory, hbm = row["memory_mb"] or {}, row["hbm_mb"] or {}
        totals = (memory.get("total"), hbm.get("total"))
        if npu_family.classify(catalog, None, row["name"], *totals) in ("910a", "310b", "310"):
            seen = f"npu-smi says {row['name']}, memory {totals[0]} MB, HBM {totals[1]} MB"
            yield Seen("npu-unsupported", seen)
            return


def driver(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Where the bus has NPUs there is a driver, and its module is loaded."""
    found = of_kind(facts, "npu")
    software = _software(facts)
    if not found:
        return
    state = software["driver"]["state"]
    if state == "absent":
        yield Seen("npu-driver-absent", f"{len(found)} NPUs ({found[0]['pci']}), no record")
    elif state == "half":
        version = software["driver"]["version"] or "no version"
        yield Seen("npu-driver-half", f"/etc/ascend_install.info and version.info: {version}")
    elif not software["module_loaded"]:
        yield Seen("npu-module-not-loaded", f"driver {software['driver']['version']} is installed")


def tool(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """npu-smi is there and answers."""
    told, software = facts["hardware"]["npu_smi"], _software(facts)
    if told["state"] == "absent":
        if _installed(software["driver"]):
            yield Seen("npu-smi-missing", "neither /usr/local/sbin nor /usr/local/bin has it")
    elif told["state"] == "broken":
        yield _failure(told["failure"], told["path"])
    elif told["needs_environment"]:
        yield Seen("npu-environment", f"{told['path']} needs LD_LIBRARY_PATH")


def _failure(failure: dict[str, str], path: str) -> Seen:
    kind, code, said = failure["kind"], failure["code"], failure["said"]
    if kind == "dcmi":
        number = code.lstrip("-")
        return Seen(f"npu-dcmi-{number}" if number in DCMI else DCMI_OTHER, said, path)
    name = {
        "library": "npu-smi-library-missing",
        "timeout": "npu-smi-hangs",
        "not-executable": "npu-smi-broken",
    }.get(kind, "npu-smi-no-devices")
    return Seen(name, f"{path}: {said}", path)


def health(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Every chip is well, and every NPU of the bus is shown."""
    told = facts["hardware"]["npu_smi"]
    for row in told["devices"]:
        if row["health"].lower() != "ok":
            which = f"NPU {row['npu']} chip {row['chip']}"
            codes = told["health"].get(f"{row['npu']}.{row['chip']}", [])
            seen = f"{which} ({row['name']}): {row['health']}"
            yield Seen("npu-unhealthy", seen + (f", codes {some(codes)}" if codes else ""), which)
    yield from _count(facts, told)


def _count(facts: Facts, told: dict[str, Any]) -> Iterator[Seen]:
    """Compare by address: a card may have two chips at one address, or at two."""
    bus = {row["address"] for row in of_kind(facts, "npu")}
    shown = {row["bus_id"] for row in told["devices"] if row["bus_id"]}
    if not bus or not shown:
        return
    if bus - shown:
        seen = f"the bus has {len(bus)}, npu-smi lacks {some(sorted(bus - shown))}"
        yield Seen("npu-missing", seen)
    if shown - bus:
        yield Seen("npu-off-the-bus", f"npu-smi shows {some(sorted(shown - bus))}")


def firmware(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Driver and firmware fit, by the vendor's own record and by what the board says."""
    software, board = _software(facts), facts["hardware"]["npu_smi"]["board"]
    installed, ranges = software["firmware"]["version"], software["driver"]["fits"]
    if installed and ranges and not _within(installed, ranges):
        driver = software["driver"]["version"]
        seen = f"firmware {installed}, driver {driver} names {ranges}"
        yield Seen("npu-firmware-range", seen)
    if board is None:
        return
    if board["compatible"] is False:
        seen = f"driver {board['driver']}, firmware {board['firmware']}"
        yield Seen("npu-firmware-incompatible", seen)
    record = software["driver"]["version"]
    if record and board["driver"] and board["driver"].lower() != record.lower():
        yield Seen("npu-driver-differs", f"{board['driver']} runs, {record} is installed")


def _within(version: str, ranges: str) -> bool:
    """Say whether a version is in the ranges; what cannot be read is not called wrong."""
    try:
        return versions.in_intervals(version, ranges)
    except versions.VersionError:
        return True


def _cann(facts: Facts) -> tuple[str, dict[str, Any]]:
    """Return the version of the newer generation that is there, and its parts."""
    found = _software(facts)["cann"]
    for number in ("2", "1"):
        if _installed(found[number]["toolkit"]):
            return found[number]["toolkit"]["version"], found[number]
    return "", {}


def toolkit(facts: Facts, scene: Scene) -> Iterator[Seen]:
    """A host that serves on NPUs has CANN, its operators and NNAL, and they fit the driver."""
    software = _software(facts)
    if not _installed(software["driver"]) or not of_kind(facts, "npu"):
        return
    version, parts = _cann(facts)
    if not version:
        yield Seen("cann-absent", f"driver {software['driver']['version']}, no toolkit")
        return
    if not _installed(parts.get("ops") or parts["kernels"]):
        yield Seen("cann-operators-absent", f"toolkit {version} without operators")
    if not _installed(software["nnal"]):
        yield Seen("nnal-absent", f"toolkit {version} without NNAL")
    yield from _pair(version, software["driver"]["version"], scene)


def _pair(cann: str, driver: str, scene: Scene) -> Iterator[Seen]:
    for row in scene.part("ascend").get("cann_hdk", []):
        if _matches(cann, row["cann"]) and row.get("bad") and _matches(driver, row["bad"]):
            good = row["good"].replace("|", ", ")
            yield Seen("cann-driver-mismatch", f"CANN {cann} with driver {driver}; good: {good}")
            return


def _matches(version: str, wanted: str) -> bool:
    try:
        return versions.matches(version, wanted)
    except versions.VersionError:
        return False


def accounts(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """The driver's user is there, and the service user is in its group."""
    told, software = facts["accounts"], _software(facts)
    if software["driver"]["state"] == "absent" and not software["nodes"]:
        return
    if not told["driver_user"] or not told["driver_group"]:
        lacking = [
            word for word, there in (("user", told["driver_user"]), ("group", told["driver_group"]))
            if not there
        ]  # fmt: skip
        yield Seen("npu-user-missing", f"missing: {' and '.join(lacking)} {GROUP}")
    if told["vllm"] is not None and GROUP not in told["vllm"]:
        yield Seen("npu-group-missing", f"the groups of vllm: {some(told['vllm']) or 'none'}")


def nodes(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Device nodes are there and have the rights that the driver gives them."""
    software = _software(facts)
    for row in software["nodes"]:
        bits = int(row["mode"], 8)
        if row["group"] != GROUP or bits & 0o007 or bits & 0o060 != 0o060:
            seen = (
                f"{row['path']} is {row['user']}:{row['group']} {row['mode']}, wanted {GROUP} 0660"
            )
            yield Seen("npu-node-permission", seen, row["path"])
    found = [row for row in software["nodes"] if _DEVICE.match(row["path"])]
    shown = len(facts["hardware"]["npu_smi"]["devices"])
    if shown and len(found) < shown:
        yield Seen("npu-node-missing", f"{len(found)} of {shown} device nodes")


def records(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """No directory stands where a file belongs."""
    for path in _software(facts)["directories"]:
        yield Seen("ascend-record-directory", f"{path} is a directory", path)


def network(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """The ports of the NPUs are up, reach their peer, and agree about TLS."""
    ports = _software(facts)["network"]
    for row in ports:
        which = f"NPU {row['npu']}"
        if row["link"] == "DOWN":
            yield Seen("npu-link-down", f"{which} ({row['address'] or row['wanted']})", which)
        elif row["health"] and row["health"].lower() != "success":
            yield Seen("npu-net-health", f"{which}: {row['health']}", which)
        if row["address"] and row["address"] != row["wanted"]:
            seen = f"{which} has {row['address']}, /etc/hccn.conf says {row['wanted']}"
            yield Seen("npu-address-differs", seen, which)
    yield from tls_unequal({f"NPU {row['npu']}": row["tls"] for row in ports})


def tls_unequal(switches: dict[str, bool | None]) -> Iterator[Seen]:
    """Name those that have TLS on, where others have it off."""
    on = sorted(name for name, value in switches.items() if value is True)
    off = sorted(name for name, value in switches.items() if value is False)
    if on and off:
        yield Seen("npu-tls-unequal", f"on: {some(on)}; off: {some(off)}")


def ports(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Nothing but our instances holds the ports of HCCL."""
    if not of_kind(facts, "npu"):
        return
    for port, holders in facts["listeners"].items():
        others = [row for row in holders if not any(u.startswith("vllm@") for u in row["units"])]
        if others:
            names = some([f"{row['name']} (pid {row['pid']})" for row in others])
            yield Seen("hccl-port-taken", f"port {port}: {names}", port)


def engine(facts: Facts, scene: Scene) -> Iterator[Seen]:
    """The installed engine is built for this chip, and its parts belong together."""
    chips = {row["pci"]: row for row in scene.part("ascend").get("chips", [])}
    families = {chips[r["pci"]]["family"] for r in of_kind(facts, "npu") if r["pci"] in chips}
    for release in facts["releases"]:
        packages, name = release["packages"], release["id"]
        if "vllm_ascend" not in packages:
            continue
        built = _family_of(release["built_for"])
        if built and families and built not in families:
            seen = (
                f"{name}: built for {release['built_for']}, the host has {some(sorted(families))}"
            )
            yield Seen("engine-wrong-chip", seen, name)
        if "triton" in packages and "triton_ascend" in packages:
            seen = f"{name}: triton {packages['triton']} beside {packages['triton_ascend']}"
            yield Seen("engine-triton-shadow", seen, name)
        torch, npu = packages.get("torch", ""), packages.get("torch_npu", "")
        if torch and npu and _base(torch) != _base(npu):
            yield Seen("engine-torch-mismatch", f"{name}: torch {torch}, torch_npu {npu}", name)


def _family_of(built_for: str) -> str:
    """Return the family of `A2`, or of `ascend910b1`."""
    word = built_for.lower().removeprefix("ascend")
    if word in ("a2", "a3", "a5", "310p"):
        return word
    table = (("910b", "a2"), ("910_93", "a3"), ("310p", "310p"), ("950", "a5"))
    return next((family for start, family in table if word.startswith(start)), "")


def _base(version: str) -> str:
    return re.split(r"[+]|\.post|\.dev|rc", version)[0]


RULES: tuple[Rule, ...] = (
    chips,
    driver,
    tool,
    health,
    firmware,
    toolkit,
    accounts,
    nodes,
    records,
    network,
    ports,
    engine,
)
