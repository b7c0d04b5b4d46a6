# SPDX-License-Identifier: GPL-3.0-or-later
"""From a host and a wish to the complete set of versions, with a verdict for each pair.

Pure: facts, wishes and the catalog go in; nothing is read or contacted. A pair is good, bad,
unknown (no row says anything) or unsettled (only the host can say), with the row that says so.
Unknown is not bad. A new version is a new row in the catalog, never a change here.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import (
    resolver_ascend,
    resolver_engine,
    resolver_nvidia,
    versions,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.resolver_types import (
    BAD,
    GOOD,
    ORDER,
    UNKNOWN,
    UNSETTLED,
    Alternative,
    Case,
    Catalog,
    Host,
    Resolution,
    ResolveError,
    Row,
    Verdict,
    Wanted,
)

__all__ = [
    "BAD", "GOOD", "ORDER", "PARTS", "UNKNOWN", "UNSETTLED", "Alternative", "Host", "Resolution",
    "ResolveError", "Resolver", "Verdict", "Wanted", "resolve",
]  # fmt: skip

# The files of the catalog that a resolution reads.
PARTS = (
    "operating_systems", "ascend", "nvidia", "vllm", "python", "ansible", "release_sets",
    "engine_flags/vllm",
)  # fmt: skip
# The parts of a release of vllm-ascend, in the order in which a wish for one picks the row.
ASCEND_PARTS = ("vllm_ascend", "vllm", "cann", "torch_npu", "torch", "triton_ascend", "mooncake")
ONLY_ASCEND = ("vllm_ascend", "cann", "torch_npu", "triton_ascend")
RULES = {
    "ascend": (*resolver_engine.RULES, *resolver_ascend.RULES),
    "nvidia": (*resolver_engine.RULES, *resolver_nvidia.RULES),
    "cpu": resolver_engine.RULES,
}
VENDORS = {"19e5": "ascend", "10de": "nvidia"}
_GCC_AND_GLIBC = ("glibc", "gcc")
HOST_VERSIONS = (
    *_GCC_AND_GLIBC, "python", "driver", "firmware", "compute_capability", "fabric_manager",
)  # fmt: skip


class Resolver:
    """Resolves many hosts against one catalog; equal facts and wishes are judged once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[tuple[Host, Wanted], Resolution] = {}

    def resolve(self, host: Host, wanted: Wanted) -> Resolution:
        """Return the resolution of one host."""
        key = (host, wanted)
        if key not in self._known:
            self._known[key] = resolve(host, wanted, self._catalog)
        return self._known[key]


def resolve(host: Host, wanted: Wanted, catalog: Catalog) -> Resolution:
    """Return the complete set, a verdict for each pair, and the nearest set that works."""
    wanted.check()
    host, told = _readable(host)
    host = _with_system_facts(_with_accelerator(host), catalog)
    wish = wanted
    if wanted.release_set:
        host, more = _of_the_sets_kind(host, wanted.release_set, catalog)
        told += more
        wish = _with_release_set(wanted, wanted.release_set, catalog) if not more else wanted
    case = _best(_cases(host, wish, catalog))
    resolution = Resolution(
        set=case.set,
        verdicts=(*told, *case.verdicts),
        release_set=wanted.release_set or _named(case.set, host.accelerator, catalog),
    )
    if resolution.ok:
        return resolution
    return dataclasses.replace(resolution, nearest=_nearest(case, wanted, catalog))


# -- what is known before anything is judged ---------------------------------------------------


def _readable(host: Host) -> tuple[Host, list[Verdict]]:
    """Return the host without facts that are no versions, and a verdict for each of these."""
    nothing: dict[str, Any] = {}
    found = []
    for name in HOST_VERSIONS:
        value = getattr(host, name)
        try:
            if value is not None:
                versions.parse(value)
        except versions.VersionError:
            nothing[name] = None
            reason = f"The host's {name} is told as {value!r}, which is no version."
            found.append(Verdict(f"{name} {value}", "the host", UNKNOWN, reason))
    return dataclasses.replace(host, **nothing), found


