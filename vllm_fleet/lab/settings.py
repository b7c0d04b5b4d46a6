"""Where the lab lives and which names and addresses it uses."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MIRROR_PORT = 8213
# Addresses of extra hosts are taken from here up; the demo fleet's stand below.
FIRST_EXTRA = 32
LAST_EXTRA = 250


@dataclass(frozen=True)
class Lab:
    """One lab: its folders, its bridge and its network (always a /24, given by its prefix)."""

    home: Path
    cache: Path
    bridge: str
    prefix: str

    @property
    def gateway(self) -> str:
        """The address of this machine on the bridge."""
        return f"{self.prefix}.1"

    @property
    def mirror_url(self) -> str:
        """Where guests find packages: the only thing that they can reach."""
        return f"http://{self.gateway}:{MIRROR_PORT}"

    @property
    def mirror_root(self) -> Path:
        return self.cache / "mirror"

    @property
    def keys(self) -> Path:
        return self.home / "keys"

    @property
    def client_key(self) -> Path:
        return self.keys / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.keys / "known_hosts"

    def host_key(self, name: str) -> Path:
        """Return the private host key of a host (made by ``keys.ensure``)."""
        return self.keys / "hosts" / name

    @property
    def state_file(self) -> Path:
        return self.home / "state.json"

    @property
    def inventory_file(self) -> Path:
        return self.home / "inventory.yml"

    def host_dir(self, name: str) -> Path:
        return self.home / "hosts" / name

    def address(self, number: int) -> str:
        return f"{self.prefix}.{number}"


def current() -> Lab:
    """Return the lab that the environment names (one per machine, unless told otherwise)."""
    return Lab(
        home=_folder("VLLM_FLEET_LAB_HOME", "/var/lib/vllm-fleet-lab"),
        cache=_folder("VLLM_FLEET_LAB_CACHE", "/var/cache/vllm-fleet-lab"),
        bridge=os.environ.get("VLLM_FLEET_LAB_BRIDGE", "vfleet0"),
        prefix=os.environ.get("VLLM_FLEET_LAB_PREFIX", "10.213.0"),
    )


def _folder(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable, default)).absolute()
