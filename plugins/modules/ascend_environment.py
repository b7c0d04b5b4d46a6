#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what the vendor's set_env.sh scripts set as an environment file for systemd."""

DOCUMENTATION = r"""
module: ascend_environment
short_description: Make an environment file for systemd from set_env.sh
version_added: 0.1.0
description:
  - A unit of systemd sees nothing of what C(set_env.sh) exports. This module sources the scripts in
    order in a shell with an empty environment, and writes what they set or change as a file for
    C(EnvironmentFile=).
  - The shell does not stop at errors, since the vendor's scripts search files that may lack a key.
    A result without the variables of O(required) is a failure, so that nothing half is written.
options:
  scripts:
    description: The scripts, in order.
    type: list
    elements: path
    required: true
  dest:
    description: The environment file.
    type: path
    required: true
  required:
    description: Variables that the scripts must have set.
    type: list
    elements: str
    default: [ASCEND_HOME_PATH, LD_LIBRARY_PATH]
  libraries:
    description: Library folders that are added where they exist and the scripts left them out.
    type: list
    elements: path
    default: []
attributes:
  check_mode:
    support: full
    description: Predicts; where the scripts are not there yet, it says that the file would change.
  diff_mode:
    support: full
    description: Shows the file before and after.
  idempotent:
    support: full
    description: The file is only written where it would differ.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Write the environment of CANN for units
  vllm_fleet.baremetal.ascend_environment:
    scripts:
      - /usr/local/Ascend/cann/set_env.sh
      - /usr/local/Ascend/nnal/atb/set_env.sh
    dest: /etc/vllm-fleet/ascend.env
"""

RETURN = r"""
variables:
  description: The variables of the file; empty where check mode cannot know them.
  returned: always
  type: dict
  sample: {ASCEND_HOME_PATH: /usr/local/Ascend/cann-9.1.0}
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    ascend_environment,
    systemctl,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.hostread import Host

LIMIT_S = 60
PROGRAM = 'for script in "$@"; do source "$script" >/dev/null 2>&1; done; exec env -0'


def sourced(module, scripts):
    """Return the environment of a shell that sourced the scripts."""
    base = ["%s=%s" % item for item in sorted(ascend_environment.BASE.items())]
    shell = [module.get_bin_path("bash", required=True), "--noprofile", "--norc", "-c", PROGRAM]
    argv = [module.get_bin_path("env", required=True), "-i"] + base + shell + ["set_env"] + scripts
    rc, out, err = systemctl.run(module, argv, LIMIT_S)
    if rc != 0:
        module.fail_json(msg="the scripts %s cannot be sourced: %s" % (scripts, err.strip()))
    return ascend_environment.parse(out)


def check(module):
    """Return (text wanted, variables); text None where check mode cannot know it yet."""
    scripts = module.params["scripts"]
    missing = [path for path in scripts if not os.path.isfile(path)]
    if missing and module.check_mode:
        return None, {}
    if missing:
        module.fail_json(msg="there is no %s: is CANN installed?" % ", ".join(missing))
    libraries = [path for path in module.params["libraries"] if os.path.isdir(path)]
    variables = ascend_environment.wanted(sourced(module, scripts), libraries)
    lacking = [name for name in module.params["required"] if not variables.get(name)]
    if lacking:
        module.fail_json(msg="%s did not set %s" % (", ".join(scripts), ", ".join(lacking)))
    return ascend_environment.render(variables, scripts), variables


def apply(module, text):
    """Write the file in one step."""
    dest = module.params["dest"]
    os.makedirs(os.path.dirname(dest), mode=0o755, exist_ok=True)
    draft = os.path.join(module.tmpdir, "environment")
    with open(draft, "wb") as stream:
        stream.write(text.encode("utf-8"))
    os.chmod(draft, 0o644)
    module.atomic_move(draft, dest)


def main():
    module = AnsibleModule(
        argument_spec={
            "scripts": {"type": "list", "elements": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "required": {
                "type": "list",
                "elements": "str",
                "default": ["ASCEND_HOME_PATH", "LD_LIBRARY_PATH"],
            },
            "libraries": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    dest = module.params["dest"]
    before = Host().read(dest)
    text, variables = check(module)
    changed = text is None or text != before
    if changed and not module.check_mode:
        apply(module, text)
    after = "unknown until the scripts are there\n" if text is None else text
    module.exit_json(
        changed=changed,
        variables=variables,
        diff={"before": before or "", "after": after, "before_header": dest, "after_header": dest},
    )


if __name__ == "__main__":
    main()