def _with_accelerator(host: Host) -> Host:
    """Return the host with the accelerator that its chips show, where none was named."""
    if host.accelerator or not host.chips:
        return host
    kinds = {VENDORS.get(pci.split(":")[0]) for pci in host.chips} - {None}
    return dataclasses.replace(host, accelerator=kinds.pop()) if len(kinds) == 1 else host


def _with_system_facts(host: Host, catalog: Catalog) -> Host:
    """Fill glibc and gcc from the row of the operating system, where no scan has seen them."""
    rows = catalog.get("operating_systems", {}).get("operating_systems", [])
    row = next((r for r in rows if r["key"] == host.os), None)
    missing: dict[str, Any] = {
        name: str(row[name])
        for name in _GCC_AND_GLIBC
        if row and getattr(host, name) is None and row.get(name)
    }
    return dataclasses.replace(host, **missing) if missing else host


def release_set(name: str, catalog: Catalog) -> Row:
    """Return a release set by its name, or say which there are."""
    rows: Iterable[Row] = catalog.get("release_sets", {}).get("sets", [])
    by_name = {row["name"]: row for row in rows}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ResolveError(f"no release set is called {name}{hint} There are: {', '.join(by_name)}")


def _with_release_set(wanted: Wanted, name: str, catalog: Catalog) -> Wanted:
    """Fill the wish with what a release set fixes; what is wanted beside it comes first."""
    fixed: Mapping[str, str] = release_set(name, catalog)["wanted"]
    more: dict[str, Any] = {k: v for k, v in fixed.items() if getattr(wanted, k) is None}
    return dataclasses.replace(wanted, **more)


def _of_the_sets_kind(host: Host, name: str, catalog: Catalog) -> tuple[Host, list[Verdict]]:
    """Return the host as one of the release set's kind; a host of another kind is a bad pair."""
    row = release_set(name, catalog)
    kind = str(row["accelerator"])
    if host.accelerator in (None, kind):
        return dataclasses.replace(host, accelerator=kind), []
    reason = f"The set is for hosts with {kind}, and this one is {host.accelerator}."
    where = f"release_sets.yml: {name}"
    left, right = f"release set {name}", f"accelerator {host.accelerator}"
    return host, [Verdict(left, right, BAD, reason, where, str(row["source"]))]


def _named(found: Mapping[str, str], accelerator: str | None, catalog: Catalog) -> str | None:
    """Return the name of the release set whose wishes a set fulfils."""
    for row in catalog.get("release_sets", {}).get("sets", []):
        wishes = {k: v for k, v in row["wanted"].items() if k != "driver"}
        if row["accelerator"] == accelerator and wishes.items() <= found.items():
            return str(row["name"])
    return None


# -- sets of versions --------------------------------------------------------------------------


def _cases(host: Host, wanted: Wanted, catalog: Catalog) -> list[Case]:
    """Return the judged cases that fulfil a wish, the newest first."""
    if host.accelerator == "ascend":
        rows = _ascend_rows(wanted, catalog)
        return [_ascend_case(host, wanted, catalog, row) for row in rows]
    return [_engine_case(host, wanted, catalog, vllm) for vllm in _engines(host, wanted, catalog)]


def _ascend_rows(wanted: Wanted, catalog: Catalog) -> list[Row | None]:
    """Return the releases that hold everything wanted; else those that hold its first part."""
    wishes = {k: v for k, v in wanted.components().items() if k in ASCEND_PARTS}
    releases: list[Row] = list(catalog.get("ascend", {}).get("releases", []))
    if not wishes:
        return [row for row in releases if row["stable"]] or [None]
    for count in range(len(wishes), 0, -1):
        few = [(part, wishes[part]) for part in ASCEND_PARTS if part in wishes][:count]
        rows = [row for row in releases if all(_has(row, part, value) for part, value in few)]
        if rows:
            # With a stable release among them, candidates are only taken when asked for.
            stable = [row for row in rows if row["stable"]]
            return list(stable or rows)
    return [None]


