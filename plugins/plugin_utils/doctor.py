# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn what was seen on a host, or on the whole fleet, into findings with their texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import (
    catalog,
    doctor_ascend,
    doctor_nvidia,
    doctor_service,
    doctor_system,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.doctor_types import (
    Facts,
    Rule,
    Scene,
    Seen,
)

RULES: tuple[Rule, ...] = (
    *doctor_system.RULES,
    *doctor_ascend.RULES,
    *doctor_nvidia.RULES,
    *doctor_service.RULES,
)
PARTS = ("ascend", "nvidia", "ansible", "operating_systems")
RANK = {"error": 0, "warning": 1}
PAGE = "docs/doctor.md"
Finding = dict[str, str]


def texts() -> dict[str, dict[str, str]]:
    """Return the rows of the catalog by their code."""
    return {row["code"]: row for row in catalog.load("findings")["findings"]}


def patterns() -> dict[str, str]:
    """Return what to look for in journals, by the code of the finding."""
    return {code: row["journal"] for code, row in texts().items() if "journal" in row}


def parts() -> dict[str, Mapping[str, Any]]:
    """Return the parts of the catalog that rules ask for."""
    return {name: catalog.load(name) for name in PARTS}


def examine(facts: Facts, scene: Scene) -> Iterator[Seen]:
    """Apply every rule to the facts of one host."""
    for rule in RULES:
        yield from rule(facts, scene)


def compare(hosts: Mapping[str, Facts]) -> Iterator[tuple[str, Seen]]:
    """Compare the hosts with each other; yield (host, what was seen)."""
    switches = {
        f"{host} NPU {row['npu']}": row["tls"]
        for host, facts in hosts.items()
        for row in facts["hardware"]["ascend"]["network"]
    }
    for seen in doctor_ascend.tls_unequal(switches):
        for host in sorted({name.split(" NPU ")[0] for name in switches}):
            yield host, seen


def told(seen: Iterable[Seen]) -> list[Finding]:
    """Return findings with title, meaning, fix and page; each once, errors first."""
    rows = texts()
    found = [_finding(rows[item.code], item) for item in dict.fromkeys(seen)]
    return sorted(found, key=lambda row: RANK[row["severity"]])


def _finding(row: Mapping[str, str], item: Seen) -> Finding:
    kept = {key: row[key] for key in ("code", "severity", "title", "title_zh", "meaning", "fix")}
    return {**kept, "subject": item.subject, "seen": item.seen, "page": f"{PAGE}#{item.code}"}
