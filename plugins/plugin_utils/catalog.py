# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the catalog: version knowledge as data, each row with its source."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

CATALOG = Path(__file__).resolve().parents[2] / "catalog"


class CatalogError(ValueError):
    """A catalog file that is not there or cannot be read."""


@functools.cache
def load(name: str) -> dict[str, Any]:
    """Return the content of catalog/<name>.yml. Treat it as read-only: it is shared."""
    path = CATALOG / f"{name}.yml"
    if path.parent != CATALOG or not path.is_file():
        raise CatalogError(f"the catalog has no part {name!r}; it has: {', '.join(names())}")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise CatalogError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise CatalogError(f"{path}: the top level is no mapping")
    return content


def names() -> list[str]:
    """Return the names of the catalog's parts."""
    return sorted(path.stem for path in CATALOG.glob("*.yml"))
