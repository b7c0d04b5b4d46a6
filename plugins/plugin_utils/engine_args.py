# SPDX-License-Identifier: GPL-3.0-or-later
"""Are these the engine arguments of this vLLM: judged by the flags that its release really has.

Pure. Arguments are those of an instance: a mapping from the flag's name (hyphens or underscores) to
its value; true is --flag, false is --no-flag, null leaves it out, a mapping is JSON.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import old_names, versions

Row = Mapping[str, Any]
GOOD, BAD, UNKNOWN = "good", "bad", "unknown"
SIZE = re.compile(r"\d+(\.\d+)?[kmgtKMGT]?i?$")
TYPES = {
    "int": "a whole number",
    "float": "a number",
    "size": "a number such as 8192 or 8k",
    "size or auto": "a number such as 8192 or 8k, or auto",
    "json": "a mapping, a list or JSON",
}


@dataclass(frozen=True)
class Finding:
    """What is wrong with one argument; ``verdict`` is bad or unknown."""

    argument: str
    verdict: str
    reason: str
    # What to write in place of it, where that is known.
    today: str = ""

    def __str__(self) -> str:
        return f"{self.argument}: {self.reason}{f' Use {self.today}.' if self.today else ''}"


class EngineFlags:
    """The flags of every release that the catalog has read."""

    def __init__(self, flags: Row, names: Row, ascend: Row | None = None) -> None:
        """Take engine_flags/vllm.yml, old_names.yml, and ascend.yml for hosts with NPUs."""
        self._versions: list[str] = list(flags["versions"])
        self._flags: Mapping[str, list[Row]] = flags["flags"]
        self._names = names
        # The names of a release's flags: looking them up for each misspelt one takes too long.
        self._known: dict[str, list[str]] = {}
        self._plugin = {r["argument"]: r for r in (ascend or {}).get("engine_arguments", [])}
        self._aliases = {
            alias: name
            for name, rows in self._flags.items()
            for row in rows
            for alias in row.get("aliases", [])
        }

    def check(self, version: str, arguments: Mapping[str, Any]) -> list[Finding]:
        """Return what is wrong with the arguments for a release of vLLM."""
        return [
            finding
            for name, value in arguments.items()
            for finding in self._argument(version, name, value)
        ]

    def flag(self, version: str, name: str) -> Row | None:
        """Return the row of a flag in a release, or in both releases around one not read."""
        rows = [self._row(near, name) for near in self.near(version)]
        return rows[-1] if rows and all(rows) else None

    def near(self, version: str) -> list[str]:
        """Return the release itself where it was read, else the ones before and after it."""
        wanted = versions.parse(version)
        known = [v for v in self._versions if versions.parse(v) == wanted]
        if known:
            return known
        older = [v for v in self._versions if versions.parse(v) < wanted][-1:]
        return older + [v for v in self._versions if versions.parse(v) > wanted][:1]

    def names(self, version: str) -> list[str]:
        """Return the names of all flags of a release."""
        if version not in self._known:
            near = self.near(version)
            self._known[version] = [n for n in self._flags if any(self._row(v, n) for v in near)]
        return self._known[version]

    def _row(self, version: str, name: str) -> Row | None:
        at = versions.parse(version)
        for row in self._flags.get(name, []):
            if versions.parse(row["first"]) <= at <= versions.parse(row["last"]):
                return row
        return None

    def _long(self, name: str) -> tuple[str, bool]:
        """Return the flag's long name, and whether the name is its negation."""
        plain = "--" + name.lstrip("-").replace("_", "-")
        short = "-" + name.lstrip("-")
        plain = self._aliases.get(plain, self._aliases.get(short, plain))
        positive = "--" + plain.removeprefix("--no-")
        if plain not in self._flags and plain.startswith("--no-") and positive in self._flags:
            return positive, True
        return plain, False

    def _argument(self, version: str, name: str, value: Any) -> Iterator[Finding]:
        long, negated = self._long(name)
        if "." in name and self._part_of_json(version, long.split(".", 1)[0]):
            return
        near = self.near(version)
        found = [self._row(v, long) for v in near]
        row = found[-1] if found else None
        if any(found) and not all(found):
            span = " and ".join(near)
            reason = f"vLLM {version} was not read, and {span} differ in this flag."
            yield Finding(name, UNKNOWN, reason)
            return
        if row is None:
            yield self._no_flag(version, name, long, value)
            return
        old = old_names.find_argument(self._names, name, value)
        if old is not None and old.kind == "argument value":
            yield Finding(name, BAD, f"{old.reason}.", old.today)
            return
        if negated and not row.get("negation"):
            yield Finding(name, BAD, "this flag has no negation; leave it out.")
        elif value is not None:
            yield from self._value(name, long, row, value)

    def _part_of_json(self, version: str, long: str) -> bool:
        """Say whether this is a flag whose JSON may be given key by key (--flag.key value)."""
        row = self.flag(version, long)
        return row is not None and "json" in row["type"]

    def _no_flag(self, version: str, name: str, long: str, value: Any) -> Finding:
        """Return what to say of a flag that this release does not have."""
        if versions.compare(version, self._versions[-1]) > 0:
            reason = f"vLLM {version} is newer than the catalog, whose newest release lacks it."
            return Finding(name, UNKNOWN, reason)
        old = old_names.find_argument(self._names, name, value)
        if old is not None:
            return Finding(name, BAD, f"{old.reason}.", old.today)
        rows = self._flags.get(long)
        if rows:
            return Finding(name, BAD, self._other_release(version, rows))
        near = difflib.get_close_matches(long, self.names(version), 1, 0.75)
        today = near[0].removeprefix("--") if near else ""
        hint = " Did you mean this?" if near else ""
        return Finding(name, BAD, f"vLLM {version} has no such flag.{hint}", today)

    def _other_release(self, version: str, rows: list[Row]) -> str:
        first, last = rows[0]["first"], rows[-1]["last"]
        if versions.compare(version, first) < 0:
            return f"vLLM {version} does not have it yet; its first release is {first}."
        return f"vLLM {version} does not have it any more; its last release was {last}."

    def _value(self, name: str, long: str, row: Row, value: Any) -> Iterator[Finding]:
        plugin = self._plugin.get(long.removeprefix("--"), {})
        wrong = _type_problem(row, value)
        if wrong:
            yield Finding(name, BAD, wrong)
            return
        for item in value if isinstance(value, list) and row.get("nargs") else [value]:
            yield from self._item(name, row, plugin, item)
        keeps = plugin.get("keeps")
        if keeps and str(value) not in keeps:
            reason = f"on Ascend {', '.join(keeps)} is what runs: {plugin.get('note', '')}."
            yield Finding(name, UNKNOWN, reason)

    def _item(self, name: str, row: Row, plugin: Row, item: Any) -> Iterator[Finding]:
        text = str(item)
        choices = [str(c) for c in row.get("choices", [])]
        known = [str(c) for c in row.get("known", [])]
        if text in plugin.get("adds", []):
            return
        if choices and text not in choices:
            near = difflib.get_close_matches(text, choices, 1)
            reason = f"{text} is none of its values: {', '.join(choices)}."
            yield Finding(name, BAD, reason, near[0] if near else "")
        elif known and text not in known:
            reason = f"{text} is none of the values that this release knows by itself."
            yield Finding(name, UNKNOWN, reason)
        elif row.get("range"):
            yield from _range_problem(name, row["range"], item)


