# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve on the controller which Python interpreter a host gets."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import (
    build_plans,
    catalog,
    python_plans,
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
    }

    def compute(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the interpreter's plan as C(python)."""
        wanted = {
            "version": options["engine_version"],
            "distribution": options["engine_distribution"],
        }
        engine = build_plans.engine_of(
            catalog.load("vllm"), variables.get("group_names", []), wanted
        )
        plan = python_plans.plan(catalog.load("python"), options["host"], options, engine)
        return {"python": plan}
