# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pairs must fit on a host with Ascend NPUs. Each rule judges one kind of pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.resolver_types import (
    BAD,
    GOOD,
    UNKNOWN,
    Case,
    Row,
)

# The parts of a release that must be its row's, and nothing else.
PARTS = ("vllm", "cann", "torch", "torch_npu", "triton_ascend")


def chip(case: Case, pci: str) -> Row | None:
    """Return the catalog row of a chip."""
    vendor_and_device = pci.lower()[:9]
    rows = case.rows("ascend", "chips")
    return next((row for row in rows if row["pci"] == vendor_and_device), None)


def families(case: Case) -> list[str]:
    """Return the families of the host's chips, as far as the catalog knows them."""
    rows = [chip(case, pci) for pci in case.host.chips]
    return sorted({row["family"] for row in rows if row})


def chips_with_engine(case: Case) -> None:
    """Judge each chip: vllm-ascend has code for it, or not."""
    right = f"vllm-ascend {case.set.get('vllm_ascend', '')}".strip()
    if not case.host.chips:
        case.unsettled("the NPU", right, "PCI id of the NPU")
    for pci in case.host.chips:
        row = chip(case, pci)
        if row is None:
            reason = f"The catalog has no chip with the PCI id {pci}."
            case.say(f"chip {pci}", right, UNKNOWN, reason)
            continue
        note = f" {row['note'][0].upper()}{row['note'][1:]}." if row.get("note") else ""
        works = "vllm-ascend supports" if row["supported"] else "vllm-ascend does not support"
        verdict = GOOD if row["supported"] else BAD
        where = f"ascend.yml chips: {row['pci']}"
        case.say(row["name"], right, verdict, f"{works} it.{note}", row=row, where=where)


def system_with_card(case: Case) -> None:
    """Judge the operating system for each family: the vendor's list, and its floors."""
    for family in families(case):
        left, right = f"card family {family}", f"system {case.host.os}"
        if case.host.os is None:
            case.unsettled(left, "the operating system", "operating system")
            continue
        row = _os_row(case)
        where = f"ascend.yml os_cards: {case.host.os}"
        if row is None:
            reason = "The vendor's list has no row for this system on this architecture."
            case.say(left, right, UNKNOWN, reason)
        elif family in row.get("bad", []):
            reason = "The vendor's list leaves this card out for this system."
            case.say(left, right, BAD, reason, row=row, where=where)
        elif family not in row["families"]:
            named = ", ".join(row["families"]) or "no card"
            reason = f"The vendor's list names {named} for this system."
            case.say(left, right, UNKNOWN, reason, row=row, where=where)
        else:
            case.say(left, right, GOOD, "It is on the vendor's list.", row=row, where=where)
            _floors(case, row, family, where)


def _os_row(case: Case) -> Row | None:
    for row in case.rows("ascend", "os_cards"):
        if case.host.os in row["os"] and case.host.arch in (None, row["arch"]):
            return row
    return None


def _floors(case: Case, row: Row, family: str, where: str) -> None:
    """Judge the lowest driver and firmware that this card needs on this system."""
    for least in row.get("least", []):
        for part in ("driver", "firmware"):
            seen = case.set.get(part)
            if family not in least["families"] or part not in least or seen is None:
                continue
            enough = versions.matches(seen, f">={least[part]}")
            reason = f"This card needs {part} {least[part]} or later on this system."
            verdict = GOOD if enough else BAD
            case.say(
                f"{part} {seen}", f"system {case.host.os}", verdict, reason, row=row, where=where
            )


def driver_with_cann(case: Case) -> None:
    """Judge the driver for the CANN of the set."""
    cann, driver = case.set.get("cann"), case.set.get("driver")
    if cann is None:
        return
    right = f"CANN {cann}"
    if case.host.driver is None and case.wanted.driver is None:
        case.unsettled("the installed driver", right, "installed driver")
    if driver is None:
        return
    left, row = f"driver {driver}", cann_row(case, cann)
    if row is None:
        case.say(left, right, UNKNOWN, f"No row tells the drivers of CANN {cann}.")
        return
    where = f"ascend.yml cann_hdk: {row['cann']}"
    remedy = f"Install driver {row['paired']}, the one that this CANN was released with."
    if versions.matches(driver, row["good"]):
        reason = f"This CANN works with {row['good'].replace('|', ', ')}."
        case.say(left, right, GOOD, reason, row=row, where=where)
    elif row.get("bad") and versions.matches(driver, row["bad"]):
        reason = f"This CANN does not work with {row['bad'].replace('|', ', ')}."
        case.say(left, right, BAD, reason, row=row, where=where, remedy=remedy)
    else:
        reason = f"The row names {row['good'].replace('|', ', ')}, not this one."
        case.say(left, right, UNKNOWN, reason, row=row, where=where, remedy=remedy)


