#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a host before its engine instances are touched, and refuse what cannot work."""

DOCUMENTATION = r"""
module: engine_preflight
short_description: Check that a host can run the wanted engine instances
version_added: 0.1.0
description:
  - Reads the host in one round trip and fails, before anything is touched, where an instance
    cannot work, naming the option, what was seen and what to do.
  - Looks at the service user, the release, the program, the model folder, the port, and a
    C(vllm@.service) that somebody else wrote.
  - Also names the instances on the host that are not wanted (any more).
options:
  instances:
    description: The wanted instances.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the instance.
        type: str
        required: true
      port:
        description: Port on which it listens.
        type: int
        required: true
      model:
        description: Model folder on the host, or a name that the engine looks up by itself.
        type: str
        required: true
      release:
        description: Release that it uses; empty for the host's default.
        type: str
        default: ''
      program:
        description: Program that it runs; empty where the release brings it.
        type: str
        default: ''
  user:
    description: Account under which the engines run.
    type: str
    required: true
  releases_dir:
    description: Directory that holds the releases.
    type: path
    required: true
  default_release:
    description: Release for instances that name none; empty to take the one on the host.
    type: str
    default: ''
  prune:
    description: Whether instances that are not wanted get removed, so that their ports are free.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: What an earlier stage of the same run would bring (user, release, model, program)
      is named in RV(predictions) instead of failing.
  diff_mode:
    support: none
    description: It changes nothing.
  idempotent:
    support: full
    description: It changes nothing.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Look at the host first
  vllm_fleet.baremetal.engine_preflight:
    user: vllm
    releases_dir: /opt/vllm/releases
    instances:
      - name: r1
        port: 8000
        model: /srv/models/deepseek-r1
"""

RETURN = r"""
default_release:
  description: Release for instances that name none; empty where it is not there yet (check mode).
  returned: always
  type: str
  sample: 3f2a9c
releases:
  description: Releases that are complete on the host.
  returned: always
  type: list
  elements: str
  sample: [3f2a9c]
left_behind:
  description: Instances on the host that are not wanted; C(owned) tells whether we wrote them.
  returned: always
  type: list
  elements: dict
  sample: [{name: old, owned: true, enabled: true}]
predictions:
  description: What is not there yet and is expected from an earlier stage (check mode).
  returned: always
  type: list
  elements: str
  sample: ["user: vllm is not on this host yet"]
problems:
  description: Everything that is wrong, one line each.
  returned: failure
  type: list
  elements: str
  sample: ["instance r1, port: 8000 is held by process 812 (nginx) of nginx.service"]
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import engine_host, listeners


def user_missing(params, user):
    """Say that the account is missing; an earlier stage brings it."""
    if user is not None:
        return []
    return ["user: %s is not on this host; the role os_baseline creates it" % params["user"]]


def release_missing(params, default):
    """Say which releases are missing; an earlier stage brings them."""
    found = engine_host.installed_releases(params["releases_dir"])
    problems = []
    for row in params["instances"]:
        release = row["release"] or default
        if release in found:
            continue
        seen = ", ".join(found) or "none"
        what = "%s is not installed" % release if release else "none is named and none is current"
        problems.append(
            "instance %s, release: %s (installed in %s: %s); the role vllm_build installs one"
            % (row["name"], what, params["releases_dir"], seen)
        )
    return problems


def model_missing(params, user):
    """Say which model folders cannot be served."""
    rows = [row for row in params["instances"] if row["model"].startswith("/")]
    found = [(row["name"], engine_host.model_problem(row["model"], user)) for row in rows]
    return ["instance %s, model: %s" % (name, why) for name, why in found if why]


def program_problems(params):
    """Say which programs cannot be run."""
    rows = [row for row in params["instances"] if row["program"]]
    return [
        "instance %s, vllm_service_executable: %s is not an executable file on this host"
        % (row["name"], row["program"])
        for row in rows
        if not os.access(row["program"], os.X_OK)
    ]


def port_problems(params, left):
    """Say which ports somebody else holds (an instance that is wanted may still hold another's)."""
    tolerated = [row["name"] for row in params["instances"]]
    tolerated += [row["name"] for row in left if params["prune"] and row["owned"]]
    problems = []
    for row in params["instances"]:
        holders = engine_host.foreign_holders(listeners.listeners(row["port"]), tolerated)
        problems += [
            "instance %s, port: %d is held by %s; choose another port or stop it%s"
            % (row["name"], row["port"], listeners.words(holder), _prune_hint(holder, left))
            for holder in holders[:1]
        ]
    return problems


def _prune_hint(holder, left):
    if engine_host.foreign_holders([holder], [row["name"] for row in left if row["owned"]]):
        return ""
    return " (the inventory no longer lists it: vllm_service_prune removes it)"


def main():
    """Run the module."""
    row = {
        "name": {"type": "str", "required": True},
        "port": {"type": "int", "required": True},
        "model": {"type": "str", "required": True},
        "release": {"type": "str", "default": ""},
        "program": {"type": "str", "default": ""},
    }
    module = AnsibleModule(
        argument_spec={
            "instances": {"type": "list", "elements": "dict", "required": True, "options": row},
            "user": {"type": "str", "required": True},
            "releases_dir": {"type": "path", "required": True},
            "default_release": {"type": "str", "default": ""},
            "prune": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    user = engine_host.find_user(params["user"])
    default = params["default_release"] or engine_host.default_release(params["releases_dir"])
    left = engine_host.left_behind([row["name"] for row in params["instances"]])
    missing = []
    if params["instances"]:
        missing = user_missing(params, user) + release_missing(params, default)
        missing += model_missing(params, user) + program_problems(params)
    problems = port_problems(params, left)
    if params["instances"] and engine_host.foreign_template():
        problems.append(
            "%s was not written by vllm-fleet; move it away first" % engine_host.UNIT_TEMPLATE
        )
    if not module.check_mode:
        problems = missing + problems
    if problems:
        module.fail_json(msg="; ".join(problems), problems=problems)
    module.exit_json(
        changed=False,
        default_release=default,
        releases=engine_host.installed_releases(params["releases_dir"]),
        left_behind=left,
        predictions=missing if module.check_mode else [],
    )


if __name__ == "__main__":
    main()
