# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve on the controller which Python interpreter a host gets."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import (
    build_plans,
    catalog,
    python_plans,
    release_sets,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.planning_action import (
    PlanningAction,
)


class ActionModule(PlanningAction):
    """The action; see the module of the same name for its documentation."""

    SPEC: ClassVar[dict[str, Any]] = {
        "host": {"type": "dict", "required": True},
        "source": {"type": "str", "choices": ["distribution", "archive"], "required": True},
        "version": {"type": "raw"},
        "archive": {"type": "str"},
        "archive_sha256": {"type": "str"},
        "root": {"type": "path", "default": "/opt/vllm/python"},
        "engine_version": {"type": "raw"},
        "engine_distribution": {"type": "str"},
        "release_set": {"type": "str"},
    }

    def compute(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the interpreter's plan as C(python)."""
        groups = variables.get("group_names", [])
        sets = {name: catalog.load(name) for name in release_sets.PARTS}
        of_set = release_sets.engine_version(options["release_set"], groups, sets)
        wanted = {
            "version": options["engine_version"] or of_set,
            "distribution": options["engine_distribution"],
        }
        engine = build_plans.engine_of(catalog.load("vllm"), groups, wanted)
        plan = python_plans.plan(catalog.load("python"), options["host"], options, engine)
        return {"python": plan}
