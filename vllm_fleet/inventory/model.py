"""The inventory as plain data, whatever Ansible's own objects look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


class Vaulted(str):
    """A value that was encrypted in the inventory; it must not be shown."""

    __slots__ = ()


class Locked(str):
    """A value that is encrypted in the inventory and could not be decrypted."""

    __slots__ = ()


@dataclass(frozen=True)
class Inventory:
    """What Ansible makes of the inventory sources."""

    sources: tuple[str, ...]
    hosts: tuple[str, ...]
    selected: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, frozenset[str]]
    variables: Mapping[str, dict[str, Any]]
    matching: Callable[[str], tuple[str, ...]]
    # Each group's depth and ansible_group_priority.
    depths: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @cached_property
    def memberships(self) -> dict[str, list[str]]:
        """Return the groups of every host."""
        found: dict[str, list[str]] = {host: [] for host in self.hosts}
        for name, members in self.groups.items():
            for host in members:
                found.setdefault(host, []).append(name)
        return found

    def groups_of(self, host: str) -> list[str]:
        """Return the groups that a host is in."""
        return self.memberships.get(host, [])


def is_template(value: Any) -> bool:
    """Say whether only a run can settle a value."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)
