#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install or remove one CUDA toolkit by the vendor's runfile."""

DOCUMENTATION = r"""
module: cuda_runfile
short_description: Install or remove a CUDA toolkit by its runfile
version_added: 0.1.0
description:
  - Installs the toolkit alone, never the driver that the runfile carries too, into a folder of its
    own, so that several stand side by side.
  - The runfile is compared with its SHA-256 before it is run. What is there is read from the
    toolkit's own C(version.json) and compiler.
options:
  state:
    description: Whether the toolkit is there.
    type: str
    choices: [present, absent]
    default: present
  version:
    description: Version of the toolkit as MAJOR.MINOR. Quote it.
    type: str
    required: true
  src:
    description: The runfile, as a URL (C(http) or C(https)) or a path on the host.
    type: str
  sha256:
    description: SHA-256 of the runfile.
    type: str
  path:
    description: Folder of the toolkit.
    type: path
    required: true
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
    description: The version in the folder is compared with what is wanted.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Install a toolkit beside others
  vllm_fleet.baremetal.cuda_runfile:
    version: "12.9"
    src: https://mirror.example/nvidia/cuda_12.9.0_575.51.03_linux.run
    sha256: "{{ cuda_sha256 }}"
    path: /usr/local/cuda-12.9
"""

RETURN = r"""
before:
  description: Version that was in the folder.
  returned: always
  type: str
  sample: ""
installed:
  description: Version that is there afterwards, as far as the toolkit names it.
  returned: always
  type: str
  sample: 12.9.0
rc:
  description: Exit code of the installer; -1 where it was stopped.
  returned: when the installer failed
  type: int
  sample: 1
log:
  description: Where the output of the installer is.
  returned: when the installer failed
  type: str
  sample: /var/log/vllm-fleet-cuda.log
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    nvidia_runfiles,
    safe_files,
)

OUTPUT = "/var/log/vllm-fleet-cuda.log"
RUNFILES = r"^cuda_.*\.run$"


def found(path):
    """Return the version of the toolkit in a folder; '' where there is none that could compile."""
    record = safe_files.read_json(os.path.join(path, "version.json")) or {}
    named = record.get("cuda") or {}
    version = str(named.get("version", "")) if isinstance(named, dict) else ""
    return version if os.path.exists(os.path.join(path, "bin", "nvcc")) else ""


def is_wanted(seen, wanted):
    """Say whether a version is one of the wanted MAJOR.MINOR."""
    return seen.split(".")[:2] == wanted.split(".")[:2]


def apply(module):
    """Run the installer or the remover."""
    path, limit = module.params["path"], module.params["timeout"]
    if module.params["state"] == "absent":
        tool = os.path.join(path, "bin", "cuda-uninstaller")
        if not os.path.exists(tool):
            module.fail_json(
                msg="%s has no bin/cuda-uninstaller: packages brought it, or somebody else" % path
            )
        nvidia_runfiles.carry_out(
            module, [tool, "--silent"], OUTPUT, limit, "the removal of the toolkit"
        )
        return
    wanted = nvidia_runfiles.wanted_sum(module)
    runfile = nvidia_runfiles.obtain(module, module.params["src"], wanted)
    command = ["sh", runfile, "--silent", "--toolkit", "--toolkitpath=%s" % path, "--override"]
    nvidia_runfiles.carry_out(module, command, OUTPUT, limit, "the toolkit's installer")
    # Each is some gigabytes, and an old toolkit stays beside the new one anyway.
    nvidia_runfiles.prune(RUNFILES, 0)


def read_back(module):
    """Return the version afterwards; fail where it is not what was wanted."""
    after = found(module.params["path"])
    present = module.params["state"] == "present"
    if present != (bool(after) and is_wanted(after, module.params["version"])):
        module.fail_json(
            msg="the installer ended well, and yet %s holds %s"
            % (module.params["path"], "CUDA %s" % after if after else "no toolkit")
        )
    return after


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "version": {"type": "str", "required": True},
            "src": {"type": "str"},
            "sha256": {"type": "str"},
            "path": {"type": "path", "required": True},
            "timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
        required_if=[("state", "present", ("src", "sha256"))],
    )
    present = module.params["state"] == "present"
    before = found(module.params["path"])
    good = is_wanted(before, module.params["version"]) if present else not before
    after = before
    if not good:
        if present:
            nvidia_runfiles.wanted_sum(module)
        if not module.check_mode:
            apply(module)
            after = read_back(module)
        else:
            after = module.params["version"] if present else ""
            if present:
                nvidia_runfiles.ask(module, module.params["src"])
    module.exit_json(
        changed=not good,
        before=before,
        installed=after,
        diff={
            "before_header": module.params["path"],
            "after_header": module.params["path"],
            "before": "%s\n" % before if before else "",
            "after": "%s\n" % after if after else "",
        },
    )


if __name__ == "__main__":
    main()
