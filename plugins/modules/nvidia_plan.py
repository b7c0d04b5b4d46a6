#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name, which runs on the controller."""

DOCUMENTATION = r"""
module: nvidia_plan
short_description: Resolve which NVIDIA driver or CUDA toolkits a host gets
version_added: 0.1.0
description:
  - Computes on the controller, from the catalog, the host and the options of the roles
    C(nvidia_driver) and C(cuda), what is installed and what brings it. Contacts no host.
  - Refuses kernel modules that the GPUs do not run, branches without the wanted modules, a toolkit
    that the driver is too old for, and a source that the host cannot have.
options:
  host:
    description: The fact that M(vllm_fleet.baremetal.host_identity) returns.
    type: dict
    required: true
  seen:
    description: What M(vllm_fleet.baremetal.nvidia_state) returned.
    type: dict
    required: true
  source:
    description: What brings it.
    type: str
    choices: [auto, repository, runfile]
    default: auto
  answered:
    description: HTTP status that the host got from the repository's index; unset before it asked.
    type: int
  repository_url:
    description: Root of a mirror of the vendor's repositories.
    type: str
  version:
    description: Version of the driver, a text. Not with O(toolkits).
    type: raw
  modules:
    description: Flavour of the kernel modules; V(auto) goes by GPU and branch.
    type: str
    choices: [auto, open, proprietary]
    default: auto
  build:
    description: How the modules are built.
    type: str
    choices: [dkms, once, precompiled]
    default: dkms
  runfile:
    description: The driver's runfile, with C(src) and C(sha256).
    type: dict
    default: {}
  fabric_manager:
    description: Whether Fabric Manager is wanted; V(auto) where there is an NVSwitch.
    type: str
    choices: [auto, 'on', 'off']
    default: auto
  fabric_manager_package:
    description: URL or path of the package with Fabric Manager.
    type: str
  ended_branch:
    description: What happens to a branch past its end.
    type: str
    choices: [warn, refuse]
    default: warn
  hold:
    description: Whether the packages are held; without it, automatic upgrades are warned of.
    type: bool
    default: true
  toolkits:
    description: CUDA toolkits, each with C(version) and perhaps C(src) and C(sha256).
    type: list
    elements: dict
  default:
    description: Version of the toolkit that C(/usr/local/cuda) leads to.
    type: str
  root:
    description: Folder that the toolkits' folders are in.
    type: path
    default: /usr/local
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
- name: Resolve the driver
  vllm_fleet.baremetal.nvidia_plan:
    host: "{{ ansible_facts['vllm_fleet_host'] }}"
    seen: "{{ nvidia }}"
    version: 580.95.05
    answered: 200
  register: plan
"""

RETURN = r"""
driver:
  description:
    - The driver, with C(version), C(branch), C(modules), C(source) (C(probe) before the host
      asked), C(repository), C(stream), C(packages), C(headers), C(build_packages), C(runfile) and
      C(fabric_manager).
  returned: without toolkits
  type: dict
  sample: {version: 580.95.05, modules: open, source: repository}
cuda:
  description: The toolkits, with C(source), C(repository), C(toolkits), C(packages) and C(default).
  returned: with toolkits
  type: dict
  sample: {source: repository, packages: [cuda-toolkit-12-9]}
"""
