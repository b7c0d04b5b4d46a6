"""The lab's bridge: guests reach this machine and each other over it, and nothing else."""

from __future__ import annotations

from pathlib import Path

from vllm_fleet.lab.errors import LabError
from vllm_fleet.lab.process import run
from vllm_fleet.lab.settings import Lab


def raise_bridge(lab: Lab) -> None:
    """Make the bridge with this machine's address on it; fine when it is there."""
    if not _exists(lab.bridge):
        run(["ip", "link", "add", lab.bridge, "type", "bridge"])
    run(["ip", "address", "replace", f"{lab.gateway}/24", "dev", lab.bridge])
    run(["ip", "link", "set", lab.bridge, "up"])


def remove_bridge(lab: Lab) -> None:
    """Remove the bridge; fine when it is not there."""
    if _exists(lab.bridge):
        run(["ip", "link", "delete", lab.bridge])


def in_use(lab: Lab) -> bool:
    """Say whether a guest is still plugged in."""
    ports = Path("/sys/class/net", lab.bridge, "brif")
    return ports.is_dir() and any(ports.iterdir())


def remove_link(name: str) -> None:
    """Remove the outer end of a host's link where the kernel has not yet done so."""
    link = outer_link(name)
    if not _exists(link):
        return
    try:
        run(["ip", "link", "delete", link])
    except LabError:
        if _exists(link):
            raise


def outer_link(name: str) -> str:
    """Return how systemd-nspawn calls the outer end (host names are kept short enough)."""
    return f"vb-{name}"


def _exists(link: str) -> bool:
    return Path("/sys/class/net", link).exists()
