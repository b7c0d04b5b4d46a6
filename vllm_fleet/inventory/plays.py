"""Read which plays a playbook has: their stages, the hosts they name and the roles they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from vllm_fleet.engine.judge import STAGE_NAME
from vllm_fleet.errors import ConfigError, Problem
from vllm_fleet.inventory import yamls


@dataclass(frozen=True)
class Play:
    """One play, as far as it can be known without running it."""

    stage: str
    pattern: str
    file: str
    tags: tuple[str, ...] = ()
    # Each role with the options that the play itself gives.
    roles: dict[str, frozenset[str]] = field(default_factory=dict)
    # Roles that its tasks include, often only a part of them.
    included: frozenset[str] = frozenset()

    def is_stage(self) -> bool:
        """Say whether the play does a stage's work (and does not only check settings)."""
        return bool(self.stage and (self.roles or self.included))

    def groups(self) -> list[str]:
        """Return the names in the pattern of the hosts."""
        words = re.split(r"[:,]", self.pattern)
        return [word.lstrip("!&") for word in words if word and "{{" not in word]


def read_plays(playbook: Path) -> list[Play]:
    """Return the plays of a playbook and of those that it imports, in order."""
    return list(_plays(playbook, set()))


def _plays(file: Path, seen: set[Path]) -> Iterator[Play]:
    for entry in _entries(file):
        imported = entry.get("import_playbook") or entry.get("ansible.builtin.import_playbook")
        if imported:
            yield from _plays(file.parent / str(imported), seen)
        else:
            yield _play(entry, file)


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        content = yamls.read(file) or []
    except (OSError, yaml.YAMLError) as error:
        problem = Problem(str(error).replace("\n", " "), file=str(file))
        raise ConfigError("a playbook cannot be read", [problem]) from error
    return [entry for entry in content if isinstance(entry, dict)]


def _play(entry: dict[str, Any], file: Path) -> Play:
    found = STAGE_NAME.match(str(entry.get("name", "")))
    hosts = entry.get("hosts", "")
    tags = entry.get("tags") or []
    return Play(
        stage=found.group(1) if found else "",
        pattern=":".join(map(str, hosts)) if isinstance(hosts, list) else str(hosts),
        file=str(file),
        tags=tuple([tags] if isinstance(tags, str) else map(str, tags)),
        roles=dict(_role(role, entry) for role in entry.get("roles") or []),
        included=frozenset(_included(entry.get("tasks") or [])),
    )


def _included(tasks: list[Any]) -> Iterator[str]:
    """Yield the roles that tasks include, also those in blocks."""
    for task in (task for task in tasks if isinstance(task, dict)):
        for name, value in task.items():
            if name.rpartition(".")[2] in {"include_role", "import_role"}:
                yield str((value or {}).get("name", "")).rpartition(".")[2]
            elif name in {"block", "rescue", "always"}:
                yield from _included(value or [])


def _role(role: Any, play: dict[str, Any]) -> tuple[str, frozenset[str]]:
    """Return a role's short name and the options that the play gives to it."""
    given = set(play.get("vars") or {})
    if isinstance(role, dict):
        given |= set(role.get("vars") or {}) | set(role)
        role = role.get("role") or role.get("name")
    return str(role).rpartition(".")[2], frozenset(given)
