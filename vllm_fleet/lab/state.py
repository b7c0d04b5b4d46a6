"""The lab's memory: one JSON file, written whole, and a lock around every change."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vllm_fleet.lab.errors import LabError
from vllm_fleet.lab.settings import FIRST_EXTRA, LAST_EXTRA, Lab

SCHEMA = 1


@dataclass(frozen=True)
class Host:
    """One lab host as it was asked for."""

    name: str
    persona: str
    number: int
    hardware: str = ""
    python: str = ""
    binds: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


def load(lab: Lab) -> dict[str, Host]:
    """Return the hosts that the lab remembers."""
    try:
        document = json.loads(lab.state_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if document.get("schema") != SCHEMA:
        raise LabError(
            f"{lab.state_file}: unknown schema {document.get('schema')!r}",
            hint="take the lab down with the version that raised it",
        )
    return {name: _host(entry) for name, entry in document["hosts"].items()}


def _host(entry: dict[str, Any]) -> Host:
    sequences = {key: tuple(entry[key]) for key in ("binds", "groups")}
    return Host(**{**entry, **sequences})


def save(lab: Lab, hosts: dict[str, Host]) -> None:
    """Write the hosts down."""
    document = {"schema": SCHEMA, "hosts": {name: asdict(host) for name, host in hosts.items()}}
    write_atomic(lab.state_file, json.dumps(document, indent=2, sort_keys=True) + "\n")


def write_atomic(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that a reader sees the old or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(text, encoding="utf-8")
    scratch.chmod(mode)
    scratch.replace(path)


def free_number(hosts: dict[str, Host]) -> int:
    """Return the last part of an address that no host has."""
    taken = {host.number for host in hosts.values()}
    for number in range(FIRST_EXTRA, LAST_EXTRA + 1):
        if number not in taken:
            return number
    raise LabError(f"all addresses from {FIRST_EXTRA} to {LAST_EXTRA} are taken")


@contextmanager
def locked(lab: Lab, name: str = "") -> Iterator[None]:
    """Let one process at a time change the lab; the kernel frees the lock of a killed one.

    Labs that share a cache build in it one after the other: they take the lock `build`.
    """
    lab.cache.mkdir(parents=True, exist_ok=True)
    with (lab.cache / f".{name or lab.bridge}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
