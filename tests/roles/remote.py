"""Ask a lab host directly, beside Ansible, what is really there."""

from __future__ import annotations

import functools
import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Remote:
    """One host of an inventory, reached over ssh as Ansible reaches it."""

    name: str
    inventory: Path

    def told(self, command: str) -> str:
        """Run a shell command that must succeed; return what it prints."""
        done = subprocess.run(
            [*self._ssh(), command], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def write(self, path: str, text: str, mode: str = "0644") -> None:
        """Write a file, with the folders above it."""
        place = shlex.quote(path)
        self.told(
            f"mkdir -p $(dirname {place}) && printf '%s' {shlex.quote(text)} > {place}"
            f" && chmod {mode} {place}"
        )

    def _ssh(self) -> list[str]:
        found = variables(self.inventory, self.name)
        options = shlex.split(found.get("ansible_ssh_common_args", ""))
        key = ["-i", found["ansible_ssh_private_key_file"]]
        return ["ssh", *options, *key, f"root@{found['ansible_host']}"]


@functools.cache
def variables(inventory: Path, host: str) -> dict[str, Any]:
    """Return the variables of a host in an inventory."""
    tool = Path(sys.executable).with_name("ansible-inventory")
    command = [tool, "-i", inventory, "--host", host]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