def _has(row: Row, part: str, value: str) -> bool:
    return part in row and versions.compare(row[part], value) == 0


def _ascend_case(host: Host, wanted: Wanted, catalog: Catalog, row: Row | None) -> Case:
    """Return the case of one release: its row, overlaid with what is wanted, completed, judged."""
    parts = {part: row[part] for part in ASCEND_PARTS if row and part in row}
    parts.update(wanted.components())
    case = Case(host, parts, wanted, catalog, row)
    python = _python(catalog, [row["python"]] if row else [])
    if python:
        parts.setdefault("python", python)
    _installed(parts, host, wanted, _paired(case))
    firmware = resolver_ascend.firmware_of(case)
    if firmware:
        parts.setdefault("firmware", firmware)
    return _judged(case)


def _paired(case: Case) -> str | None:
    """Return the driver that was released with the CANN of a case."""
    cann = case.set.get("cann")
    row = resolver_ascend.cann_row(case, cann) if cann else None
    return str(row["paired"]) if row else None


def _installed(parts: dict[str, str], host: Host, wanted: Wanted, paired: str | None) -> None:
    """Complete driver and firmware: wanted, else installed, else the paired one."""
    driver = wanted.driver or host.driver or paired
    if driver:
        parts["driver"] = driver
    same = host.driver is not None and wanted.driver in (None, host.driver)
    firmware = wanted.firmware or (host.firmware if same or wanted.driver is None else None)
    if firmware:
        parts["firmware"] = firmware


def _engines(host: Host, wanted: Wanted, catalog: Catalog) -> list[str | None]:
    """Return the releases of vLLM to look at: the wanted one, else those of release sets."""
    if wanted.vllm:
        return [wanted.vllm]
    sets = catalog.get("release_sets", {}).get("sets", [])
    mine = [r["wanted"]["vllm"] for r in sets if r["accelerator"] == host.accelerator]
    return sorted(set(mine), key=versions.parse, reverse=True) or [None]


def _engine_case(host: Host, wanted: Wanted, catalog: Catalog, vllm: str | None) -> Case:
    """Return the case of one release of vLLM without vllm-ascend."""
    parts = {k: v for k, v in wanted.components().items() if k not in ONLY_ASCEND}
    if vllm:
        parts["vllm"] = vllm
    case = Case(host, parts, wanted, catalog)
    for part in sorted(set(wanted.components()) & set(ONLY_ASCEND)):
        reason = f"Hosts without NPUs use no {part}; the wish is left aside."
        case.say(part, f"accelerator {host.accelerator}", UNKNOWN, reason)
    row = resolver_engine.requirement(catalog, vllm)
    if row:
        parts.setdefault("torch", row["torch"].split("|")[-1])
        python = _python(catalog, [row["requires_python"]])
        if python:
            parts.setdefault("python", python)
    engine = resolver_nvidia.engine_row(case) if host.accelerator == "nvidia" else None
    if engine:
        parts.setdefault("cuda", engine["cuda"])
    _installed(parts, host, wanted, None)
    return _judged(case)


def _python(catalog: Catalog, ranges: list[str]) -> str | None:
    """Return the Python to use: the project's default where it fits, else the newest that does."""
    python = catalog.get("python", {})
    offered = {
        v for row in python.get("distributions", []) for v in (*row["offers"], row["system"])
    }
    fitting = [v for v in offered if ranges and all(versions.matches(v, r) for r in ranges)]
    default = python.get("default")
    return default if default in fitting else versions.newest(fitting)


def _judged(case: Case) -> Case:
    for rule in RULES.get(case.host.accelerator or "cpu", resolver_engine.RULES):
        rule(case)
    return case


def _count(case: Case, verdict: str) -> int:
    return sum(v.verdict == verdict for v in case.verdicts)


