#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name, which runs on the controller."""

DOCUMENTATION = r"""
module: ascend_plan
short_description: Plan what has to be done to a host's Ascend software
version_added: 0.1.0
description:
  - Computes on the controller, from the catalog, the packages that are wanted and what the host
    has, the steps that are left, in order. Contacts no host.
  - Refuses chips that are not supported, packages for another chip or machine, files without a
    known checksum, and versions that are known not to work together.
  - Uses the fact of M(vllm_fleet.baremetal.host_identity), which must have run before.
options:
  product:
    description: What is planned, driver and firmware or CANN.
    type: str
    choices: [driver, cann]
    required: true
  state:
    description: Whether the product should be there.
    type: str
    choices: [present, absent]
    default: present
  packages:
    description: >-
      The packages, each with C(src) (a URL or a path on the controller) and C(sha256) where the
      catalog does not have it. C(firmware_version) goes with the archive of the HDK.
    type: list
    elements: dict
    default: []
  found:
    description: What M(vllm_fleet.baremetal.ascend_info) returned.
    type: dict
    required: true
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
- name: Plan the steps
  vllm_fleet.baremetal.ascend_plan:
    product: driver
    packages:
      - src: https://mirror.example/Ascend-hdk-910b-npu-driver_25.5.1_linux-aarch64.run
        sha256: "{{ ascend_driver_sha256 }}"
    found: "{{ __ascend_driver_found }}"
  register: __ascend_driver_plan
"""

RETURN = r"""
steps:
  description: >-
    What is left to do, in order, each with C(part), C(action), C(from), C(version) and C(package).
  returned: success
  type: list
  elements: dict
targets:
  description: The versions that are wanted in the end.
  returned: success
  type: dict
  sample: {driver: 25.5.1, firmware: 7.8.0.6.201}
set_env:
  description: The scripts that set the environment of CANN, in order.
  returned: success
  type: list
  elements: str
  sample: [/usr/local/Ascend/cann/set_env.sh]
kernel_headers:
  description: The package with the headers of the running kernel.
  returned: success
  type: str
  sample: kernel-devel-5.10.0-136.12.0.86.oe2203sp1.aarch64
"""
