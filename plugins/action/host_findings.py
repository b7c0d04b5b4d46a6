# SPDX-License-Identifier: GPL-3.0-or-later
"""Examine a host: probe it without Python, read it with Python, judge on the controller."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ansible import constants
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.release import __version__ as core
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import (
    doctor,
    doctor_contact,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.doctor_types import Scene, Seen

Data = dict[str, Any]
MODULE = "vllm_fleet.baremetal.host_findings"
WANTED = "ansible_python_interpreter"


class ActionModule(ActionBase):
    """The action; see the module of the same name for its documentation."""

    _supports_check_mode = True
    _supports_diff = False
    TRANSFERS_FILES = False
    SPEC: ClassVar[Data] = {
        "budget": {"type": "int", "default": 45},
        "instances": {"type": "list", "elements": "str"},
        "patterns": {"type": "dict", "default": {}},
    }

    def run(self, tmp: Any = None, task_vars: Data | None = None) -> Data:
        """Return the findings; a host that cannot be read gets those of the probe."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _result, options = self.validate_argument_spec(argument_spec=self.SPEC)
        wanted = _configured(variables)
        if options["instances"] is None:
            options["instances"] = self._instances(variables)
        scene = _scene(variables, options)
        probe = self._probe(wanted)
        seen = list(doctor_contact.judge(probe, wanted, scene))
        known = doctor_contact.usable(probe, scene)
        if probe["complete"] and not known:
            return _result_of(seen, {}, probe)
        return self._read(options, variables, probe, seen, scene, _choice(wanted, known))

    def _instances(self, variables: Data) -> list[str] | None:
        """Return the instances that the inventory gives the host; None where that is not clear."""
        try:
            value = self._templar.template(variables.get("vllm_service_instances"))
        except AnsibleError:
            return None
        if not isinstance(value, list):
            return None
        return [str(item["name"]) for item in value if isinstance(item, Mapping) and "name" in item]

    def _probe(self, wanted: str) -> Data:
        """Ask the host with nothing but a shell."""
        names = list(constants.config.get_config_value("INTERPRETER_PYTHON_FALLBACK"))
        words = ["/bin/sh", "-c", doctor_contact.PROBE, "probe", *([wanted] if wanted else [])]
        command = " ".join(map(shlex.quote, [*words, *names]))
        said = self._low_level_execute_command(command, sudoable=False)
        return doctor_contact.parse_probe(said["stdout"], said["stderr"])

    def _read(
        self,
        options: Data,
        variables: Data,
        probe: Data,
        seen: list[Seen],
        scene: Scene,
        interpreter: str,
    ) -> Data:
        """Run the module on the interpreter that can be used, and judge what it read."""
        arguments = {"budget": options["budget"], "patterns": doctor.patterns()}
        began = time.time()
        told = self._execute_module(
            module_name=MODULE,
            module_args=arguments,
            task_vars={**variables, WANTED: interpreter} if interpreter else variables,
        )
        if "facts" not in told:
            message = str(told.get("msg") or told.get("module_stderr") or "it said nothing")
            lost = [*seen, doctor_contact.broken_off(message)]
            return {**_result_of(lost, {}, probe), "failed": True, "msg": message}
        facts = told["facts"]
        timed = _timed(scene, time.time(), began)
        return _result_of([*seen, *doctor.examine(facts, timed)], facts, probe)


def _configured(variables: Data) -> str:
    """Return the interpreter that the inventory names; '' where Ansible is to discover one."""
    value = str(variables.get(WANTED) or constants.config.get_config_value("INTERPRETER_PYTHON"))
    return "" if value.startswith("auto") or "{{" in value else value


def _choice(wanted: str, usable: list[str]) -> str:
    """Return the interpreter to use: the wanted one where it works, or cannot be judged."""
    if wanted and (wanted in usable or not usable or " " in wanted):
        return wanted
    return usable[0] if usable else ""


def _scene(variables: Data, options: Data) -> Scene:
    named = options["instances"]
    return Scene(
        groups=tuple(variables.get("group_names", ())),
        instances=None if named is None else tuple(named),
        core=core,
        catalog=doctor.parts(),
    )


def _timed(scene: Scene, now: float, began: float) -> Scene:
    return Scene(
        scene.groups, scene.instances, scene.core, now, max(0.0, now - began), scene.catalog
    )


def _result_of(seen: list[Seen], facts: Data, probe: Data) -> Data:
    return {"changed": False, "findings": doctor.told(seen), "facts": facts, "probe": probe}
