# SPDX-License-Identifier: GPL-3.0-or-later
"""Write variables as the text of an EnvironmentFile."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import systemd_text

DOCUMENTATION = r"""
name: systemd_environment
short_description: Write variables as the text of an EnvironmentFile
version_added: 0.1.0
description:
  - Returns sorted lines, quoted so that every version of systemd reads back the same values.
options:
  _input:
    description: Variables and their values.
    type: dict
    required: true
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Show an environment file
  ansible.builtin.debug:
    msg: "{{ {'OMP_NUM_THREADS': 4} | vllm_fleet.baremetal.systemd_environment }}"
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
  sample: "OMP_NUM_THREADS=\"4\"\n"
"""


def systemd_environment(variables: dict[str, Any]) -> str:
    """Return the text; the value of a refused variable is not shown, since it may be a secret."""
    plain = {str(name): str(value) for name, value in variables.items()}
    found = [systemd_text.environment_problem(name, value) for name, value in plain.items()]
    problems = [problem for problem in found if problem]
    if problems:
        raise AnsibleFilterError("; ".join(problems))
    written: str = systemd_text.environment_file(plain)
    return written


class FilterModule:
    """The filter, for ansible-core."""

    def filters(self) -> dict[str, Any]:
        """Return the filters of this file."""
        return {"systemd_environment": systemd_environment}
