#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the unit of an engine instance to its wanted state, judged by what is running now."""

DOCUMENTATION = r"""
module: engine_instance
short_description: Start, restart, stop or remove an engine instance by its state
version_added: 0.1.0
description:
  - Compares the running unit C(vllm@NAME.service) with the files that it was started from, and
    enables, starts or restarts it as needed.
  - A restart is decided from state, never from what an earlier task of the same run changed. The
    instance restarts when one of its files changed after its process started, or when systemd
    says that it has not read the unit files since they changed. So a run that failed half-way
    loses no restart.
  - The module does not wait for the engine; M(vllm_fleet.baremetal.engine_ready) does.
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  state:
    description:
      - V(started) runs it. V(stopped) stops and disables it.
      - V(absent) also removes the files that the role C(vllm_service) wrote for it. Its working
        directory stays.
    type: str
    choices: [started, stopped, absent]
    default: started
  enabled:
    description: Whether it starts at boot (only for O(state=started)).
    type: bool
    default: true
  files:
    description:
      - Files that the process uses besides its unit files and environment files, which the module
        reads from systemd.
    type: list
    elements: path
    default: []
  predicted:
    description:
      - Files that an earlier task would change. Only used in check mode, where they are not
        changed yet.
    type: list
    elements: path
    default: []
  timeout:
    description: Seconds that a stop or a restart may take before the task fails.
    type: int
    default: 300
attributes:
  check_mode:
    support: full
    description: Predicts from the present state and from O(predicted). Says so where the unit is
      not there yet.
  diff_mode:
    support: full
    description: Shows the state before and after.
  idempotent:
    support: full
    description: An instance that runs with its present files is left alone.
author:
  - The vllm-fleet developers (@vllm-fleet)
seealso:
  - module: vllm_fleet.baremetal.engine_ready
"""

EXAMPLES = r"""
- name: Run the instance with its present files
  vllm_fleet.baremetal.engine_instance:
    name: r1
    files:
      - /opt/vllm/releases/3f2a9c/release.json

- name: Remove an instance
  vllm_fleet.baremetal.engine_instance:
    name: old
    state: absent
"""