def _best(cases: list[Case]) -> Case:
    """Return the case with the fewest broken pairs, the newest of equals."""
    return min(cases, key=lambda case: _count(case, BAD))


# -- the nearest set that works ----------------------------------------------------------------


def _nearest(case: Case, said: Wanted, catalog: Catalog) -> Alternative | None:
    """Return the working set that keeps most of what was said, and lies nearest to it.

    What a release set fixed beside that is not said, so it may change.
    """
    candidates = [c for c in _alternatives(case, said, catalog) if not _count(c, BAD)]
    if not candidates:
        return None
    wishes, mark = said.components(), case.set.get("vllm", "")
    order = [c.set.get("vllm", "") for c in candidates]

    def cost(candidate: Case) -> tuple[int, int, int, int]:
        lost = sum(candidate.set.get(part) != value for part, value in wishes.items())
        steps = _steps(order, mark, candidate.set.get("vllm", ""))
        driver = case.host.driver not in (None, candidate.set.get("driver"))
        return lost, steps, _count(candidate, UNKNOWN), int(driver)

    best = min(candidates, key=cost)
    return Alternative(
        set=best.set,
        changes=tuple(_changes(case.set, best.set)),
        release_set=_named(best.set, case.host.accelerator, catalog),
    )


def _steps(order: list[str], one: str, two: str) -> int:
    """Return how many of the releases in ``order`` lie between two releases."""
    if not one or not two:
        return 0
    low, high = sorted((versions.parse(one), versions.parse(two)))
    return len({v for v in order if v and low <= versions.parse(v) <= high})


def _alternatives(case: Case, said: Wanted, catalog: Catalog) -> list[Case]:
    """Return judged cases around a broken one: each stable release, with each driver in reach."""
    host, wanted = case.host, case.wanted
    if host.accelerator != "ascend":
        free = _free(wanted, ("vllm", "torch", "python", "cuda"))
        drivers = [said.driver, host.driver, wanted.driver, *_set_drivers(host, catalog)]
        published = []
        if host.accelerator == "nvidia":
            published = list(catalog.get("engine_flags/vllm", {}).get("versions", []))
        engines = [wanted.vllm, *_engines(host, free, catalog), *published]
        return [
            _engine_case(host, dataclasses.replace(free, driver=driver), catalog, vllm)
            for vllm in dict.fromkeys(engine for engine in engines if engine)
            for driver in dict.fromkeys(drivers)
        ]
    free = _free(wanted, (*ASCEND_PARTS, "python"))
    result = []
    for row in catalog.get("ascend", {}).get("releases", []):
        if row["stable"]:
            paired = _paired(Case(host, {"cann": row["cann"]}, wanted, catalog))
            for driver in dict.fromkeys((said.driver, host.driver, wanted.driver, paired)):
                wish = dataclasses.replace(free, driver=driver)
                result.append(_ascend_case(host, wish, catalog, row))
    return result


def _free(wanted: Wanted, parts: Iterable[str]) -> Wanted:
    """Return a wish without some of its parts."""
    known = {f.name for f in dataclasses.fields(Wanted)}
    nothing: dict[str, Any] = {part: None for part in parts if part in known}
    return dataclasses.replace(wanted, **nothing)


def _set_drivers(host: Host, catalog: Catalog) -> list[str]:
    """Return the drivers of the release sets for this kind of host."""
    sets = catalog.get("release_sets", {}).get("sets", [])
    mine = [r["wanted"].get("driver") for r in sets if r["accelerator"] == host.accelerator]
    return [driver for driver in mine if driver]


def _changes(one: Mapping[str, str], two: Mapping[str, str]) -> list[str]:
    """Return what differs between two sets, part by part."""
    return [
        f"{part}: {one.get(part, 'none')} -> {two.get(part, 'none')}"
        for part in dict.fromkeys((*one, *two))
        if one.get(part) != two.get(part)
    ]
