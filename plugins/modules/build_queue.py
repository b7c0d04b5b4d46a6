#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name, which runs on the controller."""

DOCUMENTATION = r"""
module: build_queue
short_description: Tell which builds a builder makes, and who builds for a host
version_added: 0.1.0
description:
  - Matches the fact C(vllm_build_plan) of the hosts of this run with the builders of this run. One
    build is made by one builder of its platform, whoever asks for it. Contacts no host.
  - Fails for a host whose build the controller lacks and no builder of this run can make.
options:
  group:
    description: Group of the builders.
    type: str
    default: builders
attributes:
  check_mode:
    support: full
    description: Only computes.
  diff_mode:
    support: none
    description: Changes nothing.
  idempotent:
    support: full
    description: Changes nothing.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Match builds and builders
  vllm_fleet.baremetal.build_queue:
  register: __vllm_build_queue_result
"""

RETURN = r"""
builds:
  description: The builds that this host makes.
  returned: success
  type: list
  elements: dict
  sample: []
builder:
  description: The host that builds for this host; empty where nothing has to be built.
  returned: success
  type: str
  sample: build-01
"""
