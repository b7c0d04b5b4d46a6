"""The lab's ssh keys: one client key, and a host key per host, so that known_hosts is exact."""

from __future__ import annotations

from pathlib import Path

from vllm_fleet.lab.process import run
from vllm_fleet.lab.settings import Lab
from vllm_fleet.lab.state import write_atomic


def ensure(lab: Lab, addresses: dict[str, str]) -> None:
    """Make the keys that are missing and write known_hosts for these hosts (name: address)."""
    lab.keys.mkdir(parents=True, exist_ok=True, mode=0o700)
    _ensure_key(lab.client_key, "vllm-fleet-lab")
    lines = []
    for name, address in sorted(addresses.items()):
        _ensure_key(lab.host_key(name), name)
        lines.append(f"{address},{name} {_public(lab.host_key(name))}\n")
    write_atomic(lab.known_hosts, "".join(lines))


def public_key(private: Path) -> str:
    """Return the public half of a key, as authorized_keys wants it."""
    return public_path(private).read_text(encoding="utf-8")


def public_path(private: Path) -> Path:
    return private.with_name(private.name + ".pub")


def _public(private: Path) -> str:
    return " ".join(public_key(private).split()[:2])


def _ensure_key(path: Path, comment: str) -> None:
    if path.exists() and public_path(path).exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])