def cann_row(case: Case, cann: str) -> Row | None:
    """Return the row with the drivers of a CANN, for the chips of the host."""
    mine = set(families(case))
    for row in case.rows("ascend", "cann_hdk"):
        named = set(row.get("families", []))
        if versions.matches(cann, row["cann"]) and (not named or not mine or mine & named):
            return row
    return None


def driver_with_firmware(case: Case) -> None:
    """Judge driver and firmware: the host's own ranges come first, then pairs seen together."""
    driver, firmware = case.set.get("driver"), case.set.get("firmware")
    if driver is None or firmware is None:
        return
    left, right = f"driver {driver}", f"firmware {firmware}"
    told = _by_version_info(case, driver, firmware)
    if told is not None:
        verdict, reason = told
        case.say(left, right, verdict, reason)
        return
    pairs = [r for r in case.rows("ascend", "driver_firmware") if _same(r["driver"], driver)]
    same = next((r for r in pairs if _same(r["firmware"], firmware)), None)
    if same:
        where = f"ascend.yml driver_firmware: {same['driver']}"
        case.say(left, right, GOOD, "They were seen together.", row=same, where=where)
        return
    known = ", ".join(r["firmware"] for r in pairs)
    reason = f"With this driver {known} was seen." if known else "No row has this driver."
    case.say(left, right, UNKNOWN, reason)


def firmware_of(case: Case) -> str | None:
    """Return the firmware that was seen with the set's driver on the host's chips, if one was."""
    driver, mine = case.set.get("driver"), set(families(case))
    for row in case.rows("ascend", "driver_firmware"):
        if driver and mine & set(row["families"]) and _same(row["driver"], driver):
            return str(row["firmware"])
    return None


def _by_version_info(case: Case, driver: str, firmware: str) -> tuple[str, str] | None:
    """Judge by the version.info files of the installed packages, where they are for these."""
    checks = (
        (case.host.compatible_firmware, firmware, case.host.driver, driver, "driver", "firmware"),
        (case.host.compatible_driver, driver, case.host.firmware, firmware, "firmware", "driver"),
    )
    told = None
    for ranges, seen, installed, asked, owner, other in checks:
        if not ranges or installed is None or not _same(installed, asked):
            continue
        try:
            fits = versions.in_intervals(seen, ranges)
        except versions.VersionError:
            return UNKNOWN, f"The ranges in the {owner}'s version.info cannot be read: {ranges}."
        reason = f"The {owner}'s version.info allows {other} {ranges}."
        if not fits:
            return BAD, reason
        told = GOOD, reason
    return told


def _same(one: str, two: str) -> bool:
    return versions.compare(one, two) == 0


def parts_with_release(case: Case) -> None:
    """Judge each part against the row of the release: one whole row, or who knows."""
    row = case.release
    if row is None:
        _without_release(case)
        return
    left = f"vllm-ascend {row['vllm_ascend']}"
    where = f"ascend.yml releases: {row['vllm_ascend']}"
    for part in PARTS:
        seen, meant = case.set.get(part), row.get(part)
        if seen is None:
            continue
        right = f"{part} {seen}"
        if meant is None:
            reason = f"This release uses no {part}."
            case.say(left, right, BAD, reason, row=row, where=where)
        elif versions.parse(seen).public == versions.parse(meant).public:
            # The mark behind a plus differs from Python to Python (git4c901a4, gitee7ba04).
            case.say(left, right, GOOD, "It is the release's own row.", row=row, where=where)
        else:
            _other_part(case, row, part, seen, where)


