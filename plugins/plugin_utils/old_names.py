# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that guides teach and that do not exist (any more): what each means today."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class OldName:
    """A name that was found, and what to do about it."""

    found: str
    name: str
    kind: str
    verdict: str
    reason: str
    today: str
    # The engine argument into which a value can be moved as it is.
    argument: str | None = None
    # The first release without it, where there once was one with it.
    since: str | None = None

    def __str__(self) -> str:
        use = f" Use today: {self.today}." if self.today else ""
        gone = f" Gone since {self.since}." if self.since else ""
        return f"{self.found}: {self.reason}.{gone}{use}"


def find(catalog: Row, text: str, kinds: tuple[str, ...] = (), os: str = "") -> OldName | None:
    """Return the row for a name, a package, a path or a value; None where there is none.

    ``catalog`` is old_names.yml. ``kinds`` limits where to look; ``os`` is the operating system's
    key, for names that are only wrong on some systems.
    """
    for row in catalog["names"]:
        if kinds and row["kind"] not in kinds:
            continue
        if _matches(row, text) and (not row.get("on") or _on(row["on"], os)):
            return _told(row, text)
    return None


def find_argument(catalog: Row, name: str, value: Any = None) -> OldName | None:
    """Return the row for an engine argument of this name, or for this value of a real one."""
    plain = _plain(name)
    for row in catalog["names"]:
        if row["kind"] == "argument value":
            same = plain == _plain(row["argument"])
            if same and str(value).lower() == row["value"]:
                return _told(row, f"{name}: {value}")
        elif row["kind"] in ("argument", "request field") and plain in _spellings(row):
            return _told(row, name)
    return None


def _plain(name: str) -> str:
    """Return a name as all its spellings share it: small letters, one kind of separator."""
    return re.sub(r"[-.\s]+", "_", name.strip().lstrip("-").lower())


def _spellings(row: Row) -> set[str]:
    return {_plain(name) for name in (row["name"], *row.get("also", []))}


def _matches(row: Row, text: str) -> bool:
    if _plain(text) in _spellings(row):
        return True
    pattern = row.get("match")
    return bool(pattern and re.fullmatch(pattern, text.strip(), re.IGNORECASE))


def _on(families: str, os: str) -> bool:
    return any(os.lower().startswith(family.lower() + "-") for family in families.split("|"))


def _told(row: Row, found: str) -> OldName:
    return OldName(
        found=found,
        name=row["name"],
        kind=row["kind"],
        verdict=row["verdict"],
        reason=row["reason"],
        today=row.get("today") or "",
        argument=row.get("argument") if row["verdict"] == "translated" else None,
        since=row.get("since"),
    )