RETURN = r"""
unit:
  description: The unit of the instance.
  returned: always
  type: str
  sample: vllm@r1.service
actions:
  description: What was done, or would be done in check mode, in order.
  returned: always
  type: list
  elements: str
  sample: [daemon-reload, restart]
reasons:
  description: Why.
  returned: always
  type: list
  elements: str
  sample: [/etc/vllm-fleet/instances/r1.env is newer than the process]
state:
  description: State of the unit afterwards, as systemd names it.
  returned: always
  type: str
  sample: active
restarts:
  description: Restart counter of the unit afterwards, to compare with later.
  returned: always
  type: int
  sample: 0
journal:
  description: Last lines of the unit's journal.
  returned: when systemd could not start the unit
  type: list
  elements: str
  sample: ["Failed at step EXEC spawning /usr/bin/engine: No such file or directory"]
pending:
  description: Whether this is check mode and the instance would be started or restarted.
  returned: always
  type: bool
  sample: false
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import engine_state, systemctl

DROP_IN = "10-vllm-fleet.conf"


def own_files(name):
    """Return the files that the role vllm_service writes for one instance."""
    return [
        "/etc/systemd/system/%s.d/%s" % (engine_state.unit_name(name), DROP_IN),
        "/etc/vllm-fleet/instances/%s.env" % name,
        "/etc/vllm-fleet/secrets/%s.env" % name,
    ]


def stamps(paths):
    """Return path -> time of its last change (of the link or its target), None where missing."""
    return {path: _stamp(path) for path in paths}


def _stamp(path):
    try:
        return max(os.lstat(path).st_ctime, os.stat(path).st_ctime)
    except OSError:
        return None


def restamp(found, now):
    """Give files that a clock set back left in the future the present as their last change.

    Without it every later run would find them newer than the process.
    """
    for path, stamp in found.items():
        if stamp is not None and stamp > now:
            os.chmod(path, os.stat(path).st_mode & 0o7777)


def check(module, unit_name):
    """Return (unit, stamps, actions, reasons); changes nothing."""
    unit = systemctl.show(module, unit_name)
    problem = engine_state.load_problem(unit, unit_name)
    if problem and module.params["state"] == "started":
        module.fail_json(msg=problem)
    found = stamps(engine_state.files_in_use(unit) + module.params["files"])
    actions, reasons = engine_state.decide(
        unit,
        found,
        time.time(),
        time.monotonic(),
        state=module.params["state"],
        enabled=module.params["enabled"],
        predicted=module.params["predicted"] if module.check_mode else (),
    )
    if module.params["state"] == "absent":
        left = [path for path in own_files(module.params["name"]) if os.path.lexists(path)]
        actions += ["remove"] if left else []
        reasons += ["%s was there" % path for path in left]
    return unit, found, actions, reasons


def apply(module, unit_name, found, actions):
    """Carry out the actions in order."""
    if "start" in actions or "restart" in actions:
        _refuse_missing_unit(module, unit_name)
        restamp(found, time.time())
    for action in actions:
        if action == "remove":
            remove(module, unit_name)
        elif action == "daemon-reload":
            systemctl.change(module, ["daemon-reload"])
        else:
            _change_unit(module, unit_name, action)


def _change_unit(module, unit_name, action):
    if action in ("start", "restart"):
        # Also clears the count of starts: a restart that is wanted is no crash.
        systemctl.run(module, ["systemctl", "reset-failed", unit_name])
    limit = module.params["timeout"] if action in ("stop", "restart", "start") else 60
    systemctl.change(module, [action, unit_name], limit, unit_name)


def _refuse_missing_unit(module, unit_name):
    if systemctl.show(module, unit_name).get("LoadState") == "not-found":
        module.fail_json(msg="%s: there is no such unit file on this host" % unit_name)


def remove(module, unit_name):
    """Remove the instance's files, and the drop-in directory where nothing else is in it."""
    for path in own_files(module.params["name"]):
        if os.path.lexists(path):
            os.unlink(path)
    folder = "/etc/systemd/system/%s.d" % unit_name
    if os.path.isdir(folder) and not os.listdir(folder):
        os.rmdir(folder)
    systemctl.change(module, ["daemon-reload"])
    systemctl.run(module, ["systemctl", "reset-failed", unit_name])


def words(unit):
    """Return the state of a unit as the lines of a diff."""
    names = ("LoadState", "UnitFileState", "ActiveState")
    return "".join("%s: %s\n" % (name, unit.get(name, "")) for name in names)


def outlook(unit, actions):
    """Return the unit as it would be after the actions (for the diff of check mode)."""
    after = dict(unit)
    for action in actions:
        after.update(AFTER.get(action, {}))
    return after


AFTER = {
    "enable": {"UnitFileState": "enabled"},
    "disable": {"UnitFileState": "disabled"},
    "start": {"ActiveState": "active", "LoadState": "loaded"},
    "restart": {"ActiveState": "active (restarted)"},
    "stop": {"ActiveState": "inactive"},
}


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {
                "type": "str",
                "choices": ["started", "stopped", "absent"],
                "default": "started",
            },
            "enabled": {"type": "bool", "default": True},
            "files": {"type": "list", "elements": "path", "default": []},
            "predicted": {"type": "list", "elements": "path", "default": []},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    unit_name = engine_state.unit_name(module.params["name"])
    before, found, actions, reasons = check(module, unit_name)
    # A reload alone changes nothing that anybody asked for, but is never left out.
    changed = bool(actions)
    if module.check_mode or not changed:
        after = outlook(before, actions)
    else:
        apply(module, unit_name, found, actions)
        after = systemctl.show(module, unit_name)
    module.exit_json(
        changed=changed,
        unit=unit_name,
        actions=actions,
        reasons=reasons,
        state=after.get("ActiveState", "unknown"),
        restarts=engine_state.number(after, "NRestarts"),
        pending=module.check_mode and bool({"start", "restart"} & set(actions)),
        diff={"before": words(before), "after": words(outlook(after, actions))},
    )


if __name__ == "__main__":
    main()
