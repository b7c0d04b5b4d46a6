#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read which Ascend chips and software a host has."""

DOCUMENTATION = r"""
module: ascend_info
short_description: Read which Ascend chips, driver, firmware and CANN a host has
version_added: 0.1.0
description:
  - Reads the PCI devices and the vendor's own records (C(/etc/ascend_install.info) and the files
    C(version.info)). What the devices run is asked of C(npu-smi), started by its path and under a
    time limit; only its answers of keys and values are read, never a banner.
options:
  ask_devices:
    description: Ask C(npu-smi) what the devices run.
    type: bool
    default: true
attributes:
  check_mode:
    support: full
    description: Reads only.
  diff_mode:
    support: none
    description: Changes nothing.
  idempotent:
    support: full
    description: Reads only.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Read what the host has
  vllm_fleet.baremetal.ascend_info:
  register: __ascend_driver_found
"""

RETURN = r"""
chips:
  description: The NPUs by PCI vendor and class, each with C(address), C(pci) and C(subsystem).
  returned: always
  type: list
  elements: dict
  sample: [{address: "0000:c1:00.0", pci: "19e5:d802", subsystem: "19e5:3003"}]
driver:
  description: >-
    The driver by the vendor's records: C(state) (V(absent), V(installed) or V(half)), C(version),
    C(fits) (the ranges of firmware that its record names) and C(path).
  returned: always
  type: dict
firmware:
  description: The firmware package that was installed last, in the same form.
  returned: always
  type: dict
cann:
  description: >-
    For each generation of CANN (V(1) up to 8.3, V(2) since 8.5) its parts with C(state),
    C(version) and C(path).
  returned: always
  type: dict
nnal:
  description: NNAL with C(state), C(version) and C(path).
  returned: always
  type: dict
user:
  description: User that the driver was installed for; empty where none is on record.
  returned: always
  type: str
wrong_kinds:
  description: Paths that are a directory and must be a file.
  returned: always
  type: list
  elements: str
module_loaded:
  description: Whether the driver's kernel module is loaded.
  returned: always
  type: bool
running:
  description: >-
    What C(npu-smi) answers: C(tool) (V(absent), V(broken) or V(good)), C(problem) and C(devices)
    with C(id), C(driver) and C(firmware).
  returned: always
  type: dict
machine:
  description: Machine of the kernel, as in names of packages.
  returned: always
  type: str
  sample: aarch64
boot_id:
  description: Id of the current boot.
  returned: always
  type: str
"""

import platform

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    ascend_records,
    ascend_smi,
    pending_reboot,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.hostread import Host


def read(host, machine):
    """Return everything that stands in files."""
    found = {
        "chips": ascend_records.chips(host),
        "cann": {str(number): ascend_records.cann(host, number, machine) for number in (1, 2)},
        "nnal": ascend_records.nnal(host),
        "user": ascend_records.user_of(host.read(ascend_records.INSTALL_INFO))[0],
        "wrong_kinds": ascend_records.wrong_kinds(host),
        "module_loaded": ascend_records.module_loaded(host),
        "machine": machine,
        "boot_id": pending_reboot.boot_id(host),
    }
    found.update(ascend_records.hdk(host))
    return found


def main():
    module = AnsibleModule(
        argument_spec={"ask_devices": {"type": "bool", "default": True}},
        supports_check_mode=True,
    )
    found = read(Host(), platform.machine())
    running = {"tool": "", "problem": "", "devices": []}
    if module.params["ask_devices"]:
        running = ascend_smi.running(module, found["driver"]["path"])
    module.exit_json(changed=False, running=running, **found)


if __name__ == "__main__":
    main()
