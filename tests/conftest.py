"""Shared fixtures: hosts of the lab, brought up once per session and taken down at its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class LabHost:
    """A running lab host and the inventory file that names it."""

    name: str
    persona: str
    inventory: Path


@pytest.fixture(scope="session")
def lab_host() -> Iterator[Callable[[str, str], LabHost]]:
    """Return a function that brings up a lab host by name and persona.

    Hosts stay up for the session (VLLM_FLEET_LAB_KEEP=1 keeps them longer, for development).
    """
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    from vllm_fleet.lab import api

    started: dict[str, LabHost] = {}

    def bring_up(name: str, persona: str) -> LabHost:
        if name not in started:
            inventory = api.up({name: persona}).inventory
            started[name] = LabHost(name, persona, Path(inventory))
        return started[name]

    yield bring_up
    if started and os.environ.get("VLLM_FLEET_LAB_KEEP") != "1":
        api.down(list(started))
