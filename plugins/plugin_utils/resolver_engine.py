# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairs that count on every kind of host: the system, and what vLLM itself needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.resolver_types import (
    BAD,
    GOOD,
    UNKNOWN,
    Case,
    Catalog,
    Row,
    Verdict,
)


def system(case: Case) -> None:
    """Judge the operating system by the catalog's word on it."""
    if case.host.os is None:
        case.unsettled("the operating system", "vllm-fleet", "operating system")
        return
    rows = case.rows("operating_systems", "operating_systems")
    row = next((r for r in rows if r["key"] == case.host.os), None)
    left, where = f"system {case.host.os}", f"operating_systems.yml: {case.host.os}"
    if row is None:
        case.say(left, "vllm-fleet", UNKNOWN, "The catalog has no row for this system.")
        return
    reason = row.get("reason") or "It is supported."
    case.say(left, "vllm-fleet", row["support"], reason, row=row, where=where)


def requirement(catalog: Catalog, vllm: str | None) -> Row | None:
    """Return the row with what a release of vLLM needs."""
    rows: list[Row] = list(catalog.get("vllm", {}).get("requirements", []))
    return next((r for r in rows if vllm and versions.matches(vllm, r["vllm"])), None)


def python_with_vllm(case: Case) -> None:
    """Judge the engine's Python for vLLM."""
    row, python = requirement(case.catalog, case.set.get("vllm")), case.set.get("python")
    if row is None or python is None:
        return
    fits = versions.matches(python, row["requires_python"])
    reason = f"It runs on Python {row['requires_python']}."
    where = f"vllm.yml requirements: {row['vllm']}"
    verdict = GOOD if fits else BAD
    right = f"vllm {case.set['vllm']}"
    case.say(f"Python {python}", right, verdict, reason, row=row, where=where)


def torch_with_vllm(case: Case) -> None:
    """Judge torch by vLLM's own pin; vllm-ascend sets its own torch, so not on Ascend."""
    row, torch = requirement(case.catalog, case.set.get("vllm")), case.set.get("torch")
    if row is None or torch is None or "torch" not in row or case.host.accelerator == "ascend":
        return
    fits = versions.matches(torch, row["torch"])
    reason = f"This vLLM pins torch {row['torch'].replace('|', ' or ')}."
    where = f"vllm.yml requirements: {row['vllm']}"
    right = f"vllm {case.set['vllm']}"
    case.say(f"torch {torch}", right, GOOD if fits else BAD, reason, row=row, where=where)


def vllm_with_host(case: Case) -> None:
    """Judge how vLLM gets on the host: a published wheel, or a build from source.

    On Ascend vLLM is built without kernels of its own, which needs neither a compiler nor a wheel.
    """
    row = requirement(case.catalog, case.set.get("vllm"))
    if row is None or case.host.accelerator != "nvidia":
        return
    right, where = f"vllm {case.set['vllm']}", f"vllm.yml requirements: {row['vllm']}"
    if case.wanted.method == "source":
        _source_build(case, row, right, where)
        return
    least = row["wheel_glibc"].get(case.host.arch or "", "unknown")
    if least == "unknown":
        return
    if least is None:
        case.say(f"architecture {case.host.arch}", right, BAD, "No wheel was published for it.",
                 row=row, where=where, remedy="Build it from source.")  # fmt: skip
    elif case.host.glibc is None:
        case.unsettled("glibc", right, "version of glibc")
    else:
        fits = versions.matches(case.host.glibc, f">={least}")
        reason = f"Its wheel needs glibc {least}."
        remedy = "" if fits else "Build it from source, or take another release."
        verdict = GOOD if fits else BAD
        left = f"glibc {case.host.glibc}"
        case.say(left, right, verdict, reason, row=row, where=where, remedy=remedy)
        _closure(case, right)


