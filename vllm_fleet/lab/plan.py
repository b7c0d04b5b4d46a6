"""All that the process which keeps a host running has to know, as one JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Plan:
    """One host, worked out: what it is made from and what is written into it."""

    name: str
    address: str
    bridge: str
    cgroup: str
    layers: list[str]
    host_key: str
    authorized_key: str
    files: dict[str, str] = field(default_factory=dict)
    binds: list[str] = field(default_factory=list)
    hardware_tree: str = ""
    python: str = ""

    def write(self, folder: Path) -> None:
        """Keep the plan in the host's folder (it holds a key: for root only)."""
        path = folder / "plan.json"
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")


def read(folder: Path) -> Plan:
    """Return the plan that is in a host's folder."""
    return Plan(**json.loads((folder / "plan.json").read_text(encoding="utf-8")))