def _other_part(case: Case, row: Row, part: str, seen: str, where: str) -> None:
    """Judge a part that is not the row's: another vLLM or torch is bad, the rest unknown."""
    meant = row[part]
    release = versions.parse(seen).release != versions.parse(meant).release
    verdict = BAD if part in ("vllm", "torch") or (part == "torch_npu" and release) else UNKNOWN
    left, right = f"vllm-ascend {row['vllm_ascend']}", f"{part} {seen}"
    reason = f"This release was made for {part} {meant}; take one whole row."
    remedy = f"Use {part} {meant}."
    case.say(left, right, verdict, reason, row=row, where=where, remedy=remedy)


def _without_release(case: Case) -> None:
    wanted = case.set.get("vllm_ascend")
    if wanted:
        reason = "The catalog has no release of vllm-ascend with this number."
        case.say(f"vllm-ascend {wanted}", "the catalog", UNKNOWN, reason)
    elif case.set.get("vllm"):
        stable = [r["vllm"] for r in case.rows("ascend", "releases") if r["stable"]]
        newest = versions.newest(stable)
        reason = (
            f"No release of vllm-ascend was made for it; the newest stable one is for {newest}."
        )
        newer = newest is not None and versions.compare(case.set["vllm"], newest) > 0
        case.say(f"vllm {case.set['vllm']}", "vllm-ascend", BAD if newer else UNKNOWN, reason)


def torch_npu_with_others(case: Case) -> None:
    """Judge torch_npu for torch, and for CANN where the release's own row does not say it."""
    npu, torch, cann = (case.set.get(k) for k in ("torch_npu", "torch", "cann"))
    if npu and torch:
        same = versions.parse(npu).release == versions.parse(torch).release
        reason = "torch_npu works with the torch of the same number only."
        case.say(f"torch_npu {npu}", f"torch {torch}", GOOD if same else BAD, reason)
    row = case.release
    by_release = row and npu and cann and _same(row["torch_npu"], npu) and _same(row["cann"], cann)
    if npu and cann and not by_release:
        _torch_npu_with_cann(case, npu, cann)


def _torch_npu_with_cann(case: Case, npu: str, cann: str) -> None:
    left, right = f"torch_npu {npu}", f"CANN {cann}"
    rows = case.rows("ascend", "torch_npu")
    mine = [r for r in rows if any(_same(v, npu.split("+")[0]) for v in r["versions"])]
    row = next((r for r in mine if _same(r["cann"], cann)), None)
    if row is not None:
        where = f"ascend.yml torch_npu: CANN {row['cann']}"
        case.say(left, right, GOOD, "The version table pairs them.", row=row, where=where)
        return
    paired = ", ".join(r["cann"] for r in mine)
    tells = f"The version table pairs it with CANN {paired}." if paired else "No row has it."
    more: dict[str, Any] = {}
    if mine:
        more = {"row": mine[0], "where": f"ascend.yml torch_npu: CANN {mine[0]['cann']}"}
    case.say(left, right, UNKNOWN, tells, **more)


def python_with_parts(case: Case) -> None:
    """Judge the engine's Python for the release, for torch and for CANN."""
    python = case.set.get("python")
    if python is None:
        return
    ranges: list[tuple[str, Row, str]] = []
    if case.release is not None:
        release = case.release["vllm_ascend"]
        ranges.append((f"vllm-ascend {release}", case.release, f"ascend.yml releases: {release}"))
    for part, key in (("torch", "versions"), ("cann", "versions")):
        seen = case.set.get(part)
        row = _ranged(case, part, key, seen) if seen else None
        if row is not None and "python" in row:
            ranges.append((f"{part} {seen}", row, f"ascend.yml {part}: {row['versions']}"))
    for right, row, where in ranges:
        fits = versions.matches(python, row["python"])
        reason = f"It runs on Python {row['python']}."
        case.say(f"Python {python}", right, GOOD if fits else BAD, reason, row=row, where=where)


def _ranged(case: Case, section: str, key: str, seen: str) -> Row | None:
    rows = case.rows("ascend", section)
    return next((row for row in rows if versions.matches(seen, row[key])), None)