def _closure(case: Case, right: str) -> None:
    """Judge the packages beneath vLLM that have no wheel for an old C library."""
    glibc = case.host.glibc
    for row in case.rows("vllm", "closure"):
        applies = versions.matches(case.set["vllm"], row["vllm"]) and case.host.arch == "aarch64"
        if applies and glibc and not versions.matches(glibc, f">={row['glibc']}"):
            reason = f"{row['package']}, which {right} needs, has no wheel below {row['glibc']}."
            remedy = "Build this package on such a host."
            where = f"vllm.yml closure: {row['package']}"
            left = f"glibc {glibc}"
            case.say(left, row["package"], BAD, reason, row=row, where=where, remedy=remedy)


def _source_build(case: Case, row: Row, right: str, where: str) -> None:
    """Judge a build of vLLM with CUDA by the compiler."""
    needed = row.get("gcc_cuda") or row.get("gcc")
    if needed is None:
        return
    if case.host.gcc is None:
        case.unsettled("gcc", right, "version of gcc")
        return
    fits = versions.matches(case.host.gcc, needed)
    reason = f"A build from source needs gcc {needed}."
    case.say(f"gcc {case.host.gcc}", right, GOOD if fits else BAD, reason, row=row, where=where,
             remedy="" if fits else "Use a builder with a newer compiler.")  # fmt: skip


RULES: tuple[Callable[[Case], None], ...] = (
    system,
    python_with_vllm,
    torch_with_vllm,
    vllm_with_host,
)


def judge_python(catalog: Catalog, core: str, python: str, side: str = "target_python") -> Verdict:
    """Judge a Python for an ansible-core: of a managed host, or (side) of the controller.

    A Python that is too old shows as a bare SyntaxError; so the verdict names the symptom and
    the ways out.
    """
    rows: list[Row] = list(catalog.get("ansible", {}).get("cores", []))
    row = next((r for r in rows if versions.parse(core).startswith(_numbers(r["core"]))), None)
    left, right = f"Python {python}", f"ansible-core {core}"
    if row is None:
        return Verdict(left, right, UNKNOWN, "No row has this ansible-core.")
    where, source = f"ansible.yml cores: {row['core']}", str(row["source"])
    if versions.matches(_minor(python), row[side]):
        return Verdict(left, right, GOOD, f"It runs on Python {row[side]}.", where, source)
    whose = "hosts" if side == "target_python" else "the controller"
    reason = f"ansible-core {row['core']} needs Python {row[side].replace('|', ' or ')} on {whose}."
    symptom = _symptom(catalog, core, python) if side == "target_python" else ""
    remedy = ways_out(catalog, python) if side == "target_python" else ""
    return Verdict(left, right, BAD, reason + symptom, where, source, remedy)


def _symptom(catalog: Catalog, core: str, python: str) -> str:
    for row in catalog.get("ansible", {}).get("symptoms", []):
        if versions.matches(core, row["core"]) and versions.matches(python, row["python"]):
            return f" Without this check it shows as: {row['text']}"
    return ""


def ways_out(catalog: Catalog, python: str) -> str:
    """Return which supported ansible-core manages a host with this Python, or what else helps."""
    ansible: Mapping[str, Any] = catalog.get("ansible", {})
    rows = [r for r in ansible.get("cores", []) if r["core"] in ansible.get("supported", [])]
    able = [r["core"] for r in rows if versions.matches(_minor(python), r["target_python"])]
    brought = [r["core"] for r in rows if r["dnf"] == "embedded"]
    ways = [f"use ansible-core {core}" for core in able[-1:]]
    if brought:
        least = next(r["target_python"] for r in rows if r["core"] == brought[-1])
        ways.append(f"bring Python {least} to the host and use ansible-core {brought[-1]}")
    return f"Either {', or '.join(ways)}." if ways else ""


def _minor(python: str) -> str:
    """Return the minor series of a Python: 3.6.8 is a Python 3.6."""
    return ".".join(python.split(".")[:2])


def _numbers(core: str) -> tuple[int, ...]:
    return versions.parse(core).release
