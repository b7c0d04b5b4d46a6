"""Which hosts a call means: the demo fleet's, extra ones with a persona, or all that are there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from vllm_fleet.lab import labdata
from vllm_fleet.lab.errors import LabRefusal
from vllm_fleet.lab.state import Host, free_number

MACHINE = "vm-01"
# The network link is called vb-NAME, and the kernel allows 15 characters.
NAME = re.compile(r"[a-z][a-z0-9-]{0,10}[a-z0-9]")
NAME_HINT = "2 to 12 of a-z, 0-9 and -; the first a letter, the last no -"


def demo() -> dict[str, Host]:
    """Return the demo fleet's hosts (those that are no emulated machine)."""
    return _rows("hosts")


def machine() -> dict[str, Host]:
    """Return the emulated machine: part of the fleet, but raised on request only."""
    return _rows("machine")


def _rows(section: str) -> dict[str, Host]:
    rows = labdata.read("fleet")[section]
    hosts = [
        Host(name=name, **{**row, "groups": tuple(row["groups"])}) for name, row in rows.items()
    ]
    return {host.name: host for host in hosts}


def wanted(asked: dict[str, str] | None, present: dict[str, Host]) -> dict[str, Host]:
    """Return the hosts that `up` is asked for; `asked` maps names to personas ("" if known)."""
    if asked is None:
        return {name: present.get(name, host) for name, host in demo().items()}
    hosts: dict[str, Host] = {}
    for name, persona in asked.items():
        hosts[name] = _one(name, persona, {**present, **hosts})
    return hosts


def _one(name: str, persona: str, present: dict[str, Host]) -> Host:
    known = present.get(name) or {**demo(), **machine()}.get(name)
    if known is None:
        return _extra(name, persona, present)
    if persona and persona != known.persona:
        raise LabRefusal(
            f"{name} is {known.persona}, not {persona}",
            hint=f"take it down first (lab down {name}), or choose another name",
        )
    return known


def _extra(name: str, persona: str, present: dict[str, Host]) -> Host:
    if not NAME.fullmatch(name):
        raise LabRefusal(f"{name!r} is no name for a lab host", hint=NAME_HINT)
    if not persona:
        known = ", ".join([*demo(), MACHINE])
        raise LabRefusal(
            f"the lab knows no host {name}", hint=f"it knows {known}; or --host {name}=PERSONA"
        )
    labdata.persona(persona)
    return Host(name=name, persona=persona, number=free_number(present))


def named(names: Iterable[str], present: Collection[str]) -> list[str]:
    """Return the names of hosts that are there; another name is refused."""
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in present:
            there = ", ".join(sorted(present)) or "none"
            raise LabRefusal(f"no lab host {name} is up", hint=f"hosts that are up: {there}")
    return chosen
