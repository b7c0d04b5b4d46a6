"""Find the file and line where a variable was defined.

Ansible only says what a value is; a person needs to know where it stands. YAML files are composed
with their marks kept, INI files are read line by line. Where the same variable is defined in
several places, the one that wins in Ansible is preferred (host over group, later over earlier).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

YAML_SUFFIXES = {".yml", ".yaml", ".json", ""}
SKIPPED_SUFFIXES = {".md", ".txt", ".rst", ".bak", ".orig", ".cfg", ".retry", ".pyc", ".swp"}
INI_VALUE = re.compile(r"(?P<name>[\w.-]+)\s*=")
EXTRA = "-e"


@dataclass(frozen=True)
class Definition:
    """One place where a variable gets a value."""

    name: str
    file: str
    line: int
    scope: str
    node: yaml.Node | None = field(default=None, compare=False)

    def line_of(self, path: Iterable[str | int]) -> int:
        """Return the line of a part of the value, as near as it is found."""
        node, line = self.node, self.line
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            node, line = found
        return line


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, int] | None:
    """Return a child of a node, and its line."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line + 1
    return None


class Marks:
    """Every definition in the inventory's files."""

    def __init__(self, sources: Iterable[str], extra: Iterable[str] = (), base: str = "") -> None:
        self.definitions: list[Definition] = []
        self.duplicates: list[Definition] = []
        for file, scope in files(sources, base):
            self._read(file, scope)
        for name in extra:
            self._read(Path(name), EXTRA)

    def named(self, name: str) -> list[Definition]:
        """Return the places where a variable is defined."""
        return [item for item in self.definitions if item.name == name]

    def find(self, name: str, host: str = "", groups: Iterable[str] = ()) -> Definition | None:
        """Return the definition that most likely gave a host its value."""
        order = {EXTRA: 3, host: 2} | dict.fromkeys(groups, 1)
        best, rank = None, -1
        for item in self.named(name):
            mine = order.get(item.scope, 2 if "[" in item.scope else 0)
            if mine >= rank:
                best, rank = item, mine
        return best

    def _read(self, file: Path, scope: str | None) -> None:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        if file.suffix in YAML_SUFFIXES and (node := compose(text)) is not None:
            self._read_yaml(node, str(file), scope)
        elif scope is None:
            self.definitions += ini_definitions(text, str(file))

    def _read_yaml(self, node: yaml.Node, file: str, scope: str | None) -> None:
        self.duplicates += [
            Definition(str(key.value), file, key.start_mark.line + 1, scope or "")
            for key in duplicate_keys(node)
        ]
        if scope is not None:
            self.definitions += list(pairs(node, file, scope))
            return
        for group, body in mapping(node):
            self._read_group(str(group.value), body, file)

    def _read_group(self, group: str, body: yaml.Node, file: str) -> None:
        """Take in a group of a YAML inventory, with its hosts and children."""
        for key, value in mapping(body):
            if key.value == "vars":
                self.definitions += list(pairs(value, file, group))
            elif key.value == "hosts":
                for host, variables in mapping(value):
                    self.definitions += list(pairs(variables, file, str(host.value)))
            elif key.value == "children":
                for child, inner in mapping(value):
                    self._read_group(str(child.value), inner, file)


def compose(text: str) -> yaml.Node | None:
    """Return the nodes of a YAML text, or nothing where it is none."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    return node if isinstance(node, yaml.MappingNode) else None


def broken_line(text: str) -> int:
    """Return the line at which a text stops being YAML, or 0."""
    try:
        yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        return error.problem_mark.line + 1 if error.problem_mark else 0
    except yaml.YAMLError:
        return 0
    return 0


def mapping(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the pairs of a mapping, or none where it is none."""
    return list(node.value) if isinstance(node, yaml.MappingNode) else []


def pairs(node: yaml.Node, file: str, scope: str) -> Iterator[Definition]:
    """Yield what a mapping defines."""
    for key, value in mapping(node):
        yield Definition(str(key.value), file, key.start_mark.line + 1, scope, value)


def duplicate_keys(node: yaml.Node) -> Iterator[yaml.Node]:
    """Yield keys that stand twice in one mapping: the first one is lost in silence."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from duplicate_keys(item)
    seen = set()
    for key, value in mapping(node):
        if isinstance(key, yaml.ScalarNode) and key.value != "<<":
            if key.value in seen:
                yield key
            seen.add(key.value)
        yield from duplicate_keys(value)


def ini_definitions(text: str, file: str) -> list[Definition]:
    """Return what an INI inventory defines."""
    found, section = [], ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if stripped.startswith("[") and stripped.endswith("]"):
            section = stripped[1:-1]
        elif section.endswith(":vars"):
            name = stripped.partition("=")[0].strip()
            found.append(Definition(name, file, number, section.removesuffix(":vars")))
        elif not section.endswith(":children"):
            host = stripped.split()[0]
            names = (match["name"] for match in INI_VALUE.finditer(stripped[len(host) :]))
            found += [Definition(name, file, number, host) for name in names]
    return found


def files(sources: Iterable[str], base: str = "") -> Iterator[tuple[Path, str | None]]:
    """Yield the files of the inventory; with a scope where a file belongs to one group or host."""
    folders = [Path(base)] if base else []
    for source in sources:
        path = Path(source)
        if "," in source or not path.exists():
            continue
        folders.append(path if path.is_dir() else path.parent)
        inner = sorted(path.iterdir()) if path.is_dir() else [path]
        yield from ((file, None) for file in inner if _is_source(file))
    for folder in dict.fromkeys(folders):
        for kind in ("group_vars", "host_vars"):
            yield from variable_files(folder / kind)


def _is_source(file: Path) -> bool:
    return file.is_file() and file.suffix not in SKIPPED_SUFFIXES


def variable_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files below ``group_vars`` or ``host_vars`` with the name that they are for."""
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if entry.is_dir():
            inner = sorted(path for path in entry.rglob("*") if path.is_file())
            yield from ((path, entry.name) for path in inner)
        elif entry.suffix in YAML_SUFFIXES:
            yield entry, entry.name.removesuffix(entry.suffix)
