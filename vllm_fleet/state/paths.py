"""Where the controller keeps what it knows about each fleet."""

from __future__ import annotations

import os
from pathlib import Path

ROOT_STATE = Path("/var/lib/vllm-fleet-controller")


def state_root() -> Path:
    """Return the folder of all fleets (``VLLM_FLEET_STATE_HOME`` overrides it)."""
    override = os.environ.get("VLLM_FLEET_STATE_HOME")
    if override:
        return Path(override)
    if os.geteuid() == 0:
        return ROOT_STATE
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(home) / "vllm-fleet"


def fleet_dir(fleet: str) -> Path:
    """Return the folder of one fleet, made if need be; only its owner can look inside."""
    folder = state_root() / fleet
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def database(folder: Path) -> Path:
    """Return the fleet's database."""
    return folder / "fleet.sqlite"


def run_dir(folder: Path, run_id: str) -> Path:
    """Return the folder of one run's logs, made if need be."""
    path = folder / "runs" / run_id
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def known_fleets() -> list[str]:
    """Return the fleets that have a database here."""
    root = state_root()
    return sorted(path.parent.name for path in root.glob("*/fleet.sqlite"))
