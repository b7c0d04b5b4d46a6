#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name, which runs on the controller."""

DOCUMENTATION = r"""
module: build_plan
short_description: Resolve which build of the engine a host needs
version_added: 0.1.0
description:
  - Computes on the controller the key of the build that a host needs, from the host's platform, the
    catalog and the options, and says whether the controller has that build. Contacts no host.
options:
  host:
    description: The fact that M(vllm_fleet.baremetal.host_identity) returns.
    type: dict
    required: true
  python:
    description: The interpreter, as M(vllm_fleet.baremetal.python_plan) returns it.
    type: dict
    required: true
  method:
    description: How the wheel is made; the default of the host's accelerator without it.
    type: str
    choices: [source, index]
  target:
    description: Device that it is for; the default of the host's accelerator without it.
    type: str
    choices: [empty, cpu, cuda]
  distribution:
    description: Distribution; the default of the host's accelerator without it.
    type: str
  version:
    description: Version, a text; without it that of the release set, else the default of the host's
      accelerator.
    type: raw
  release_set:
    description: Release set of the catalog; one for hosts with another accelerator is left aside.
    type: str
  source:
    description: URL, or path on the controller, of the source archive. With a slash at its end, the
      catalog's file name is added.
    type: str
  source_sha256:
    description: SHA-256 of the source archive; the catalog's without it.
    type: str
  lock:
    description: URL, or path on the controller, of a finished lock.
    type: str
  lock_sha256:
    description: SHA-256 of the lock; needed for a URL.
    type: str
  requirements:
    description: More requirements.
    type: list
    elements: str
    default: []
  exclude:
    description: Names that are left out; those of the host's accelerator without it.
    type: list
    elements: str
  build_requirements:
    description: Requirements of the environment that builds; the catalog's without it.
    type: list
    elements: str
  build_environment:
    description: More environment variables for the build.
    type: dict
    default: {}
  artifacts_dir:
    description: Directory on the controller that keeps what was built.
    type: str
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
- name: Resolve the build
  vllm_fleet.baremetal.build_plan:
    host: "{{ ansible_facts['vllm_fleet_host'] }}"
    python: "{{ python_runtime_selected }}"
  register: __vllm_build_plan_result
"""

RETURN = r"""
platform:
  description: What a builder must have in common with the host.
  returned: success
  type: dict
  sample: {os: el-8, arch: x86_64, glibc: "2.28", python: "3.11"}
build:
  description: The build; empty for a host in none of the groups ascend, nvidia and cpu.
  returned: success
  type: dict
  contains:
    key:
      description: Its name.
      type: str
    inputs:
      description: Everything that it depends on.
      type: dict
    platform:
      description: The platform that it is for.
      type: dict
    source:
      description: The source archive.
      type: dict
    lock:
      description: The finished lock.
      type: dict
    work_dir:
      description: Directory on the builder.
      type: str
    artifact:
      description: What the controller has (dir, present, wheel, lock, release_id).
      type: dict
  sample: {key: vllm-empty-py3.11-el-8-x86_64}
"""
