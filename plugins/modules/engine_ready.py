#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait on the host until an engine instance really answers, or say at once why it never will."""

DOCUMENTATION = r"""
module: engine_ready
short_description: Wait until an engine instance answers a completion and stays up
version_added: 0.1.0
description:
  - Waits on the managed host, in one round trip, until C(vllm@NAME.service) is active, C(/health)
    answers 200, a completion of one token works, and the process has been up for O(steady)
    seconds without a restart.
  - Fails at once, with the last lines of the journal, when the unit failed or systemd restarts
    it, and when another process holds the port.
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  port:
    description: Port on which the engine listens.
    type: int
    required: true
  address:
    description: Address on which the engine listens. A wildcard address is reached over loopback.
    type: str
    default: 127.0.0.1
  model:
    description: Name under which the model must be served. Left out, the first one that the
      engine names is asked.
    type: str
    default: ''
  key_file:
    description: Environment file on the host with C(VLLM_API_KEY); without it no key is sent.
    type: path
  deadline:
    description: Seconds after which an engine that does not answer counts as failed.
    type: int
    default: 900
  steady:
    description: Seconds that the process must have been up without a restart.
    type: int
    default: 10
  restarts:
    description:
      - Restart counter of the unit when it was started, as M(vllm_fleet.baremetal.engine_instance)
        returns it. A higher one means that the engine died. Left out, the counter at the first
        look is taken.
    type: int
  pending:
    description: Whether the instance would be started or restarted first (check mode).
    type: bool
    default: false
attributes:
  check_mode:
    support: partial
    description: Predicts what it can.
    details: Looks once at an instance that runs and would not be restarted. Otherwise nothing can
      be predicted, and the task is skipped and says so.
  diff_mode:
    support: none
    description: It changes nothing.
  idempotent:
    support: full
    description: It changes nothing.
author:
  - The vllm-fleet developers (@vllm-fleet)
seealso:
  - module: vllm_fleet.baremetal.engine_instance
"""

EXAMPLES = r"""
- name: Wait until the instance answers
  vllm_fleet.baremetal.engine_ready:
    name: r1
    port: 8000
    model: deepseek-r1
    deadline: 1800
"""

