"""Everything that is known about a fleet before a host is touched."""

from __future__ import annotations

import os
import re
from collections.abc import Collection as Names
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vllm_fleet import collection
from vllm_fleet.collection import Collection
from vllm_fleet.engine.request import Credentials
from vllm_fleet.engine.scrub import is_secret_name, secret_values
from vllm_fleet.errors import ConfigError, Problem
from vllm_fleet.inventory import load
from vllm_fleet.inventory.check import Checker, Report
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.marks import Marks
from vllm_fleet.inventory.model import Inventory, Vaulted
from vllm_fleet.inventory.plays import Play, read_plays
from vllm_fleet.inventory.scene import Scene
from vllm_fleet.inventory.specs import load_specs
from vllm_fleet.state.paths import database, state_root
from vllm_fleet.state.store import last_seen


@dataclass(frozen=True)
class Wanted:
    """What the command line says about the fleet."""

    sources: tuple[str, ...]
    limit: str = ""
    extra_vars_files: tuple[str, ...] = ()
    credentials: Credentials = field(default_factory=Credentials)


@dataclass(frozen=True)
class Preflight:
    """The fleet as its files describe it."""

    collection: Collection
    playbook: Path
    plays: list[Play]
    inventory: Inventory
    report: Report
    scene: Scene

    @property
    def fleet(self) -> str:
        """Return the fleet's name."""
        return self.report.settings.name if self.report.settings else ""

    def stages(self) -> list[str]:
        """Return the stages of the playbook, in order."""
        return list(dict.fromkeys(play.stage for play in self.plays if play.is_stage()))

    def expected(self, roles: Names[str] = ()) -> dict[str, frozenset[str]]:
        """Return the stages that each selected host should go through."""
        wanted: dict[str, set[str]] = {host: set() for host in self.inventory.selected}
        for play in self.plays:
            if play.is_stage() and (not roles or play.stage in roles):
                for host in self.inventory.matching(play.pattern):
                    wanted.get(host, set()).add(play.stage)
        return {host: frozenset(stages) for host, stages in wanted.items()}


def find_collection() -> Collection:
    """Return the collection that Ansible would use, of the command's own version."""
    found = collection.find(load.collection_search_paths())
    collection.require_same_version(found)
    return found


def inspect(wanted: Wanted, playbook: str = "site.yml") -> Preflight:
    """Read and check everything; problems are in the report."""
    found = find_collection()
    require_files(wanted)
    path = found.playbook(playbook)
    plays = read_plays(path)
    inventory = load.load(
        wanted.sources, wanted.limit, wanted.extra_vars_files, wanted.credentials, path.parent
    )
    ignored = load.ignored_suffixes()
    marks = Marks(inventory.sources, wanted.extra_vars_files, str(path.parent), ignored)
    specs = load_specs(found.root / "roles")
    seen = last_seen(database(state_root() / fleet_of(inventory)))
    checker = Checker(inventory, specs, plays, marks, Knowledge(found.root), seen)
    return Preflight(found, path, plays, inventory, checker.report(), checker.scene)


def fleet_of(inventory: Inventory) -> str:
    """Return the fleet's name, before anything is checked; nothing where it cannot be one."""
    settings = inventory.variables[inventory.selected[0]].get("vllm_fleet")
    name = settings.get("name") if isinstance(settings, Mapping) else ""
    return name if isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9-]*", name) else "-"


def require_files(wanted: Wanted) -> None:
    """Refuse to start when a file that was named is not there."""
    credentials = wanted.credentials
    named = [*wanted.extra_vars_files, *credentials.vault_password_files]
    named += [vault_id.rpartition("@")[2] for vault_id in credentials.vault_ids]
    named += [credentials.become_password_file] if credentials.become_password_file else []
    missing = [name for name in named if name != "prompt" and not Path(name).is_file()]
    if missing:
        raise ConfigError(
            "a file that was named is not there",
            [Problem("there is no such file", file=name) for name in missing],
        )


def secrets(wanted: Wanted, inventory: Inventory) -> set[str]:
    """Return every secret that we know of, so that none of them is kept anywhere."""
    found = {value for name, value in os.environ.items() if is_secret_name(name)}
    for variables in inventory.variables.values():
        found |= secret_values(variables) | vaulted(variables.values())
    credentials = wanted.credentials
    for name in (*credentials.vault_password_files, credentials.become_password_file):
        if name and not os.access(name, os.X_OK):
            found.add(Path(name).read_text(encoding="utf-8", errors="replace"))
    return found


def vaulted(values: Iterable[object]) -> set[str]:
    """Return the values that were encrypted in the inventory."""
    found: set[str] = set()
    for value in values:
        if isinstance(value, Vaulted):
            found.add(str(value))
        elif isinstance(value, Mapping):
            found |= vaulted(value.values())
        elif isinstance(value, list):
            found |= vaulted(value)
    return found
