#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stop the engines before the vendor's software changes, and start again those that ran."""

DOCUMENTATION = r"""
module: ascend_services
short_description: Stop the engine instances of a host, and start them again later
version_added: 0.1.0
description:
  - V(stopped) stops every instance C(vllm@NAME.service) that runs, keeps their names in
    C(/var/lib/vllm-fleet/ascend/stopped.json), and proves that no process holds an NPU open.
  - V(restored) starts those that are on that list. A run that failed in between loses none of them.
    While a reboot is pending for driver or firmware they stay stopped.
options:
  state:
    description: What the instances should be.
    type: str
    choices: [stopped, restored]
    required: true
  timeout:
    description: Seconds that stopping or starting one instance may take.
    type: int
    default: 300
attributes:
  check_mode:
    support: full
    description: Predicts what would be stopped or started.
  diff_mode:
    support: none
    description: The result names the units.
  idempotent:
    support: full
    description: Touches only what runs, or what this module stopped.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Stop the engines and prove that the NPUs are idle
  vllm_fleet.baremetal.ascend_services:
    state: stopped
"""

RETURN = r"""
units:
  description: The units that were stopped or started, or would be in check mode.
  returned: always
  type: list
  elements: str
  sample: [vllm@r1.service]
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    ascend_devices,
    ascend_pending,
    systemctl,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.hostread import Host
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.safe_files import (
    read_json,
    write_json,
)

RECORD = "/var/lib/vllm-fleet/ascend/stopped.json"
PATTERN = "vllm@*.service"


def parse_units(text):
    """Return the units of ``systemctl list-units --plain --no-legend``."""
    return sorted(line.split()[0] for line in text.splitlines() if line.strip())


def running(module):
    """Return the instances that run, or are about to."""
    argv = [module.get_bin_path("systemctl", required=True), "list-units", "--plain", "--no-legend"]
    argv += ["--no-pager", "--state=active,activating,reloading", PATTERN]
    rc, out, err = systemctl.run(module, argv)
    if rc != 0:
        module.fail_json(msg="systemctl list-units failed: %s" % (err or out).strip())
    return parse_units(out)


def remembered():
    """Return the instances that an earlier call stopped."""
    return list((read_json(RECORD) or {}).get("units", []))


def remember(units):
    """Keep the instances that are stopped, until they are started again."""
    if not units:
        os.unlink(RECORD)
        return
    os.makedirs(os.path.dirname(RECORD), mode=0o755, exist_ok=True)
    write_json(RECORD, {"schema": 1, "units": sorted(units)})


def stop(module):
    """Stop what runs; fail where something else holds an NPU."""
    units = running(module)
    if module.check_mode:
        return units
    if units:
        remember(set(units) | set(remembered()))
    for unit in units:
        systemctl.change(module, ["stop", unit], module.params["timeout"], unit)
    held = ascend_devices.holders()
    if held:
        module.fail_json(
            msg="the NPUs are in use by %s, which is no instance of this host's vllm@.service: "
            "stop it, then run again. No installer was started" % ascend_devices.in_words(held),
            units=units,
        )
    return units


def restore(module):
    """Start what an earlier call stopped."""
    units = [] if ascend_pending.reasons(Host()) else remembered()
    if units and not module.check_mode:
        for unit in units:
            systemctl.change(module, ["start", unit], module.params["timeout"], unit)
        remember([])
    return units


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "required": True, "choices": ["stopped", "restored"]},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    units = stop(module) if module.params["state"] == "stopped" else restore(module)
    module.exit_json(changed=bool(units), units=units)


if __name__ == "__main__":
    main()
