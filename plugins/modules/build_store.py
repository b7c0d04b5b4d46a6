#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: build_store
short_description: Keep a finished build on the controller
version_added: 0.1.0
description:
  - Fetches wheel, lock and log from the builder by the connection's own file transfer, compares the
    checksums, writes C(manifest.json), and puts the directory in place by one rename.
options:
  build:
    description: The build, as M(vllm_fleet.baremetal.build_plan) returns it.
    type: dict
    required: true
  wheel:
    description: What M(vllm_fleet.baremetal.engine_wheel) returned.
    type: dict
    required: true
  lock:
    description: What M(vllm_fleet.baremetal.engine_lock) returned.
    type: dict
    required: true
  log:
    description: The log on the builder.
    type: path
    required: true
  seconds:
    description: Time that the build took.
    type: float
    default: 0.0
attributes:
  check_mode:
    support: full
    description: Says whether it would fetch.
  diff_mode:
    support: none
    description: The files are large.
  idempotent:
    support: full
    description: A build that the controller has is not fetched again.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Keep the build on the controller
  vllm_fleet.baremetal.build_store:
    build: "{{ __vllm_build_item }}"
    wheel: "{{ __vllm_build_wheel_result.wheel }}"
    lock: "{{ __vllm_build_lock_result.lock }}"
    log: "{{ __vllm_build_wheel_result.log }}"
"""

RETURN = r"""
dir:
  description: The directory on the controller.
  returned: always
  type: str
  sample: /home/deploy/.cache/vllm-fleet/artifacts/vllm-empty-py3.11-el-8-x86_64
"""
