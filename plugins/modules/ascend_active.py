#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell whether the driver and firmware that are installed are those that really run."""

DOCUMENTATION = r"""
module: ascend_active
short_description: Check that the installed Ascend driver and firmware are those that run
version_added: 0.1.0
description:
  - Compares the vendor's records with what each NPU answers through C(npu-smi). Where they differ,
    or an installer asked for a reboot, the result says so, and a record in
    C(/var/lib/vllm-fleet/pending-reboot.d) holds it until the next boot. It never reboots.
  - NPUs that do not answer although no reboot is pending are a failure.
options:
  driver:
    description: Version of the driver that should run; empty where none should.
    type: str
    default: ''
  firmware:
    description: Version of the firmware that should run; empty where none was asked for.
    type: str
    default: ''
  booted:
    description: Whether the host was rebooted just now. What still differs is then a failure.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Writes no record.
  diff_mode:
    support: none
    description: The result names the reasons.
  idempotent:
    support: full
    description: A record that already says it is left alone.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Compare what is installed with what runs
  vllm_fleet.baremetal.ascend_active:
    driver: 25.5.1
    firmware: 7.8.0.6.201
  register: __ascend_driver_active
"""

RETURN = r"""
reboot_required:
  description: Whether the host must reboot before the installed versions run.
  returned: always
  type: bool
reasons:
  description: Why.
  returned: always
  type: list
  elements: str
  sample: [driver 25.5.1 is installed and 25.2.0 runs]
devices:
  description: What each NPU runs, with C(id), C(driver) and C(firmware).
  returned: always
  type: list
  elements: dict
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    ascend_names,
    ascend_pending,
    ascend_records,
    ascend_smi,
    pending_reboot,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.hostread import Host


def apart(wanted, devices):
    """Return a sentence for each part that does not run as it is installed."""
    found = []
    for part in ascend_pending.PARTS:
        seen = ascend_smi.versions(devices, part)
        others = [
            version for version in seen if not ascend_names.same_version(version, wanted[part])
        ]
        if wanted[part] and others:
            found.append("%s %s is installed and %s runs" % (part, wanted[part], ", ".join(others)))
    return found


def check(module, host):
    """Return (reasons for a reboot, devices); NPUs that must answer and do not are a failure."""
    wanted = {part: module.params[part] for part in ascend_pending.PARTS}
    pending = ascend_pending.asked(host)
    if not wanted["driver"]:
        return pending, []
    told = ascend_smi.running(module, ascend_records.hdk(host)["driver"]["path"])
    if told["tool"] != ascend_smi.GOOD and not pending:
        problem = told["problem"] or "there is no npu-smi"
        module.fail_json(
            msg="driver %s is on record, but the NPUs do not answer: %s. "
            "See /var/log/ascend_seclog" % (wanted["driver"], problem)
        )
    return pending or apart(wanted, told["devices"]), told["devices"]


def settle(module, host, reasons, pending):
    """Keep the records in step: one of our own where no installer asked; stale ones go."""
    own = "; ".join(reasons) if reasons and not pending else ""
    changed = pending_reboot.settle(module, host, ascend_pending.OWN, own)
    for part in ascend_pending.PARTS:
        name = ascend_pending.name_of(part)
        stale = not pending and os.path.exists(pending_reboot.path(name))
        changed = (stale and pending_reboot.settle(module, host, name, "")) or changed
    return changed


def main():
    module = AnsibleModule(
        argument_spec={
            "driver": {"type": "str", "default": ""},
            "firmware": {"type": "str", "default": ""},
            "booted": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    host = Host()
    reasons, devices = check(module, host)
    if reasons and module.params["booted"]:
        module.fail_json(msg="after the reboot: %s" % "; ".join(reasons), devices=devices)
    changed = False
    if not module.check_mode:
        changed = settle(module, host, reasons, ascend_pending.asked(host))
    module.exit_json(
        changed=changed, reboot_required=bool(reasons), reasons=reasons, devices=devices
    )


if __name__ == "__main__":
    main()
