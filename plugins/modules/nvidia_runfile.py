#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install or remove the NVIDIA driver by the vendor's runfile."""

DOCUMENTATION = r"""
module: nvidia_runfile
short_description: Install or remove the NVIDIA driver by its runfile
version_added: 0.1.0
description:
  - Brings the driver to one version, up or down, and repairs one that is half installed. What is
    installed is read from the module and the libraries on disk and from the record that the
    vendor's installer keeps.
  - The runfile is compared with its SHA-256 before it is run. The one before is kept below
    C(/var/lib/vllm-fleet/nvidia) for the way back.
  - A driver whose module is in use is replaced on disk; the next boot loads the new one.
  - After the installer the version on disk is read again; another one than wanted is a failure.
options:
  state:
    description: Whether the driver is there.
    type: str
    choices: [present, absent]
    default: present
  src:
    description: The runfile, as a URL (C(http) or C(https)) or a path on the host.
    type: str
  sha256:
    description: SHA-256 of the runfile.
    type: str
  version:
    description: Version that the runfile brings.
    type: str
  modules:
    description: Flavour of the kernel modules.
    type: str
    choices: [open, proprietary]
    default: open
  modules_argument:
    description: Argument by which this version's installer chooses O(modules).
    type: str
    default: --kernel-module-type=open
  dkms:
    description: Whether the modules are built again for each new kernel.
    type: bool
    default: true
  arguments:
    description: Further arguments of the installer.
    type: list
    elements: str
    default: []
  log:
    description: The installer's own log.
    type: path
    default: /var/log/nvidia-installer.log
  timeout:
    description: Seconds after which the installer is stopped.
    type: int
    default: 1800
attributes:
  check_mode:
    support: full
    description: Asks for the runfile without reading it; a checksum is only compared for real.
  diff_mode:
    support: full
    description: Shows the version before and after.
  idempotent:
    support: full
    description: The version and flavour on disk are compared with what is wanted.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Install the driver
  vllm_fleet.baremetal.nvidia_runfile:
    src: https://mirror.example/nvidia/NVIDIA-Linux-x86_64-580.95.05.run
    sha256: "{{ nvidia_driver_runfile_sha256 }}"
    version: 580.95.05

- name: Remove it
  vllm_fleet.baremetal.nvidia_runfile:
    state: absent
"""

RETURN = r"""
step:
  description: What was done, or would be; one of C(none), C(install), C(upgrade), C(downgrade),
    C(repair) and C(remove).
  returned: always
  type: str
  sample: upgrade
before:
  description: Version before.
  returned: always
  type: str
  sample: 535.183.01
installed:
  description: Version on disk afterwards.
  returned: always
  type: str
  sample: 580.95.05
rc:
  description: Exit code of the installer; -1 where it was stopped.
  returned: when the installer failed
  type: int
  sample: 1
log:
  description: Where the output of the installer is.
  returned: when the installer failed
  type: str
  sample: /var/log/vllm-fleet-nvidia.log
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    hostread,
    nvidia_runfiles,
    nvidia_state,
)

OUTPUT = "/var/log/vllm-fleet-nvidia.log"
UNINSTALL = "/usr/bin/nvidia-uninstall"
RUNFILES = r"^NVIDIA-Linux-.*\.run$"


def check(probe, params):
    """Return what was seen and the step to take; changes nothing."""
    seen = probe.seen()
    if params["state"] == "absent":
        return seen, "remove" if seen["runfile"] else "none"
    step = nvidia_state.step_to(seen, params["version"], params["modules"])
    if step == "none" and seen["runfile"] != params["version"]:
        step = "repair"
    return seen, step


def refuse_packages(module, seen):
    """Fail where packages own the driver: the installer would write over their files."""
    if seen["packages"]:
        module.fail_json(
            msg="the driver comes from packages here (%s): remove them first, or install the driver"
            " from the repository" % ", ".join(sorted(seen["packages"])[:4])
        )


def apply(module, probe, seen, step):
    """Run the installer and read back; return the version on disk."""
    if step == "remove":
        command = [UNINSTALL, "--silent"]
        nvidia_runfiles.carry_out(
            module, command, OUTPUT, module.params["timeout"], "the removal of the driver"
        )
    else:
        install(module, probe, seen)
    after = probe.seen()
    installed = nvidia_state.installed(after)
    wanted = "" if step == "remove" else module.params["version"]
    if installed != wanted or (step == "remove" and after["runfile"]):
        module.fail_json(
            msg="the installer ended well, and yet the driver on disk is %s, not %s (%s)"
            % (installed or "none", wanted or "none", nvidia_state.judge(after)[1])
        )
    return installed


def install(module, probe, seen):
    """Get the runfile and run it."""
    src = module.params["src"]
    runfile = nvidia_runfiles.obtain(module, src, nvidia_runfiles.wanted_sum(module))
    busy = bool(probe.holders())
    words = nvidia_runfiles.driver_arguments(module.params, seen, busy)
    nvidia_runfiles.carry_out(
        module, ["sh", runfile] + words, OUTPUT, module.params["timeout"], "the driver's installer"
    )
    nvidia_runfiles.prune(RUNFILES, 2)


def arguments():
    """Return the argument specification."""
    return {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "src": {"type": "str"},
        "sha256": {"type": "str"},
        "version": {"type": "str"},
        "modules": {"type": "str", "choices": ["open", "proprietary"], "default": "open"},
        "modules_argument": {"type": "str", "default": "--kernel-module-type=open"},
        "dkms": {"type": "bool", "default": True},
        "arguments": {"type": "list", "elements": "str", "default": []},
        "log": {"type": "path", "default": "/var/log/nvidia-installer.log"},
        "timeout": {"type": "int", "default": 1800},
    }


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=arguments(),
        supports_check_mode=True,
        required_if=[("state", "present", ("src", "sha256", "version"))],
    )
    probe = nvidia_state.Probe(hostread.Host(), nvidia_state.runner(module))
    seen, step = check(probe, module.params)
    before = nvidia_state.installed(seen)
    after = before
    if step != "none":
        after = "" if step == "remove" else module.params["version"]
        if step != "remove":
            refuse_packages(module, seen)
            nvidia_runfiles.wanted_sum(module)
        if not module.check_mode:
            after = apply(module, probe, seen, step)
        elif step != "remove":
            nvidia_runfiles.ask(module, module.params["src"])
    module.exit_json(
        changed=step != "none",
        step=step,
        before=before,
        installed=after,
        diff={
            "before_header": "driver on disk",
            "after_header": "driver on disk",
            "before": "%s\n" % before if before else "",
            "after": "%s\n" % after if after else "",
        },
    )


if __name__ == "__main__":
    main()
