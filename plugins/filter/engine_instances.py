# SPDX-License-Identifier: GPL-3.0-or-later
"""Check and resolve the instances of a host on the controller."""

from __future__ import annotations

from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import engine_plan

DOCUMENTATION = r"""
name: engine_instances
short_description: Check the engine instances of a host and resolve what the host gets
version_added: 0.1.0
description:
  - Returns C(problems), everything that is wrong with the settings. Where nothing is, also
    C(checks), what the host itself is to be asked about, and C(instances), each with its unit,
    command line, environment and binding.
options:
  _input:
    description: The instances, as C(vllm_service_instances) has them.
    type: list
    elements: dict
    required: true
  accelerator:
    description: What the host computes with.
    type: str
    choices: [ascend, nvidia, cpu]
    required: true
  executable:
    description: The engine's program and its first words.
    type: list
    elements: str
    required: true
  releases_dir:
    description: Directory that holds the releases.
    type: str
    required: true
  address:
    description: Address on which instances listen that name none.
    type: str
    required: true
  release:
    description: Release of instances that name none.
    type: str
    default: ''
  environment:
    description: Variables of all instances.
    type: dict
    default: {}
  secrets:
    description: For each instance, its secret variables. Checked only, never part of the result.
    type: dict
    default: {}
  hardening:
    description: Directives that fence the instances in. Checked only.
    type: dict
    default: {}
  host:
    description: The host, as M(vllm_fleet.baremetal.host_identity) returns it.
    type: dict
    default: {}
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Show what is wrong with the instances
  ansible.builtin.debug:
    msg: "{{ (vllm_service_instances | vllm_fleet.baremetal.engine_instances(
      accelerator='cpu', executable=['/usr/bin/engine'], releases_dir='/opt/vllm/releases',
      address='127.0.0.1')).problems }}"
"""

RETURN = r"""
_value:
  description: The problems, and the resolved instances where there are none.
  type: dict
  sample: {problems: [], checks: [], instances: []}
"""


def engine_instances(instances: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    """Return {problems, checks, instances} for the instances of a host."""
    shared = engine_plan.Settings(**settings)
    problems = engine_plan.problems(instances, shared)
    good = [] if problems else instances
    return {
        "problems": problems,
        "checks": [engine_plan.to_check(row, shared) for row in good],
        "instances": [engine_plan.resolve(row, shared) for row in good],
    }


class FilterModule:
    """The filter, for ansible-core."""

    def filters(self) -> dict[str, Any]:
        """Return the filters of this file."""
        return {"engine_instances": engine_instances}
