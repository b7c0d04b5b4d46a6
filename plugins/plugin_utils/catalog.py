# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the catalog: version knowledge as data, each row with its source."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

CATALOG = Path(__file__).resolve().parents[2] / "catalog"
# The loader in C where PyYAML has it: ten times faster on the engine's flags.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class CatalogError(ValueError):
    """A catalog file that is not there or cannot be read."""


@functools.cache
def load(name: str) -> dict[str, Any]:
    """Return the content of catalog/<name>.yml. Treat it as read-only: it is shared."""
    path = (CATALOG / f"{name}.yml").resolve()
    if CATALOG not in path.parents or not path.is_file():
        raise CatalogError(f"the catalog has no part {name!r}; it has: {', '.join(names())}")
    try:
        content = _read(path)
    except yaml.YAMLError as error:
        raise CatalogError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise CatalogError(f"{path}: the top level is no mapping")
    return content


def _read(path: Path) -> Any:
    loader = LOADER(path.read_text(encoding="utf-8"))
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def names() -> list[str]:
    """Return the names of the catalog's parts."""
    paths = (path.relative_to(CATALOG).with_suffix("") for path in CATALOG.rglob("*.yml"))
    return sorted(path.as_posix() for path in paths)