def _type_problem(row: Row, value: Any) -> str | None:
    """Return why a value cannot be of the flag's type."""
    kind = row["type"]
    if kind in ("bool", "flag"):
        if not isinstance(value, bool):
            return f"must be true or false, not {value!r}."
        return None if value or kind == "bool" else "is a switch: true, or leave it out."
    if isinstance(value, bool):
        return None if row.get("nargs") == "?" else f"needs a value, not {str(value).lower()}."
    if isinstance(value, Mapping) and "json" not in kind:
        return "takes no mapping."
    if isinstance(value, list) and "json" not in kind and not _takes_list(row, value):
        return f"takes {_count(row)}, not a list of {len(value)}."
    items = value if isinstance(value, list) and "json" not in kind else [value]
    bad = next((item for item in items if not _is_of(kind, item)), None)
    return None if bad is None else f"must be {TYPES[kind]}, not {bad!r}."


def _takes_list(row: Row, value: list[Any]) -> bool:
    nargs = row.get("nargs")
    if isinstance(nargs, int):
        return len(value) == nargs
    return bool(row.get("repeats")) or (nargs in ("+", "*") and bool(value or nargs == "*"))


def _count(row: Row) -> str:
    nargs = row.get("nargs")
    return f"{nargs} values" if isinstance(nargs, int) else "one value"


def _is_of(kind: str, value: Any) -> bool:
    """Say whether a value (a number of YAML, or a text) can be read as the type."""
    text = str(value)
    if kind == "int":
        return bool(re.fullmatch(r"-?\d+", text))
    if kind == "float":
        return bool(re.fullmatch(r"-?(\d+(\.\d*)?|\.\d+)([eE]-?\d+)?", text))
    if kind.startswith("size"):
        return bool(SIZE.match(text)) or (kind == "size or auto" and text in ("auto", "-1"))
    if kind == "json":
        return not isinstance(value, str) or _is_json(value)
    return True


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _range_problem(name: str, bounds: Row, value: Any) -> Iterator[Finding]:
    """Yield a finding where a number lies outside of the flag's range."""
    number = _number(value)
    if number is None:
        return
    words = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
    good = {
        "gt": lambda bound: number > bound,
        "ge": lambda bound: number >= bound,
        "lt": lambda bound: number < bound,
        "le": lambda bound: number <= bound,
    }
    if not all(good[key](bound) for key, bound in bounds.items()):
        span = " and ".join(f"{words[key]} {bound}" for key, bound in bounds.items())
        yield Finding(name, BAD, f"must be {span}, not {value}.")


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
