# SPDX-License-Identifier: GPL-3.0-or-later
"""Match what serving hosts want with the builders of this run."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import build_plans
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.planning_action import (
    PlanningAction,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import PlanError

Data = dict[str, Any]
FACT = "vllm_build_plan"


class ActionModule(PlanningAction):
    """The action; see the module of the same name for its documentation."""

    SPEC: ClassVar[Data] = {"group": {"type": "str", "default": "builders"}}

    def compute(self, options: Data, variables: Data) -> Data:
        """Return the builds of this host as C(builds), and who builds for it as C(builder)."""
        me, groups = variables["inventory_hostname"], variables["groups"]
        known = _facts(variables["hostvars"], groups["all"])
        members = groups.get(options["group"], [])
        builders = {name: known[name]["platform"] for name in members if name in known}
        wanted = {name: fact["build"] for name, fact in known.items() if fact["build"]}
        builder = _builder(me, wanted, builders, [m for m in members if m not in known])
        builds = build_plans.queue(me, wanted, builders) if me in builders else []
        return {"builds": builds, "builder": builder}


def _facts(hostvars: Any, names: list[str]) -> Data:
    """Return the plan of each host that made one in this run."""
    found = {name: hostvars[name].get(FACT) for name in names}
    return {name: fact for name, fact in found.items() if fact}


def _builder(me: str, wanted: Data, builders: Data, absent: list[str]) -> str:
    """Return who builds for this host; empty where nothing has to be built."""
    build = wanted.get(me)
    if build is None or build["artifact"]["present"]:
        return ""
    builder = build_plans.builder_of(build, builders)
    if builder is None:
        raise PlanError(build_plans.missing(me, build, builders, absent))
    return builder
