#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name, which runs on the controller."""

DOCUMENTATION = r"""
module: python_plan
short_description: Resolve which Python interpreter a host gets
version_added: 0.1.0
description:
  - Computes on the controller, from the catalog and the options of the role C(python_runtime),
    which interpreter the host gets and what brings it. Contacts no host.
  - Refuses the system's interpreter, versions that the engine does not support, and an archive on
    the controller with another checksum.
options:
  host:
    description: The fact that M(vllm_fleet.baremetal.host_identity) returns.
    type: dict
    required: true
  source:
    description: What brings the interpreter.
    type: str
    choices: [distribution, archive]
    required: true
  version:
    description: Version as MAJOR.MINOR, a text. The catalog's default without it.
    type: raw
  archive:
    description: URL, or path on the controller, of the archive.
    type: str
  archive_sha256:
    description: SHA-256 of the archive.
    type: str
  root:
    description: Directory of the interpreters that come from archives.
    type: path
    default: /opt/vllm/python
  engine_version:
    description: Version of the engine; the default of the host's accelerator without it.
    type: raw
  engine_distribution:
    description: Distribution of the engine; the default of the host's accelerator without it.
    type: str
  release_set:
    description: Release set of the catalog, which says the engine's version where none is given.
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
- name: Resolve the interpreter
  vllm_fleet.baremetal.python_plan:
    host: "{{ ansible_facts['vllm_fleet_host'] }}"
    source: distribution
    version: "3.11"
  register: __python_runtime_plan_result
"""

RETURN = r"""
python:
  description: The interpreter.
  returned: success
  type: dict
  contains:
    source:
      description: What brings it.
      type: str
    version:
      description: Version as MAJOR.MINOR.
      type: str
    executable:
      description: Path on the host.
      type: str
    packages:
      description: Packages that bring it.
      type: list
      elements: str
    archive:
      description: The archive (src, local, sha256, dest) that brings it, or nothing.
      type: dict
  sample: {source: distribution, version: "3.11", executable: /usr/bin/python3.11}
"""
