# SPDX-License-Identifier: GPL-3.0-or-later
"""What the resolver takes and gives: a host's facts, the wanted versions, verdicts, the result."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions

GOOD, BAD, UNKNOWN, UNSETTLED = "good", "bad", "unknown", "unsettled"
# From worst to best: what a summary of several verdicts says.
ORDER = (BAD, UNKNOWN, UNSETTLED, GOOD)

Catalog = Mapping[str, Mapping[str, Any]]
Row = Mapping[str, Any]


class ResolveError(ValueError):
    """A wish that cannot be read: an unknown release set, a component that does not exist."""


@dataclass(frozen=True)
class Host:
    """What is known of a host; None is not known yet (a scan settles it)."""

    os: str | None = None
    arch: str | None = None
    glibc: str | None = None
    gcc: str | None = None
    python: str | None = None
    page_size: int | None = None
    accelerator: str | None = None
    # PCI ids of the accelerators (19e5:d802), each once.
    chips: tuple[str, ...] = ()
    driver: str | None = None
    firmware: str | None = None
    # The lists of ranges in the version.info files of an Ascend driver and firmware.
    compatible_firmware: str | None = None
    compatible_driver: str | None = None
    # NVIDIA only.
    compute_capability: str | None = None
    kernel_modules: str | None = None
    fabric_manager: str | None = None

    @classmethod
    def of_identity(cls, identity: Mapping[str, Any], **more: Any) -> Host:
        """Return the host of the module host_identity's facts, with ``more`` from elsewhere."""
        facts: dict[str, Any] = {
            "os": (identity.get("os") or {}).get("key") or None,
            "python": (identity.get("python") or {}).get("version") or None,
        }
        for name in ("arch", "glibc", "page_size"):
            facts[name] = identity.get(name) or None
        return cls(**{**facts, **more})


@dataclass(frozen=True)
class Wanted:
    """What the inventory asks for: any part of a set of versions."""

    release_set: str | None = None
    vllm: str | None = None
    vllm_ascend: str | None = None
    cann: str | None = None
    torch: str | None = None
    torch_npu: str | None = None
    triton_ascend: str | None = None
    python: str | None = None
    driver: str | None = None
    firmware: str | None = None
    cuda: str | None = None
    kernel_modules: str | None = None
    # How vLLM gets there: index (a published wheel) or source.
    method: str | None = None
    features: tuple[str, ...] = ()
    # The month that support of branches is judged by, for example 2026-11.
    month: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Wanted:
        """Return the wishes in a mapping; an unknown key is an error that names a near one."""
        names = [f.name for f in fields(cls)]
        for key in values:
            if key not in names:
                near = difflib.get_close_matches(key, names, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; one of: {', '.join(names)}"
                raise ResolveError(f"{key} is no component of a release set{hint}")
        wishes: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        wanted = cls(**wishes)
        wanted.check()
        return wanted

    def check(self) -> None:
        """Refuse a version that is none; YAML turns an unquoted 9.1 into a number."""
        for name, value in self.components().items():
            try:
                versions.parse(value)
            except versions.VersionError as error:
                raise ResolveError(f"{name}: {error}") from error

    def components(self) -> dict[str, str]:
        """Return the wanted versions, without the wishes that are no version."""
        other = ("release_set", "kernel_modules", "method", "features", "month")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in other}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Verdict:
    """The judgement of one pair, and the row that it rests on."""

    left: str
    right: str
    verdict: str
    reason: str
    row: str = ""
    source: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        tail = f" [{self.row}: {self.source}]" if self.row else ""
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.left} with {self.right}: {self.verdict}. {self.reason}{tail}{remedy}"

    def as_dict(self) -> dict[str, str]:
        """Return the verdict for a JSON document."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class Alternative:
    """The nearest set that works on the host, and what it changes."""

    set: Mapping[str, str]
    changes: tuple[str, ...]
    release_set: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the alternative for a JSON document."""
        return {
            "set": dict(self.set),
            "changes": list(self.changes),
            "release_set": self.release_set,
        }


@dataclass(frozen=True)
class Resolution:
    """The complete set, a verdict for each pair, and the nearest set that works."""

    set: Mapping[str, str]
    verdicts: tuple[Verdict, ...]
    nearest: Alternative | None = None
    release_set: str | None = None

    def of(self, verdict: str) -> list[Verdict]:
        """Return the pairs that were judged so."""
        return [v for v in self.verdicts if v.verdict == verdict]

    @property
    def bad(self) -> list[Verdict]:
        """Return the pairs that do not work."""
        return self.of(BAD)

    @property
    def ok(self) -> bool:
        """Say whether nothing is known to be wrong."""
        return not self.bad

    @property
    def verdict(self) -> str:
        """Return the worst judgement of all."""
        return min((v.verdict for v in self.verdicts), key=ORDER.index, default=UNKNOWN)

    def as_dict(self) -> dict[str, Any]:
        """Return the resolution for a JSON document."""
        return {
            "verdict": self.verdict,
            "set": dict(self.set),
            "release_set": self.release_set,
            "verdicts": [v.as_dict() for v in self.verdicts],
            "nearest": self.nearest.as_dict() if self.nearest else None,
        }


@dataclass
class Case:
    """One host beside one set of versions, under judgement; rules append their verdicts."""

    host: Host
    set: Mapping[str, str]
    wanted: Wanted
    catalog: Catalog
    release: Row | None = None
    verdicts: list[Verdict] = field(default_factory=list)

    def rows(self, part: str, section: str) -> list[Row]:
        """Return the rows of one section of the catalog."""
        found = self.catalog.get(part, {}).get(section, [])
        return list(found)

    def say(self, left: str, right: str, verdict: str, reason: str, **more: Any) -> None:
        """Add a verdict; ``row`` may be a catalog row, named by ``where``."""
        row, where = more.pop("row", None), more.pop("where", "")
        source = str(row.get("source", "")) if row else ""
        if row and row.get("inferred"):
            source += " (inferred)"
        self.verdicts.append(
            Verdict(left, right, verdict, reason, where if row else "", source, **more)
        )

    def unsettled(self, left: str, right: str, fact: str) -> None:
        """Say that only the host can settle a pair."""
        self.say(left, right, UNSETTLED, f"The {fact} is not known before the host was scanned.")
