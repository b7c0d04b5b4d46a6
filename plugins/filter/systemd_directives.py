# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep those directives of a unit that the host's systemd knows."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import systemd_text

DOCUMENTATION = r"""
name: systemd_directives
short_description: Keep those directives that the host's systemd knows
version_added: 0.1.0
description:
  - Returns C(Name=value) lines for the directives that this version of systemd acts on.
  - A directive that no known version has is an error, since systemd would ignore it in silence.
options:
  _input:
    description: Directives and their values; a null value leaves one out.
    type: dict
    required: true
  version:
    description: Version of systemd on the host.
    type: int
    required: true
  cgroup:
    description: Hierarchy of the control groups on the host.
    type: str
    choices: [v1, v2, hybrid]
    default: v2
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Show what systemd 243 makes of it
  ansible.builtin.debug:
    msg: "{{ {'ProtectProc': 'invisible', 'PrivateTmp': true}
      | vllm_fleet.baremetal.systemd_directives(243) }}"
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
  sample: [PrivateTmp=yes]
"""


def systemd_directives(wanted: dict[str, Any], version: int, cgroup: str = "v2") -> list[str]:
    """Return the lines that this systemd knows; an unknown directive is an error."""
    problems = systemd_text.directive_problems(wanted)
    if problems:
        raise AnsibleFilterError("; ".join(problems))
    lines: list[str] = systemd_text.directive_lines(wanted, int(version), cgroup)
    return lines


class FilterModule:
    """The filter, for ansible-core."""

    def filters(self) -> dict[str, Any]:
        """Return the filters of this file."""
        return {"systemd_directives": systemd_directives}
