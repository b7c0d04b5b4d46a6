#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Examine a host: the part that runs on it. An action plugin of the same name judges."""

DOCUMENTATION = r"""
module: host_findings
short_description: Examine a host and name what is wrong with it
version_added: 0.1.0
description:
  - Reads identity, hardware, services, settings and logs of a host, and returns what is wrong as
    findings, each with a code, what was seen, what it means, and the fix. Changes nothing.
  - First a probe that needs no Python looks at the host, so that one without a usable Python gets a
    finding, too, and not a traceback. Where another interpreter of the host can be used, the
    examination goes on with it.
  - The findings are rules over the facts, applied on the controller. See docs/doctor.md.
options:
  budget:
    description: Seconds that all tools on the host together may take.
    type: int
    default: 45
  patterns:
    description: Texts to look for in journals, by the code of their finding. The action does it.
    type: dict
    default: {}
  instances:
    description:
      - Names of the instances that the host should have. Others are orphans. Without it, the
        variable C(vllm_service_instances) counts; without that, nothing is called an orphan.
    type: list
    elements: str
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
- name: Examine the host
  vllm_fleet.baremetal.host_findings:
  register: examined

- name: Show what is wrong
  ansible.builtin.debug:
    var: examined.findings
"""

RETURN = r"""
findings:
  description: What is wrong; empty where nothing is.
  returned: always
  type: list
  elements: dict
  contains:
    code:
      description: The stable code, also the anchor in docs/doctor.md.
      returned: always
      type: str
      sample: disk-full
    severity:
      description: V(error) or V(warning).
      returned: always
      type: str
      sample: error
    title:
      description: What is wrong, in a few words.
      returned: always
      type: str
      sample: A file system is full
    subject:
      description: What it is about; empty where it is the host.
      returned: always
      type: str
      sample: /opt
    seen:
      description: What was seen.
      returned: always
      type: str
      sample: /opt has 0.1 GiB free of 200.0 GiB
    meaning:
      description: What follows from it.
      returned: always
      type: str
      sample: Installations stop half-way.
    fix:
      description: What to do.
      returned: always
      type: str
      sample: Remove old releases.
facts:
  description: What was read on the host; empty where no Python could read it.
  returned: always
  type: dict
  sample: {}
probe:
  description: What the probe without Python saw.
  returned: always
  type: dict
  sample: {pythons: [{path: /usr/bin/python3, version: 3.9.9}]}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    doctor_host,
    hostread,
    tools,
)


def main():
    """Run the module."""
    spec = {
        "budget": {"type": "int", "default": 45},
        "patterns": {"type": "dict", "default": {}},
        "instances": {"type": "list", "elements": "str"},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    runner = tools.Tools(module.params["budget"])
    facts = doctor_host.collect(hostread.Host(), runner, module.params["patterns"])
    facts["user"] = doctor_host.user_name()
    module.exit_json(changed=False, facts=facts)


if __name__ == "__main__":
    main()
