"""Find the file and line where a variable was defined.

Ansible only says what a value is; a person needs to know where it stands. YAML files are composed
with their marks kept, INI files are read line by line. Where the same variable is defined in
several places, the one that wins in Ansible is preferred (host over group, later over earlier).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from vllm_fleet.inventory.yamls import LOADER

YAML_SUFFIXES = {".yml", ".yaml", ".json", ""}
SKIPPED_SUFFIXES = {".md", ".txt", ".rst", ".bak", ".orig", ".cfg", ".retry", ".pyc", ".swp"}
OTHER_SUFFIXES = {".yml", ".yaml", ".json", ".toml", ".py", ".sh"}
EXTRA = "-e"
KINDS = {"group_vars": "group", "host_vars": "host", EXTRA: EXTRA}
SUFFIX_ORDER = ("", ".yml", ".yaml", ".json")


@dataclass(frozen=True)
class Origin:
    """Where a file stands: which inventory source brought it, and in which folder of variables."""

    source: int = 0
    # group_vars, host_vars, or nothing for an inventory source itself.
    folder: str = ""
    scope: str = ""
    at_playbook: bool = False


@dataclass(frozen=True)
class Definition:
    """One place where a variable gets a value."""

    name: str
    file: str
    line: int
    scope: str
    node: yaml.Node | None = field(default=None, compare=False)
    # What an INI file says, as it stands there.
    text: str = field(default="", compare=False)
    # What the scope is (group, host, -e), and where the file stands.
    kind: str = ""
    origin: Origin = field(default_factory=lambda: Origin(), compare=False)

    @property
    def in_vars(self) -> bool:
        """Say whether it stands in group_vars or host_vars."""
        return bool(self.origin.folder)

    @property
    def at_playbook(self) -> bool:
        """Say whether it stands beside the playbook instead of the inventory."""
        return self.origin.at_playbook

    @property
    def source(self) -> int:
        """Return the place of its inventory source on the command line."""
        return self.origin.source

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

    def __init__(
        self,
        sources: Iterable[str],
        extra: Iterable[str] = (),
        base: str = "",
        ignored: Iterable[str] = (),
    ) -> None:
        """Read every file; ``ignored`` are suffixes that Ansible skips in a folder."""
        self.definitions: list[Definition] = []
        self.duplicates: list[Definition] = []
        # The texts of INI files, and files that Ansible does not read with what it reads instead.
        self.ini: dict[str, str] = {}
        self.unread: list[tuple[Path, Path]] = []
        skipped = SKIPPED_SUFFIXES | set(ignored)
        for file, origin in files(sources, base, self.unread):
            if origin.folder or file.suffix not in skipped or str(file) in sources:
                self._read(file, origin)
        for name in extra:
            self._read(Path(name), Origin(folder=EXTRA, scope=EXTRA))

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

    def _read(self, file: Path, origin: Origin) -> None:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        if file.suffix in YAML_SUFFIXES and (node := compose(text)) is not None:
            self._read_yaml(node, Reader(str(file), origin))
        elif not origin.folder and is_ini(file, text):
            self.definitions += ini_definitions(text, str(file), origin)
            self.ini[str(file)] = text

    def _read_yaml(self, node: yaml.Node, reader: Reader) -> None:
        self.duplicates += [reader.definition(key, None) for key in duplicate_keys(node)]
        if reader.origin.folder:
            self.definitions += reader.pairs(node, reader.origin.scope, KINDS[reader.origin.folder])
            return
        for group, body in mapping(node):
            self._read_group(str(group.value), body, reader)

    def _read_group(self, group: str, body: yaml.Node, reader: Reader) -> None:
        """Take in a group of a YAML inventory, with its hosts and children."""
        for key, value in mapping(body):
            if key.value == "vars":
                self.definitions += reader.pairs(value, group, "group")
            elif key.value == "hosts":
                for host, variables in mapping(value):
                    self.definitions += reader.pairs(variables, str(host.value), "host")
            elif key.value == "children":
                for child, inner in mapping(value):
                    self._read_group(str(child.value), inner, reader)


@dataclass(frozen=True)
class Reader:
    """Makes definitions of one file."""

    file: str
    origin: Origin = Origin()

    def definition(
        self, key: yaml.Node, value: yaml.Node | None, scope: str = "", kind: str = ""
    ) -> Definition:
        """Return the definition that stands at a key."""
        line = key.start_mark.line + 1
        return Definition(str(key.value), self.file, line, scope, value, "", kind, self.origin)

    def pairs(self, node: yaml.Node, scope: str, kind: str) -> list[Definition]:
        """Return what a mapping defines."""
        return [self.definition(key, value, scope, kind) for key, value in mapping(node)]


def compose(text: str) -> yaml.Node | None:
    """Return the nodes of a YAML text, or nothing where it is none."""
    try:
        node = yaml.compose(text, Loader=LOADER)
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


def is_ini(file: Path, text: str) -> bool:
    """Say whether a source that is no YAML is read as INI (and is no program)."""
    return not text.startswith("#!") and file.suffix not in OTHER_SUFFIXES


def ini_definitions(text: str, file: str, origin: Origin) -> list[Definition]:
    """Return what an INI inventory defines."""
    found = []
    for number, section, line in ini_lines(text):
        if section.endswith(":vars"):
            name, _, value = line.partition("=")
            scope = section.removesuffix(":vars")
            found.append(
                Definition(name.strip(), file, number, scope, None, value.strip(), "group", origin)
            )
        elif not section.endswith(":children"):
            host, *words = shell_words(line)
            for word in words:
                name, equals, value = word.partition("=")
                if equals:
                    found.append(Definition(name, file, number, host, None, value, "host", origin))
    return found


def shell_words(line: str) -> list[str]:
    """Return the words of a line with their quotes, up to a comment (as Ansible splits them)."""
    words: list[str] = []
    word = quote = ""
    for letter in line:
        if not quote and letter == "#":
            break
        if not quote and letter.isspace():
            words, word = ([*words, word], "") if word else (words, "")
            continue
        if letter in "\"'" and quote in ("", letter):
            quote = "" if quote else letter
        word += letter
    return [*words, word] if word else words


def ini_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield number, section and content of each line of an INI inventory that says something."""
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if stripped.startswith("[") and "]" in stripped and "=" not in stripped:
            head = stripped.partition("#")[0].strip()
            if head.endswith("]"):
                section = head[1:-1]
                continue
        yield number, section, stripped.replace("\t", " ")


