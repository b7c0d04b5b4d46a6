# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor's rules share: what they look at, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Facts = dict[str, Any]
GIB = 1024**3


class Seen(NamedTuple):
    """Something that is wrong: which finding it is, what was seen, and on which part."""

    code: str
    seen: str
    subject: str = ""


@dataclass(frozen=True)
class Scene:
    """What the inventory and the controller say about a host."""

    groups: tuple[str, ...] = ()
    # None: it is not known which instances the host should have.
    instances: tuple[str, ...] | None = None
    core: str = ""
    # The controller's clock when the facts arrived, and how long the host took to give them.
    now: float | None = None
    took: float = 0.0
    catalog: Mapping[str, Mapping[str, Any]] | None = None

    def part(self, name: str) -> Mapping[str, Any]:
        """Return a part of the catalog; empty where it was not given."""
        return (self.catalog or {}).get(name, {})

    @property
    def serves(self) -> bool:
        """Say whether the host is to run vLLM."""
        return "serving" in self.groups


Rule = Callable[[Facts, Scene], Iterator[Seen]]


def of_kind(facts: Facts, kind: str) -> list[dict[str, Any]]:
    """Return the devices of a kind that the PCI bus has."""
    return [row for row in facts["hardware"]["pci"] if row["kind"] == kind]


def some(names: list[str], limit: int = 8) -> str:
    """Return names in one line, shortened where there are many."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def gib(size: int) -> str:
    """Return a size in GiB."""
    return f"{size / GIB:.1f} GiB"
