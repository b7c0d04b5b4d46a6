#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have the installed NVIDIA driver run, or record that it waits for a reboot; read it back."""

DOCUMENTATION = r"""
module: nvidia_settle
short_description: Have the installed NVIDIA driver run, and verify it
version_added: 0.1.0
description:
  - Fails where the driver on disk is not the wanted version, whatever the package manager said, and
    where module and libraries on disk differ.
  - Loads a module that is not loaded. Where an older module runs and no process uses a device, it
    is unloaded and the new one loaded; where it cannot be unloaded, a pending reboot is recorded.
  - Asks C(nvidia-smi) in the end, and says what its exit code means.
options:
  version:
    description: Version that must be there; empty where the driver must be gone.
    type: str
    required: true
  reload:
    description: Whether an older module may be unloaded.
    type: bool
    default: true
  units:
    description: Services of the driver that end before the module is unloaded and start after it.
    type: list
    elements: str
    default: [nvidia-persistenced.service, nvidia-fabricmanager.service]
attributes:
  check_mode:
    support: partial
    description: Predicts that a module is loaded.
    details:
      - Whether an older module can be unloaded only the run knows.
  diff_mode:
    support: full
    description: Shows the module that runs before and after.
  idempotent:
    support: full
    description: The module that runs is compared with the one on disk.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Have the driver run
  vllm_fleet.baremetal.nvidia_settle:
    version: 580.95.05
"""

RETURN = r"""
state:
  description: State afterwards, as of M(vllm_fleet.baremetal.nvidia_state).
  returned: always
  type: str
  sample: good
meaning:
  description: The same as a sentence.
  returned: always
  type: str
  sample: driver 580.95.05 is installed and runs
reboot_required:
  description: Whether the driver waits for a reboot.
  returned: always
  type: bool
  sample: false
why:
  description: Why the module could not be changed; empty where it could.
  returned: always
  type: str
  sample: "in use by 4711 (python3)"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    hostread,
    nvidia_state,
    pending_reboot,
    systemctl,
)

PENDING = "nvidia-driver"
CHAIN = ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nvidia")


def check(module, probe):
    """Return what was seen with its state; fail where the wrong thing is on disk."""
    seen = probe.seen()
    state, meaning = nvidia_state.judge(seen)
    have = nvidia_state.installed(seen)
    if state in ("mixed", "half_installed") or have != module.params["version"]:
        module.fail_json(
            msg="wanted is driver %s, and %s. The package manager or installer did not bring it"
            % (module.params["version"] or "none", meaning),
            state=state,
            meaning=meaning,
        )
    return seen, state


def running_units(module):
    """Return those of the driver's services that run."""
    units = module.params["units"]
    return [unit for unit in units if systemctl.show(module, unit).get("ActiveState") == "active"]


def unload(module, probe, run):
    """Unload the module with what uses it; return why it cannot be, or ''."""
    holders = probe.holders()
    if holders:
        return "in use by %s" % ", ".join("%(pid)d (%(command)s)" % row for row in holders)
    for unit in running_units(module):
        systemctl.change(module, ["stop", unit], 120, unit)
    for name in CHAIN:
        if probe.module_loaded(name):
            code, out = run(["modprobe", "-r", name])
            if code != 0:
                return " ".join(out.split()) or "modprobe -r %s ended with %d" % (name, code)
    return ""


def load(run):
    """Load the modules that CUDA needs; return why they cannot be, or ''."""
    for name in ("nvidia", "nvidia_uvm"):
        code, out = run(["modprobe", name])
        if code != 0:
            return " ".join(out.split()) or "modprobe %s ended with %d" % (name, code)
    return ""


def apply(module, probe, seen, state):
    """Load or change the module; return why that cannot be, or ''."""
    run = nvidia_state.runner(module)
    if seen["nouveau"]:
        return "nouveau is loaded"
    why, active = "", []
    if state == "reboot_pending":
        if not module.params["reload"]:
            return "a reload is not allowed"
        active = running_units(module)
        why = unload(module, probe, run)
        if seen["loaded"] and probe.seen()["loaded"] and not why:
            why = "the kernel keeps the module"
    if not why and module.params["version"]:
        why = load(run)
        if why and state == "not_loaded":
            module.fail_json(msg="the module of driver %s cannot be loaded: %s; see dmesg"
                             % (module.params["version"], why))  # fmt: skip
    for unit in active if module.params["version"] else []:
        systemctl.run(module, ["systemctl", "start", unit])
    return why


def ask_smi(module, probe):
    """Fail where nvidia-smi does not answer with the wanted version."""
    code, versions, words = probe.smi()
    wrong = [version for version in versions if version != module.params["version"]]
    if code == 0 and versions and not wrong:
        return
    means = nvidia_state.SMI_MEANS.get(code, "it names %s" % (", ".join(versions) or "no GPU"))
    module.fail_json(
        msg="driver %s is installed and loaded, and nvidia-smi ended with %d: %s (%s)"
        % (module.params["version"], code, means, words)
    )


def main():
    """Run the module."""
    units = ["nvidia-persistenced.service", "nvidia-fabricmanager.service"]
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "reload": {"type": "bool", "default": True},
            "units": {"type": "list", "elements": "str", "default": units},
        },
        supports_check_mode=True,
    )
    host = hostread.Host()
    probe = nvidia_state.Probe(host, nvidia_state.runner(module))
    seen, state = check(module, probe)
    acts = state in ("not_loaded", "reboot_pending")
    why = ""
    if acts and not module.check_mode:
        why = apply(module, probe, seen, state)
    finish(module, host, probe, seen, acts, why)


def finish(module, host, probe, before, acts, why):
    """Read back, keep the record of the pending reboot, and leave."""
    seen = probe.seen()
    state, meaning = nvidia_state.judge(seen)
    waits = state in ("not_loaded", "reboot_pending")
    changed = seen["loaded"] != before["loaded"]
    if module.check_mode:
        recorded = host.read(pending_reboot.path(PENDING)) is not None
        changed = acts and not recorded
        waits = waits and recorded
    else:
        reason = meaning if waits else ""
        changed = pending_reboot.settle(module, host, PENDING, reason) or changed
    if state == "good":
        ask_smi(module, probe)
    elif waits and not module.check_mode:
        module.warn("%s: %s" % (meaning, why))
    module.exit_json(
        changed=changed,
        state=state,
        meaning=meaning,
        reboot_required=waits,
        why=why,
        diff={
            "before_header": "module that runs",
            "after_header": "module that runs",
            "before": "%s\n" % (before["loaded"] or "none"),
            "after": "%s\n" % (seen["loaded"] or "none"),
        },
    )


if __name__ == "__main__":
    main()
