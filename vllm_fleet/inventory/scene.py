"""What every check of an inventory needs: the values, who has them, and where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from vllm_fleet.errors import Problem
from vllm_fleet.inventory.marks import Definition, Marks
from vllm_fleet.inventory.model import Inventory
from vllm_fleet.inventory.precedence import Precedence
from vllm_fleet.inventory.specs import Finding, Option, Path_

Specs = Mapping[str, Mapping[str, Option]]


class Scene:
    """An inventory together with its files and the options of the roles."""

    def __init__(self, inventory: Inventory, specs: Specs, marks: Marks) -> None:
        self.inventory = inventory
        self.specs = specs
        self.marks = marks
        self.options = {name: spec for role in specs.values() for name, spec in role.items()}
        self.precedence = Precedence(inventory, marks)
        self._distinct: dict[str, list[tuple[Any, tuple[str, ...]]]] = {}

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts that are meant."""
        return self.inventory.selected

    @cached_property
    def names(self) -> list[str]:
        """Return the names of all variables."""
        every = (self.inventory.variables[host] for host in self.hosts)
        return sorted({name for variables in every for name in variables})

    def value(self, host: str, name: str) -> Any:
        """Return a host's value of a variable; None where it has none."""
        return self.inventory.variables[host].get(name)

    def holders(self, name: str) -> tuple[str, ...]:
        """Return the hosts that have a variable."""
        return tuple(host for host in self.hosts if name in self.inventory.variables[host])

    def distinct(self, name: str) -> list[tuple[Any, tuple[str, ...]]]:
        """Return each value that a variable has, with the hosts that have it."""
        if name not in self._distinct:
            self._distinct[name] = self._group(name)
        return self._distinct[name]

    def _group(self, name: str) -> list[tuple[Any, tuple[str, ...]]]:
        found: dict[str, tuple[Any, list[str]]] = {}
        for host in self.hosts:
            variables = self.inventory.variables[host]
            if name in variables:
                value = variables[name]
                found.setdefault(f"{type(value)}{value!r}", (value, []))[1].append(host)
        return [(value, tuple(hosts)) for value, hosts in found.values()]

    def problem(
        self, name: str, hosts: tuple[str, ...], finding: Finding, show_hosts: bool = True
    ) -> Problem:
        """Turn a finding into a problem with its place."""
        place = self.place(name, hosts)
        label = labelled(name, finding.path)
        return Problem(
            message=f"{label} {finding.message}",
            file=place.file if place else self.inventory.sources[0],
            line=place.line_of(finding.path) if place else 0,
            hosts=hosts if show_hosts else (),
            option=label,
            hint=finding.hint,
        )

    def place(self, name: str, hosts: tuple[str, ...]) -> Definition | None:
        """Return where a variable gets the value that a host has."""
        host = hosts[0] if hosts else ""
        ranked = self.precedence.sources(host, name)
        return ranked[0].definition if ranked else None


def labelled(name: str, path: Path_) -> str:
    """Return a part of a variable as a person writes it: name.key[0]."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return name + "".join(steps)
