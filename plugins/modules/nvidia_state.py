#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what there is of the NVIDIA driver on a host."""

DOCUMENTATION = r"""
module: nvidia_state
short_description: Tell what there is of the NVIDIA driver
version_added: 0.1.0
description:
  - Reads GPUs and NVSwitches by PCI vendor and class, the module that runs, the module on disk, the
    libraries, packages and the record of the runfile, who uses the devices, and which timers may
    move the driver. Changes nothing, and starts nothing that loads a module.
  - Tells an upgraded driver that waits for a reboot apart from packages that are mixed, and both
    from a driver that is not there.
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
- name: Look at the driver
  vllm_fleet.baremetal.nvidia_state:
  register: nvidia
"""

RETURN = r"""
state:
  description:
    - One of C(absent), C(good), C(not_loaded), C(reboot_pending), C(half_installed) and C(mixed).
  returned: always
  type: str
  sample: reboot_pending
meaning:
  description: The same as a sentence, with the versions.
  returned: always
  type: str
  sample: "driver upgraded, reboot pending: 580.95.05 is installed, module 535.183.01 still runs"
installed:
  description: Version that module and libraries on disk agree on.
  returned: always
  type: str
  sample: 580.95.05
seen:
  description:
    - What was read, with C(loaded), C(loaded_flavour), C(on_disk), C(on_disk_flavour),
      C(user_space), C(runfile), C(packages) and C(nouveau).
  returned: always
  type: dict
  sample: {loaded: 580.95.05, on_disk: 580.95.05, user_space: 580.95.05, nouveau: false}
gpus:
  description: GPUs by PCI, with C(address) and C(pci).
  returned: always
  type: list
  elements: dict
  sample: [{address: "0000:3b:00.0", pci: "10de:20b2"}]
nvswitches:
  description: NVSwitches by PCI, with C(address) and C(pci).
  returned: always
  type: list
  elements: dict
  sample: []
holders:
  description: Processes that have a device open, with C(pid) and C(command).
  returned: always
  type: list
  elements: dict
  sample: [{pid: 4711, command: python3}]
competitors:
  description: Enabled timers that upgrade packages without being asked.
  returned: always
  type: list
  elements: str
  sample: [dnf-automatic.timer]
fabric_manager:
  description: Version of Fabric Manager.
  returned: always
  type: str
  sample: 580.95.05
headers:
  description: Whether the headers of the running kernel are there.
  returned: always
  type: bool
  sample: true
other_headers:
  description: Kernels whose headers are there.
  returned: always
  type: list
  elements: str
  sample: [5.10.0-153.el8.x86_64]
repository_folder:
  description: Where the package manager reads repositories, on a host with dnf.
  returned: always
  type: str
  sample: /etc/yum.repos.d
engines:
  description: Engine instances (C(vllm@NAME.service)) that run.
  returned: always
  type: list
  elements: str
  sample: [vllm@r1.service]
boot_id:
  description: Id of the current boot, by which a host is told apart from the controller.
  returned: always
  type: str
  sample: de55cd62-16bb-45fd-9289-33b3fa2c2947
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    hostread,
    nvidia_state,
    pending_reboot,
)


def engines(run):
    """Return the engine instances that run."""
    argv = ["systemctl", "list-units", "--no-legend", "--plain", "--state=active", "vllm@*.service"]
    _code, out = run(argv)
    return [line.split()[0] for line in out.splitlines() if line.startswith("vllm@")]


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    host = hostread.Host()
    run = nvidia_state.runner(module)
    probe = nvidia_state.Probe(host, run)
    seen = probe.seen()
    state, meaning = nvidia_state.judge(seen)
    gpus, switches = probe.devices()
    module.exit_json(
        changed=False,
        state=state,
        meaning=meaning,
        installed=nvidia_state.installed(seen),
        seen=seen,
        gpus=gpus,
        nvswitches=switches,
        holders=probe.holders(),
        competitors=probe.competitors(),
        fabric_manager=probe.fabric_manager(),
        headers=probe.headers(os.uname()[2]),
        other_headers=probe.other_headers(),
        repository_folder=probe.repository_folder(),
        engines=engines(run),
        boot_id=pending_reboot.boot_id(host),
    )


if __name__ == "__main__":
    main()
