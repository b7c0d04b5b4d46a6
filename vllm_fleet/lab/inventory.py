"""The lab's inventory: every host that is up, as Ansible wants to know it."""

from __future__ import annotations

from typing import Any

import yaml

from vllm_fleet.lab.settings import Lab
from vllm_fleet.lab.state import Host, write_atomic

SERVING = ("ascend", "nvidia", "cpu")
HEADER = "---\n# Written by the lab: its hosts that are up.\n"


def write(lab: Lab, hosts: dict[str, Host]) -> None:
    """Write the inventory file."""
    write_atomic(lab.inventory_file, text(lab, hosts))


def text(lab: Lab, hosts: dict[str, Host]) -> str:
    """Return the inventory as YAML."""
    return HEADER + yaml.safe_dump({"all": tree(lab, hosts)}, sort_keys=False)


def tree(lab: Lab, hosts: dict[str, Host]) -> dict[str, Any]:
    """Return the group `all` with everything below it."""
    members = {group: _members(hosts, group) for group in (*SERVING, "builders")}
    return {
        "vars": _common(lab),
        "hosts": {name: {"ansible_host": lab.address(hosts[name].number)} for name in hosts},
        "children": {
            "serving": {"children": {group: {"hosts": members[group]} for group in SERVING}},
            "builders": {"hosts": members["builders"]},
        },
    }


def _members(hosts: dict[str, Host], group: str) -> dict[str, dict[str, str]]:
    return {name: {} for name, host in hosts.items() if group in host.groups}


def _common(lab: Lab) -> dict[str, str]:
    return {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(lab.client_key),
        "ansible_ssh_common_args": (
            f"-o UserKnownHostsFile={lab.known_hosts} -o StrictHostKeyChecking=yes"
            " -o IdentitiesOnly=yes"
        ),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