RETURN = r"""
unit:
  description: The unit of the instance.
  returned: always
  type: str
  sample: vllm@r1.service
seconds:
  description: Seconds that the task waited.
  returned: success
  type: float
  sample: 64.8
models:
  description: Names under which the engine serves its model.
  returned: success
  type: list
  elements: str
  sample: [deepseek-r1]
answer:
  description: Text of the one-token completion.
  returned: success
  type: str
  sample: " 2"
cause:
  description: Why the instance is not ready.
  returned: failure
  type: str
  sample: restarting
journal:
  description: Last lines of the unit's journal.
  returned: failure
  type: list
  elements: str
  sample: ["ValueError: unrecognized arguments: --no-such-flag"]
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    engine_probe,
    engine_state,
    listeners,
    systemctl,
    systemd_text,
)

PAUSE = 1.0


class Wait(object):
    """One wait for one instance: its unit, where it is asked, and what was seen last."""

    def __init__(self, module):
        self.module = module
        self.unit_name = engine_state.unit_name(module.params["name"])
        key = read_key(module.params["key_file"])
        params = module.params
        self.engine = engine_probe.Engine(params["address"], params["port"], key)
        self.restarts = module.params["restarts"]
        self.begun = time.monotonic()
        self.last = "nothing was seen"

    def look(self):
        """Return {models, answer} when the instance is ready, else None; fail where it is down."""
        unit = systemctl.show(self.module, self.unit_name)
        if self.restarts is None:
            self.restarts = engine_state.number(unit, "NRestarts")
        self.fail_if_port_is_taken()
        self.fail_if_down(unit)
        seen = self.ask()
        if seen is None:
            return None
        # Systemd is asked again: an engine that died while it answered is not ready.
        return seen if self.is_steady(systemctl.show(self.module, self.unit_name)) else None

    def ask(self):
        """Return what the engine answers; None where it does not answer yet."""
        try:
            models, answer = self.engine.ask(self.module.params["model"])
        except engine_probe.NotReady as why:
            self.last = str(why)
            return None
        except engine_probe.Refused as why:
            return self.fail("refused", str(why))
        return {"models": models, "answer": answer}

    def is_steady(self, unit):
        """Tell whether the process has been up long enough without a restart."""
        self.fail_if_down(unit)
        up = engine_state.seconds_since(unit, "ExecMainStartTimestampMonotonic", time.monotonic())
        self.last = "it answers, but has been up for %.0f seconds only" % (up or 0)
        steady = up is not None and up >= self.module.params["steady"]
        return steady and unit.get("ActiveState") == "active"

    def fail_if_down(self, unit):
        """Fail when the unit failed, is gone, or was restarted."""
        why = engine_state.down_reason(unit, self.restarts)
        if why:
            cause = "restarting" if "restarts it" in why else "unit_down"
            self.fail(cause, why)

    def fail_if_port_is_taken(self):
        """Fail when somebody else listens on the instance's port."""
        port = self.module.params["port"]
        holders = listeners.listeners(port)
        if holders and not any(self.unit_name in holder["units"] for holder in holders):
            who = ", ".join(listeners.words(holder) for holder in holders)
            self.fail("port_in_use", "port %d is held by %s" % (port, who))

    def fail(self, cause, why):
        """End the task with the cause and the last lines of the journal."""
        lines = systemctl.journal(self.module, self.unit_name)
        tail = systemctl.journal_words(lines)
        self.module.fail_json(
            msg="%s is not ready: %s%s" % (self.unit_name, why, tail),
            unit=self.unit_name,
            cause=cause,
            journal=lines,
        )

    def until_ready(self):
        """Look again and again until the instance is ready; fail at the deadline."""
        deadline = self.module.params["deadline"]
        seen = self.look()
        while seen is None:
            if time.monotonic() - self.begun > deadline:
                self.fail("deadline", "not within %d seconds; last: %s" % (deadline, self.last))
            time.sleep(PAUSE)
            seen = self.look()
        return seen


def read_key(path):
    """Return the key from an environment file of the instance; empty where there is none."""
    if not path or not os.path.exists(path):
        return ""
    with open(path, "rb") as stream:
        text = stream.read().decode("utf-8", "replace")
    return systemd_text.parse_environment_file(text).get("VLLM_API_KEY", "")


def skip(module, unit_name, why):
    """End a task of check mode that cannot predict."""
    module.exit_json(skipped=True, unit=unit_name, msg="cannot be predicted: %s" % why)


def look_once(module, unit_name):
    """Check mode: look at a running instance, or say that nothing can be predicted."""
    if module.params["pending"]:
        skip(module, unit_name, "%s would be started or restarted first" % unit_name)
    unit = systemctl.show(module, unit_name)
    if unit.get("ActiveState") != "active":
        skip(module, unit_name, "%s is %s" % (unit_name, unit.get("ActiveState", "unknown")))
    wait = Wait(module)
    seen = wait.look()
    if seen is None:
        wait.fail("no_answer", wait.last)
    return wait, seen


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "address": {"type": "str", "default": "127.0.0.1"},
            "model": {"type": "str", "default": ""},
            "key_file": {"type": "path", "no_log": False},
            "deadline": {"type": "int", "default": 900},
            "steady": {"type": "int", "default": 10},
            "restarts": {"type": "int"},
            "pending": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        wait, seen = look_once(module, engine_state.unit_name(module.params["name"]))
    else:
        wait = Wait(module)
        seen = wait.until_ready()
    module.exit_json(
        changed=False,
        unit=wait.unit_name,
        seconds=round(time.monotonic() - wait.begun, 1),
        models=seen["models"],
        answer=seen["answer"],
    )


if __name__ == "__main__":
    main()