def files(
    sources: Iterable[str], base: str = "", unread: list[tuple[Path, Path]] | None = None
) -> Iterator[tuple[Path, Origin]]:
    """Yield the files of the inventory, and where each of them stands."""
    folders = {Path(base): Origin(at_playbook=True)} if base else {}
    for number, source in enumerate(sources):
        path = Path(source)
        if "," in source or not path.exists():
            continue
        folders[path if path.is_dir() else path.parent] = Origin(number)
        inner = sorted(path.iterdir()) if path.is_dir() else [path]
        yield from ((file, Origin(number)) for file in inner if _is_source(file))
    for folder, origin in folders.items():
        for kind in ("group_vars", "host_vars"):
            for file, scope in variable_files(folder / kind, unread):
                yield file, replace(origin, folder=kind, scope=scope)


def _is_source(file: Path) -> bool:
    return file.is_file() and file.suffix not in SKIPPED_SUFFIXES


def variable_files(
    folder: Path, unread: list[tuple[Path, Path]] | None = None
) -> Iterator[tuple[Path, str]]:
    """Yield the files below ``group_vars`` or ``host_vars`` with the name that they are for.

    Of NAME (a folder or a file), NAME.yml, NAME.yaml and NAME.json Ansible reads the first only.
    """
    entries = sorted(folder.iterdir()) if folder.is_dir() else []
    wanted = [entry for entry in entries if entry.is_dir() or entry.suffix in YAML_SUFFIXES]
    taken: dict[str, Path] = {}
    for entry in sorted(wanted, key=lambda entry: SUFFIX_ORDER.index(_suffix(entry))):
        name = entry.name.removesuffix(_suffix(entry))
        if name in taken:
            (unread if unread is not None else []).append((entry, taken[name]))
        taken.setdefault(name, entry)
    for name, entry in sorted(taken.items()):
        inner = sorted(entry.rglob("*")) if entry.is_dir() else [entry]
        yield from ((path, name) for path in inner if path.is_file() and path.name[0] != ".")


def _suffix(entry: Path) -> str:
    """Return the part of a name that says how a file is written; a folder has none."""
    return "" if entry.is_dir() else entry.suffix
