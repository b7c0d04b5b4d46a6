"""Names that older guides teach, wherever they stand in an inventory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vllm_fleet.errors import Problem
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.model import Locked, Vaulted
from vllm_fleet.inventory.resolution import Resolutions
from vllm_fleet.inventory.scene import Scene
from vllm_fleet.inventory.schema import VARIABLES
from vllm_fleet.inventory.specs import Finding, Option, Path_

FLAG = re.compile(r"(?<!\S)--([A-Za-z][\w.-]*)")
VALUES = ("symbol", "file", "version", "package", "path", "repository")


class Guides:
    """Looks for old and invented names in keys and values."""

    def __init__(self, scene: Scene, knowledge: Knowledge, resolutions: Resolutions) -> None:
        self.scene = scene
        self.names = knowledge.old_names
        self.module = knowledge.module("old_names")
        self.resolutions = resolutions

    def problems(self) -> Iterator[Problem]:
        """Yield the names that mean nothing (any more) as values, once for each place."""
        seen = set()
        for name in self.scene.names:
            for value, hosts in self.scene.distinct(name):
                for path, text in strings(value):
                    if row := self._value(name, path, text, self._system(hosts)):
                        found = self.scene.problem(name, hosts, Finding(path, *words(row)))
                        if (key := (found.file, found.line, found.message)) not in seen:
                            seen.add(key)
                            yield found

    def warnings(self) -> Iterator[Problem]:
        """Yield variables and keys that look like engine arguments of older guides."""
        for name in self.scene.names:
            if name in VARIABLES or name == "vllm_fleet" or name.startswith("ansible_"):
                continue
            for value, hosts in self.scene.distinct(name):
                option = self.scene.options.get(name)
                paths = [()] if option is None and self._key(name) else []
                for path in [*paths, *self._keys(value, option, ())]:
                    row = self._key(str(path[-1] if path else name))
                    if row:
                        message, hint = words(row)
                        yield self.scene.problem(name, hosts, Finding(path, message, hint))

    def _system(self, hosts: tuple[str, ...]) -> str:
        """Return the operating system of the first host that has one."""
        judged = (self.resolutions.of(host) for host in hosts)
        return next((item.platform.os for item in judged if item and item.platform.os), "")

    def _value(self, name: str, path: Path_, text: str, system: str) -> Any:
        """Return the row for a value, or for a flag in it."""
        row = self.module.find(self.names, text, kinds=VALUES, os=system)
        if row and row.kind == "version" and re.match(r"[\d.]+$", text):
            # A bare number means the driver only where the name says so.
            said = "driver" in "_".join([name, *map(str, path)]).lower()
            row = row if said else None
        if row and row.kind == "symbol" and "." not in text:
            row = None
        if row is None:
            flags = (self._key(found[1]) for found in FLAG.finditer(text))
            row = next((found for found in flags if found), None)
        return row

    def _key(self, name: str) -> Any:
        """Return the row for an engine argument of older guides."""
        row = self.module.find_argument(self.names, name)
        return row if row and row.kind in ("argument", "request field") else None

    def _keys(self, value: Any, option: Option | None, path: Path_) -> Iterator[Path_]:
        """Yield the paths of keys that nothing declares; engine arguments have their own check."""
        if isinstance(value, list):
            inner = option.element() if option else None
            for number, item in enumerate(value):
                yield from self._keys(item, inner, (*path, number))
        if not isinstance(value, Mapping):
            return
        for key, item in value.items():
            if option and option.options and key in option.options:
                known = option.options[key]
                if key != "arguments":
                    yield from self._keys(item, known, (*path, key))
            else:
                yield (*path, key)
                yield from self._keys(item, None, (*path, key))


def words(row: Any) -> tuple[str, str]:
    """Return message and hint for an old name."""
    gone = f" (gone since {row.since})" if row.since else ""
    return f"names {row.found!r}: {row.reason}{gone}", f"today: {row.today}" if row.today else ""


def strings(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, str]]:
    """Yield every string of a value, with the way to it."""
    if isinstance(value, (Vaulted, Locked)):
        return
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from strings(item, (*path, str(key)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from strings(item, (*path, number))
