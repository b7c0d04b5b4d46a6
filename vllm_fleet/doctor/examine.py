"""Run the examination over the fleet, and judge what only shows when hosts are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vllm_fleet.doctor.collect import EXAMINED, UNREACHABLE, Collector, Examined
from vllm_fleet.engine import runner
from vllm_fleet.engine.request import RunRequest
from vllm_fleet.engine.scrub import Scrubber
from vllm_fleet.errors import ConfigError, Interrupted, Problem
from vllm_fleet.inventory import load
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.model import Inventory
from vllm_fleet.inventory.preflight import Wanted, find_collection, require_files, secrets

PLAYBOOK = "doctor.yml"
# So many hosts at once unless told otherwise: a host mostly waits, a dead one only does.
MOST_FORKS = 32


def examine(wanted: Wanted, forks: int, user: str) -> Collector:
    """Examine every selected host; a broken option of a role is no reason not to."""
    found = find_collection()
    require_files(wanted)
    playbook = found.playbook(PLAYBOOK)
    inventory = load.load(
        wanted.sources, wanted.limit, wanted.extra_vars_files, wanted.credentials, playbook.parent
    )
    collector = Collector(inventory.selected, Scrubber(secrets(wanted, inventory)))
    _run(_request(wanted, inventory, playbook, forks, user), collector)
    judge(collector, Knowledge(found.root))
    return collector


def _request(
    wanted: Wanted, inventory: Inventory, playbook: Path, forks: int, user: str
) -> RunRequest:
    return RunRequest(
        playbook=playbook,
        inventories=inventory.sources,
        limit=wanted.limit,
        forks=forks or max(1, min(len(inventory.selected), MOST_FORKS)),
        user=user,
        extra_vars_files=wanted.extra_vars_files,
        credentials=wanted.credentials,
    )


def _run(request: RunRequest, collector: Collector) -> None:
    outcome = runner.run(request, [collector.feed])
    if outcome.cancelled_by:
        raise Interrupted(f"stopped by {outcome.cancelled_by}")
    if not collector.started:
        problems = [Problem(text) for text in collector.complaints[-3:]]
        raise ConfigError("the examination did not start", problems)


def judge(collector: Collector, knowledge: Any) -> None:
    """Add the findings of hosts that could not be read, and of hosts held against each other."""
    doctor, contact = knowledge.module("doctor"), knowledge.module("doctor_contact")
    for host in collector.hosts.values():
        if host.status == UNREACHABLE:
            host.findings = doctor.told([contact.unreachable(host.message)])
        elif host.status != EXAMINED and not _explained(host):
            host.findings += doctor.told([contact.broken_off(host.message, host.timed_out)])
    read = {name: host.facts for name, host in collector.hosts.items() if host.facts}
    for name, seen in doctor.compare(read):
        collector.hosts[name].findings += doctor.told([seen])


def _explained(host: Examined) -> bool:
    """Say whether the examination itself has told why it broke off."""
    codes = {finding["code"] for finding in host.findings}
    return bool(codes & {"examination-failed", "become-failed", "host-hangs"})
