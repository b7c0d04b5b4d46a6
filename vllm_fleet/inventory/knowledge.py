"""The collection's knowledge of versions, taken from the collection that Ansible would use.

The catalog and the code that judges by it belong to the collection, since its roles use them, too.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from vllm_fleet.errors import ConfigError

PACKAGE = "ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils"
# Where a checkout stands as a collection; an installed one stands in such a folder already.
CHECKOUT = "playbooks/collections"


def search_path(root: Path) -> Path:
    """Return the folder from which the collection in ``root`` can be imported."""
    installed = root.parts[-3:-1] == ("ansible_collections", "vllm_fleet")
    return root.parents[2] if installed else root / CHECKOUT


class Knowledge:
    """The catalog of one collection, and the modules that judge by it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        place = str(search_path(self.root))
        if place not in sys.path:
            sys.path.insert(0, place)

    def module(self, name: str) -> Any:
        """Return a module of the collection's plugin_utils."""
        try:
            found = importlib.import_module(f"{PACKAGE}.{name}")
        except ModuleNotFoundError as error:
            raise ConfigError(f"the collection in {self.root} lacks {name}: {error}") from error
        self._require_ours(found)
        return found

    def _require_ours(self, module: ModuleType) -> None:
        """Refuse a module of another copy of the collection."""
        file = Path(str(module.__file__)).resolve()
        if file.parent != (self.root / "plugins/plugin_utils").resolve():
            raise ConfigError(
                f"{file} is not of the collection that Ansible uses ({self.root})",
                hint="remove one of the two copies",
            )

    def load(self, name: str) -> Mapping[str, Any]:
        """Return a file of the catalog."""
        content: Mapping[str, Any] = self.module("catalog").load(name)
        return content

    @cached_property
    def catalog(self) -> dict[str, Mapping[str, Any]]:
        """Return the files that a resolution reads."""
        return {name: self.load(name) for name in self.module("resolver").PARTS}

    @cached_property
    def resolver(self) -> Any:
        """Return the resolver, which judges equal hosts once."""
        return self.module("resolver").Resolver(self.catalog)

    @cached_property
    def old_names(self) -> Mapping[str, Any]:
        """Return the names that older guides teach."""
        return self.load("old_names")

    @cached_property
    def systems(self) -> dict[str, Mapping[str, Any]]:
        """Return the operating systems by their key."""
        rows = self.catalog["operating_systems"]["operating_systems"]
        return {str(row["key"]): row for row in rows}
