"""What makes the shared root into one host: its name, address, keys and hardware."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

from vllm_fleet.lab import rootfs
from vllm_fleet.lab.plan import Plan

OWN = "/usr/lib/vllm-fleet-lab"


def sow(root: Path, plan: Plan) -> None:
    """Write the host's own files into its fresh root."""
    for path, text in _texts(plan).items():
        rootfs.write(root, path, text)
    rootfs.write(root, "/etc/ssh/ssh_host_ed25519_key", plan.host_key, 0o600)
    rootfs.write(root, "/root/.ssh/authorized_keys", plan.authorized_key, 0o600)
    rootfs.below(root, "/root/.ssh").chmod(0o700)
    if plan.hardware_tree:
        shutil.copytree(plan.hardware_tree, rootfs.below(root, f"{OWN}/sys"), symlinks=True)
    if plan.python:
        rootfs.link(root, "/usr/bin/python3", f"{plan.python}/bin/python3")


def _texts(plan: Plan) -> dict[str, str]:
    return {
        "/etc/hostname": f"{plan.name}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n::1 localhost\n{plan.address} {plan.name}\n",
        "/etc/machine-id": f"{machine_id(plan.name)}\n",
        f"{OWN}/network": f"ADDRESS={plan.address}\n",
        **plan.files,
    }


def machine_id(name: str) -> str:
    """Return the same id whenever a host of this name is raised."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.vllm-fleet.lab").hex
