"""Reach into a running lab host from this machine, whatever state its ssh is in."""

from __future__ import annotations

from pathlib import Path

from vllm_fleet.lab import cgroups, hosts
from vllm_fleet.lab.errors import LabError
from vllm_fleet.lab.process import run
from vllm_fleet.lab.settings import Lab

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMESPACES = 3


class Guest:
    """A running host, entered through its first process."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.name = name
        self.folder = lab.host_dir(name)
        self.init = _init(hosts.cgroup(lab, name))
        if not self.init:
            raise LabError(f"{name} does not run", hint=f"raise it first: lab up {name}")

    def run(self, *argv: str, limit: float = 60) -> str:
        """Run a command in the host and return its output; its failure is a LabError."""
        enter = ["nsenter", "--target", str(self.init), "--all", "--", "env", "-i", PATH]
        return run([*enter, *argv], limit=limit)

    def path(self, path: str) -> Path:
        """Return where a file of the host can be reached from here."""
        return Path(f"/proc/{self.init}/root") / path.lstrip("/")


def _init(cgroup: str) -> int:
    """Return the process that is number 1 in the host, as this machine numbers it; 0: none."""
    return next((pid for pid in cgroups.processes(cgroup) if _is_init(pid)), 0)


def _is_init(pid: int) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    # As this machine, the supervisor's namespace and the guest's number it.
    return len(numbers) == NAMESPACES and numbers[-1] == "1"
