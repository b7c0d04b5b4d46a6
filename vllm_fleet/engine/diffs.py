"""What ``--diff`` gave for a task, as text."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Any


def diff_text(diff: Any) -> str:
    """Return what ``--diff`` gave for a task, as text."""
    parts = diff if isinstance(diff, list) else [diff] if diff else []
    return "\n".join(filter(None, (_one_diff(part) for part in parts if isinstance(part, dict))))


def _one_diff(part: Mapping[str, Any]) -> str:
    """Return one before/after pair in unified form."""
    if "prepared" in part:
        return str(part["prepared"])
    before, after = (_lines(part.get(key)) for key in ("before", "after"))
    header = str(part.get("before_header") or part.get("after_header") or "")
    return "\n".join(difflib.unified_diff(before, after, header, header, lineterm="", n=2))


def _lines(value: Any) -> list[str]:
    """Return a side of a diff as lines; structured ones as sorted JSON."""
    if isinstance(value, str):
        return value.splitlines()
    return [] if value is None else json.dumps(value, indent=2, sort_keys=True).splitlines()