def glibc_with_wheels(case: Case) -> None:
    """Judge the system's C library for torch's wheels: nobody builds torch on these hosts."""
    torch = case.set.get("torch")
    row = _ranged(case, "torch", "versions", torch) if torch else None
    if torch is None or row is None or "glibc" not in row or case.host.arch == "x86_64":
        return
    if case.host.glibc is None:
        case.unsettled("glibc", f"torch {torch}", "version of glibc")
        return
    fits = versions.matches(case.host.glibc, f">={row['glibc']}")
    reason = f"The wheels of torch and torch_npu need glibc {row['glibc']}."
    where = f"ascend.yml torch: {row['versions']}"
    verdict = GOOD if fits else BAD
    case.say(f"glibc {case.host.glibc}", f"torch {torch}", verdict, reason, row=row, where=where)


def plugin_with_host(case: Case) -> None:
    """Judge how vllm-ascend gets on the host: its wheel, or a build with the host's compiler."""
    row = case.release
    if row is None or (case.host.glibc is None and case.host.gcc is None):
        if row is not None:
            case.unsettled("glibc and gcc", f"vllm-ascend {row['vllm_ascend']}", "C library")
        return
    right, where = f"vllm-ascend {row['vllm_ascend']}", f"ascend.yml releases: {row['vllm_ascend']}"
    against = _against_wheel(case, row)
    left = f"glibc {case.host.glibc}"
    if not against and case.wanted.method != "source":
        case.say(left, right, GOOD, "The published wheel fits.", row=row, where=where)
        return
    _build(case, right, " ".join(against))


def _against_wheel(case: Case, row: Row) -> list[str]:
    """Return what speaks against the published wheel."""
    wheel = row.get("wheel")
    if wheel is None:
        return ["No wheel of it was published."]
    found = []
    glibc, python = case.host.glibc, case.set.get("python")
    least = wheel["glibc"].get(case.host.arch) or versions.newest(list(wheel["glibc"].values()))
    if glibc is not None and not versions.matches(glibc, f">={least}"):
        found.append(f"Its wheel needs glibc {least}.")
    other = sorted(set(families(case)) - set(wheel["families"]))
    if other:
        found.append(f"Its wheel is compiled for {', '.join(wheel['families'])} only.")
    if python and not any(versions.parse(python).startswith(versions.parse(p).release)
                          for p in wheel["pythons"]):  # fmt: skip
        found.append(f"Its wheel is for Python {', '.join(wheel['pythons'])}.")
    return found


def _build(case: Case, right: str, why: str) -> None:
    """Judge a build of vllm-ascend from source on the host."""
    row = case.catalog.get("ascend", {}).get("build")
    gcc = case.host.gcc
    if row is None or gcc is None:
        case.unsettled("gcc", f"{right} from source", "version of gcc")
        return
    fits = versions.matches(gcc.split(".")[0], row["gcc"])
    reason = f"{why} A build from source needs gcc {row['gcc']}.".strip()
    remedy = (
        ""
        if fits
        else ("Build with a newer compiler, take an older release, or use the vendor's image.")
    )
    case.say(f"gcc {gcc}", f"{right} from source", GOOD if fits else BAD, reason, row=row,
             where="ascend.yml build", remedy=remedy)  # fmt: skip


def features_with_parts(case: Case) -> None:
    """Judge the wanted features by the driver and CANN that they need."""
    mine = families(case)
    for name in case.wanted.features:
        rows = [r for r in case.rows("ascend", "features") if r["name"] == name]
        rows = [r for r in rows if not r.get("families") or set(r["families"]) & set(mine)]
        if not rows:
            case.say(f"feature {name}", "the catalog", UNKNOWN, "No row names this feature.")
        for row in rows:
            for part in ("driver", "cann"):
                _feature(case, row, part)


def _feature(case: Case, row: Row, part: str) -> None:
    seen = case.set.get(part)
    if part not in row or seen is None:
        return
    fits = versions.matches(seen, row[part])
    reason = f"The feature needs {part} {row[part]}."
    case.say(f"feature {row['name']}", f"{part} {seen}", GOOD if fits else BAD, reason, row=row,
             where=f"ascend.yml features: {row['name']}")  # fmt: skip


RULES: tuple[Callable[[Case], None], ...] = (
    chips_with_engine,
    system_with_card,
    driver_with_cann,
    driver_with_firmware,
    parts_with_release,
    torch_npu_with_others,
    python_with_parts,
    glibc_with_wheels,
    plugin_with_host,
    features_with_parts,
)
