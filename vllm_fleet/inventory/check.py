"""Check an inventory before anything is touched; every problem says where it is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vllm_fleet.errors import Problem
from vllm_fleet.inventory.artifacts import Files
from vllm_fleet.inventory.declared import Declared
from vllm_fleet.inventory.engine import Instances
from vllm_fleet.inventory.fitting import Fitting
from vllm_fleet.inventory.guides import Guides
from vllm_fleet.inventory.hints import closest, did_you_mean
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.load import core_version
from vllm_fleet.inventory.marks import Marks
from vllm_fleet.inventory.model import Inventory, Locked, Vaulted, is_template
from vllm_fleet.inventory.names import ACCELERATORS, ANSIBLE_NAMES, BUILDERS
from vllm_fleet.inventory.plays import Play
from vllm_fleet.inventory.removed import removed
from vllm_fleet.inventory.resolution import Pythons, Resolutions
from vllm_fleet.inventory.scene import Scene, Specs
from vllm_fleet.inventory.schema import VARIABLES, FleetSettings, read_settings
from vllm_fleet.inventory.specs import Finding, Path_, check
from vllm_fleet.inventory.written import SECRET_OPTIONS, Written, is_secret

SETTINGS = "vllm_fleet"


@dataclass
class Report:
    """What the checks found."""

    settings: FleetSettings | None = None
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    # What is not known to be wrong, and worth knowing.
    notes: list[Problem] = field(default_factory=list)
    settled_at_run: list[str] = field(default_factory=list)
    settled_at_scan: list[dict[str, Any]] = field(default_factory=list)
    sets: list[dict[str, Any]] = field(default_factory=list)


class Checker:
    """Checks one inventory against the roles and plays of the collection."""

    def __init__(
        self,
        inventory: Inventory,
        specs: Specs,
        plays: Iterable[Play],
        marks: Marks,
        knowledge: Knowledge | None = None,
        seen: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.inventory = inventory
        self.specs = specs
        self.plays = list(plays)
        self.marks = marks
        self.knowledge = knowledge
        # What each host was when a run last saw it.
        self.seen = seen or {}
        self.scene = Scene(inventory, specs, marks)
        self.options = self.scene.options

    def report(self) -> Report:
        """Run every check."""
        report = Report()
        report.settings, problems = self.settings()
        report.problems += problems
        report.problems += self.duplicates()
        report.problems += self.groups()
        report.problems += self.values()
        report.problems += self.missing()
        report.problems += self.unknown_names()
        report.problems += removed(self.scene, self._removed())
        report.warnings += self.strangers()
        report.settled_at_run += self.templates()
        written = Written(self.scene)
        report.problems += written.problems()
        report.warnings += written.warnings()
        report.warnings += self.conflicts()
        if self.knowledge is not None:
            self._versions(report, self.knowledge)
        report.problems = merged(report.problems)
        report.warnings = merged(report.warnings)
        report.notes = merged(report.notes)
        return report

    def conflicts(self) -> Iterator[Problem]:
        """Point at variables for which only the names of groups decide who wins."""
        yield from self.scene.precedence.conflicts()
        for file, instead in self.marks.unread:
            words = f"Ansible does not read this file, since {instead.name} is there, too"
            yield Problem(
                words, str(file), hint=f"put it into {instead}" if instead.is_dir() else ""
            )

    def _versions(self, report: Report, knowledge: Knowledge) -> None:
        """Run the checks that need the catalog."""
        declared = Declared(self.scene, knowledge, report.settings, self.seen)
        report.problems += declared.problems
        report.warnings += declared.warnings
        report.notes += declared.notes
        resolutions = Resolutions(self.scene, knowledge, declared)
        report.sets = [judged.as_dict() for judged in resolutions.judged]
        report.problems += [item for judged in resolutions.judged for item in judged.problems]
        report.notes += resolutions.notes()
        pythons = Pythons(self.scene, knowledge, declared, core_version())
        report.problems += pythons.problems()
        report.warnings += pythons.warnings()
        report.settled_at_scan += [*resolutions.unsettled(), *pythons.unsettled()]
        told = Instances(self.scene, knowledge, resolutions, Fitting(knowledge, declared)).check()
        report.problems += told.problems
        report.notes += told.notes
        guides = Guides(self.scene, knowledge, resolutions)
        report.problems += guides.problems()
        report.warnings += guides.warnings()
        files = Files(self.scene, knowledge, declared, resolutions)
        report.problems += files.problems()
        report.notes += files.notes()

    # The fleet's own settings

    def settings(self) -> tuple[FleetSettings | None, list[Problem]]:
        """Check the mapping ``vllm_fleet``."""
        seen = [(host, self.inventory.variables[host].get(SETTINGS)) for host in self.scene.hosts]
        host, value = seen[0]
        if value is None:
            hint = "in group all, under vars:  vllm_fleet: {name: my-fleet}"
            where = self.inventory.sources[0]
            message = "there is no mapping vllm_fleet with the fleet's name"
            return None, [Problem(message, file=where, option=SETTINGS, hint=hint)]
        others = tuple(name for name, other in seen if other != value)
        if others:
            message = f"differs between hosts; it belongs into group all ({host} has another)"
            return None, [self.scene.problem(SETTINGS, others, Finding((), message))]
        settings, findings = read_settings(value)
        return settings, [self.scene.problem(SETTINGS, (host,), item, False) for item in findings]

    # Groups

    def groups(self) -> Iterator[Problem]:
        """Check the groups that the plays and the roles rely on."""
        if not any(self.inventory.groups.get(name) for name in ACCELERATORS):
            words = f"no host is in one of the groups {', '.join(ACCELERATORS)}"
            yield Problem(words, file=self.inventory.sources[0])
        yield from self._groups_of_plays()
        yield from self._groups_of_files()
        yield from self._two_accelerators()

    def _groups_of_plays(self) -> Iterator[Problem]:
        """Every group that a play names must be there; Ansible would skip the play in silence."""
        known = {*self.inventory.groups, *self.inventory.hosts, "all", "localhost"}
        wanted = {name: play for play in self.plays for name in play.groups()}
        for name, play in sorted(wanted.items()):
            if name not in known and name not in ACCELERATORS and not re.search(r"[*?~\[]", name):
                hint = did_you_mean(name, self.inventory.groups, 0.75)
                yield Problem(
                    f"there is no group {name}, and {Path(play.file).name} works on it",
                    file=self.inventory.sources[0],
                    hint=hint if hint.startswith("did") else f"add it (it may be empty): {name}:",
                )

    def _groups_of_files(self) -> Iterator[Problem]:
        """Every file in group_vars must be for a group that is there; Ansible skips it else."""
        known = {*self.inventory.groups, *ACCELERATORS}
        for item in self.marks.definitions:
            if item.kind == "group" and item.in_vars and item.scope not in known:
                words = f"there is no group {item.scope}, so that nothing reads this file"
                yield Problem(words, file=item.file, hint=did_you_mean(item.scope, known, 0.75))

    def _two_accelerators(self) -> Iterator[Problem]:
        for host in self.scene.hosts:
            mine = [name for name in self.inventory.groups_of(host) if name in ACCELERATORS]
            if len(mine) > 1:
                message = f"is in more than one of the groups {', '.join(mine)}"
                yield Problem(message, file=self.inventory.sources[0], hosts=(host,))

    def strangers(self) -> Iterator[Problem]:
        """Point at hosts that nothing works on."""
        wanted = {*ACCELERATORS, BUILDERS}
        lost = tuple(h for h in self.scene.hosts if not wanted & set(self.inventory.groups_of(h)))
        if lost:
            words = f"in none of the groups {', '.join([*ACCELERATORS, BUILDERS])}: left alone"
            groups = {name for host in lost for name in self.inventory.groups_of(host)}
            meant = [f"{name}: did you mean {like}?" for name in sorted(groups - wanted)
                     if (like := closest(name, wanted))]  # fmt: skip
            yield Problem(words, self.inventory.sources[0], hosts=lost, hint="; ".join(meant))

    # Values

    def values(self) -> Iterator[Problem]:
        """Check the value of each role option, once for all hosts that have the same."""
        for name, wanted in self.options.items():
            for value, hosts in self.scene.distinct(name):
                if isinstance(value, Locked):
                    finding = Finding((), f"is encrypted: {value}", "give --vault-id LABEL@FILE")
                    yield self.scene.problem(name, hosts, finding)
                for finding in check(wanted, value):
                    told = unseen(finding) if is_hidden(name, finding.path, value) else finding
                    yield self.scene.problem(name, hosts, told)

    def missing(self) -> Iterator[Problem]:
        """Check that each host has the options that its roles require."""
        for role, given, hosts in self._roles():
            for name, wanted in self.specs.get(role, {}).items():
                if not wanted.required or name in given:
                    continue
                lacking = tuple(h for h in hosts if name not in self.inventory.variables[h])
                if lacking:
                    message = f"{name} is missing: role {role} requires it"
                    where = self.inventory.sources[0]
                    yield Problem(message, file=where, hosts=lacking, option=name)

    def templates(self) -> list[str]:
        """Return the options whose values only a run can settle."""
        every = ((name, value) for name in self.options for value, _ in self.scene.distinct(name))
        return sorted({name for name, value in every if _holds_template(value)})

    def duplicates(self) -> Iterator[Problem]:
        """Point at keys that stand twice in a mapping."""
        for item in self.marks.duplicates:
            yield Problem(f"{item.name} stands twice here; the first is lost", item.file, item.line)

    # Names

    def unknown_names(self) -> Iterator[Problem]:
        """Check the names of role options and of Ansible's own variables."""
        gone = {row["name"] for row in self._removed()["variables"]}
        for name in (name for name in self.scene.names if name not in gone):
            if hint := self._misspelt(name):
                hosts = self.scene.holders(name)
                yield self.scene.problem(name, hosts, Finding((), "is no known name", hint))
            elif _is_number_gone_wrong(value := self._any_value(name)):
                words = f"became {value}"
                finding = Finding((), words, "quote it: a hash or MAC looks like a number")
                if name not in self.options:
                    hosts = self.scene.holders(name)
                    yield self.scene.problem(name, hosts, finding)

    def _misspelt(self, name: str) -> str:
        """Return a hint where a name is probably wrong."""
        if name in self.options or name == SETTINGS or name in VARIABLES or name.startswith("_"):
            return ""
        if name.startswith(f"{SETTINGS}_"):
            return did_you_mean(name, [*VARIABLES, SETTINGS])
        if name.startswith("ansible_"):
            meant = "" if name in ANSIBLE_NAMES else closest(name, ANSIBLE_NAMES, 0.85)
            return f"did you mean {meant}?" if meant else ""
        roles = [role for role in self.specs if name.startswith(f"{role}_")]
        if roles:
            role = max(roles, key=len)
            return did_you_mean(name, self.specs[role]) or f"see the options of role {role}"
        meant = closest(name, [*self.options, *VARIABLES, SETTINGS], 0.9)
        return f"did you mean {meant}?" if meant else ""

    # Helpers

    def _removed(self) -> Mapping[str, Any]:
        """Return the variables that earlier releases had."""
        nothing: dict[str, Any] = {"variables": []}
        return self.knowledge.load("removed_variables") if self.knowledge else nothing

    def _any_value(self, name: str) -> Any:
        values = (self.scene.value(host, name) for host in self.scene.hosts)
        return next((value for value in values if value is not None), None)

    def _roles(self) -> Iterator[tuple[str, frozenset[str], list[str]]]:
        """Yield each role of the plays with the options given there and its hosts."""
        for play in self.plays:
            members = set(self.inventory.matching(play.pattern)) if play.roles else set()
            hosts = [host for host in self.scene.hosts if host in members]
            for role, given in play.roles.items():
                yield role, given, hosts


def is_hidden(name: str, path: Path_, value: Any) -> bool:
    """Say whether a message must not show the part of a value that it is about."""
    for step in path:
        inside = isinstance(value, Mapping) and step in value
        inside = inside or (isinstance(value, list) and isinstance(step, int))
        value = value[step] if inside else None
    last = next((step for step in reversed((name, *path)) if isinstance(step, str)), name)
    return name in SECRET_OPTIONS or isinstance(value, Vaulted) or is_secret(last)


def unseen(finding: Finding) -> Finding:
    """Return a finding without the value that it is about."""
    message = finding.message
    if ", allowed: " in message:
        message = "has a value that is not allowed"
    return Finding(finding.path, message.split(", and is ")[0], "")


def merged(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems that say the same of the same place as one, with all their hosts."""
    found: dict[Problem, dict[str, None]] = {}
    for item in problems:
        hosts = found.setdefault(replace(item, hosts=()), {})
        hosts.update(dict.fromkeys(item.hosts))
    return [replace(item, hosts=tuple(hosts)) for item, hosts in found.items()]


def _holds_template(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_template(item) for item in value.values())
    if isinstance(value, list):
        return any(_holds_template(item) for item in value)
    return is_template(value)


def _is_number_gone_wrong(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
