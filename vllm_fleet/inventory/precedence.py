"""Where each value comes from, and which source wins: Ansible's order, from its files.

From weak to strong (VARIABLE_PRECEDENCE of ansible-core): a role's default; group ``all`` and then
the other groups in the inventory's own files; ``group_vars/all`` and then ``group_vars/GROUP``
(beside the inventory, then beside the playbook); the host in the inventory's files; ``host_vars``;
``-e``. Groups stand by depth, then by ansible_group_priority, then by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vllm_fleet.errors import Problem
from vllm_fleet.inventory.load import expand
from vllm_fleet.inventory.marks import EXTRA, Definition, Marks, Reader, compose
from vllm_fleet.inventory.model import Inventory

ALL, GROUP, VARS_ALL, VARS_GROUP, HOST, HOST_VARS, COMMAND = range(1, 8)
KINDS = {
    ALL: "inventory, group {scope}",
    GROUP: "inventory, group {scope}",
    VARS_ALL: "group_vars/{scope}",
    VARS_GROUP: "group_vars/{scope}",
    HOST: "inventory, host {scope}",
    HOST_VARS: "host_vars/{scope}",
    COMMAND: "-e",
}
# More than there are sources: what stands beside the playbook comes after all of them.
MANY = 10**6
Rank = tuple[int, int, int, int, str, int]


@dataclass(frozen=True)
class Source:
    """One source of a value for a host, with its place in Ansible's order."""

    definition: Definition
    rank: Rank

    @property
    def kind(self) -> str:
        """Return what kind of source it is, in words."""
        return KINDS[self.rank[0]].format(scope=self.definition.scope)

    @property
    def level(self) -> tuple[int, ...]:
        """Return the part of the order that a person chose; beyond it only names decide."""
        return self.rank[:4]


class Precedence:
    """Ranks the definitions of an inventory."""

    def __init__(self, inventory: Inventory, marks: Marks) -> None:
        self.inventory = inventory
        # For each name the definitions of each scope, with their place among all.
        self._places: dict[str, dict[str, list[tuple[int, Definition]]]] = {}
        for number, item in enumerate(marks.definitions):
            scopes = self._places.setdefault(item.name, {})
            for scope in expand(item.scope) if "[" in item.scope else [item.scope]:
                scopes.setdefault(scope, []).append((number, item))

    def sources(self, host: str, name: str) -> list[Source]:
        """Return the sources of a host's variable, the winner first."""
        scopes = self._places.get(name, {})
        found = [
            Source(item, self._rank(item, number))
            for scope in dict.fromkeys(("all", *self.inventory.groups_of(host), host, EXTRA))
            for number, item in scopes.get(scope, ())
            if _is_about(item, scope, host)
        ]
        return sorted(found, key=lambda source: source.rank, reverse=True)

    def names(self, host: str) -> list[str]:
        """Return the names that a host has from the inventory's files."""
        return [name for name in sorted(self._places) if self.sources(host, name)]

    def _rank(self, item: Definition, number: int) -> Rank:
        """Return the place of a definition in Ansible's order."""
        at_playbook = int(item.at_playbook)
        if item.kind == EXTRA:
            return (COMMAND, 0, 0, 0, "", number)
        if item.kind == "host":
            return (HOST_VARS if item.in_vars else HOST, at_playbook, item.source, 0, "", number)
        if item.scope == "all":
            return (VARS_ALL if item.in_vars else ALL, at_playbook, item.source, 0, "", number)
        depth, priority = self.inventory.depths.get(item.scope, (0, 1))
        if not item.in_vars:
            return (GROUP, 0, depth, priority, item.scope, number)
        # Files beside a later source win over those beside an earlier one, whatever the depth.
        order = 2 * item.source + 1 if not at_playbook else 2 * MANY
        return (VARS_GROUP, order, depth, priority, item.scope, number)

    def conflicts(self) -> Iterator[Problem]:
        """Yield variables for which only the names of two groups decide which value wins."""
        found: dict[tuple[int, int], tuple[Source, Source, list[str]]] = {}
        known: dict[tuple[str, tuple[str, ...]], list[tuple[Source, Source]]] = {}
        for name in sorted(self._places):
            if name == "ansible_group_priority" or not self._is_doubtful(name):
                continue
            for host in self.inventory.selected:
                own = (host,) if host in self._places[name] else ()
                key = (name, (*self.inventory.groups_of(host), *own))
                if key not in known:
                    known[key] = list(self._equal(host, name))
                for winner, loser in known[key]:
                    pair = (winner.rank[-1], loser.rank[-1])
                    found.setdefault(pair, (winner, loser, []))[2].append(host)
        for winner, loser, hosts in found.values():
            yield self._conflict(winner, loser, tuple(hosts))

    def _is_doubtful(self, name: str) -> bool:
        """Say whether several groups define a variable at all."""
        groups = [
            scope for scope, items in self._places[name].items() if items[0][1].kind == "group"
        ]
        return len(groups) > 1

    def _equal(self, host: str, name: str) -> Iterator[tuple[Source, Source]]:
        """Yield the winner with each source that only its group's name ranks below it."""
        ranked = self.sources(host, name)
        if not ranked or ranked[0].rank[0] not in (GROUP, VARS_GROUP):
            return
        winner = ranked[0]
        for other in ranked[1:]:
            same = other.level == winner.level and other.definition.scope != winner.definition.scope
            if same and not equal(winner.definition, other.definition):
                yield winner, other

    def _conflict(self, winner: Source, loser: Source, hosts: tuple[str, ...]) -> Problem:
        first, second = winner.definition, loser.definition
        return Problem(
            f"{first.name}: group {first.scope} wins over group {second.scope} "
            f"({second.file}:{second.line}) only because its name comes later in the alphabet",
            first.file,
            first.line,
            hosts,
            first.name,
            "set it in one of them, make one the other's child, or give ansible_group_priority",
        )


def equal(one: Definition, two: Definition) -> bool:
    """Say whether two definitions say the same."""
    return bool(content(one) == content(two))


def content(definition: Definition) -> Any:
    """Return what a definition says, as far as text can be compared."""
    node = definition.node
    return _plain(node) if node is not None else ("text", definition.text.strip("\"'"))


def _plain(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        pairs = ((str(key.value), _plain(value)) for key, value in node.value)
        return ("mapping", tuple(sorted(pairs, key=lambda pair: pair[0])))
    if isinstance(node, yaml.SequenceNode):
        return ("list", tuple(map(_plain, node.value)))
    return ("text", str(node.value))


def rendered(node: yaml.Node | None, text: str) -> Any:
    """Return a definition's value as plain data, with encrypted parts named as such."""
    if node is None:
        return text
    if node.tag.startswith("!"):
        return f"({node.tag.strip('!') or 'tagged'})"
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): rendered(value, "") for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [rendered(item, "") for item in node.value]
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node)
    finally:
        loader.dispose()


def defaults(roles: Path, name: str) -> list[Definition]:
    """Return where the roles in a folder give a variable its default."""
    found = []
    for file in sorted(roles.glob("*/defaults/main.yml")):
        node = compose(file.read_text(encoding="utf-8"))
        role = file.parent.parent.name
        items = Reader(str(file)).pairs(node, role, "role") if node is not None else []
        found += [item for item in items if item.name == name]
    return found


def _is_about(item: Definition, scope: str, host: str) -> bool:
    """Say whether a definition is about a host: a group may have the name of a host."""
    return item.kind == EXTRA or (scope == host if item.kind == "host" else True)
