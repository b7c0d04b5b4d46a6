# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve on the controller which build a host needs, and whether it is there already."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.engine_key import platform
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import (
    build_plans,
    catalog,
    release_sets,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.planning_action import (
    PlanningAction,
)


class ActionModule(PlanningAction):
    """The action; see the module of the same name for its documentation."""

    SPEC: ClassVar[dict[str, Any]] = {
        "host": {"type": "dict", "required": True},
        "python": {"type": "dict", "required": True},
        "method": {"type": "str", "choices": ["source", "index"]},
        "target": {"type": "str", "choices": ["empty", "cpu", "cuda"]},
        "distribution": {"type": "str"},
        "version": {"type": "raw"},
        "release_set": {"type": "str"},
        "source": {"type": "str"},
        "source_sha256": {"type": "str"},
        "lock": {"type": "str"},
        "lock_sha256": {"type": "str"},
        "requirements": {"type": "list", "elements": "str", "default": []},
        "exclude": {"type": "list", "elements": "str"},
        "build_requirements": {"type": "list", "elements": "str"},
        "build_environment": {"type": "dict", "default": {}},
        "artifacts_dir": {"type": "str"},
    }

    def compute(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the build as C(build) (empty for a host without accelerator group)."""
        where = platform(options["host"], options["python"]["version"])
        groups = variables.get("group_names", [])
        sets = {name: catalog.load(name) for name in release_sets.PARTS}
        of_set = release_sets.engine_version(options["release_set"], groups, sets)
        chosen = {**options, "version": options["version"] or of_set}
        engine = build_plans.engine_of(catalog.load("vllm"), groups, chosen)
        build: dict[str, Any] = {}
        if engine is not None:
            build = build_plans.plan(engine, options["host"], options["python"], options)
        return {"build": build, "platform": where}
