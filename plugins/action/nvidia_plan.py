# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve on the controller which NVIDIA driver or which CUDA toolkits a host gets."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, ClassVar

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog, nvidia_plans
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.planning_action import (
    PlanningAction,
)

PARTS = ("nvidia", "nvidia_packages", "operating_systems")


class ActionModule(PlanningAction):
    """The action; see the module of the same name for its documentation."""

    SPEC: ClassVar[dict[str, Any]] = {
        "host": {"type": "dict", "required": True},
        "seen": {"type": "dict", "required": True},
        "source": {"type": "str", "choices": ["auto", "repository", "runfile"], "default": "auto"},
        "answered": {"type": "int"},
        "repository_url": {"type": "str"},
        "version": {"type": "raw"},
        "modules": {"type": "str", "choices": ["auto", "open", "proprietary"], "default": "auto"},
        "build": {"type": "str", "choices": ["dkms", "once", "precompiled"], "default": "dkms"},
        "runfile": {"type": "dict", "default": {}},
        "fabric_manager": {"type": "str", "choices": ["auto", "on", "off"], "default": "auto"},
        "fabric_manager_package": {"type": "str"},
        "ended_branch": {"type": "str", "choices": ["warn", "refuse"], "default": "warn"},
        "hold": {"type": "bool", "default": True},
        "toolkits": {"type": "list", "elements": "dict"},
        "default": {"type": "str"},
        "root": {"type": "path", "default": "/usr/local"},
    }

    def compute(self, options: dict[str, Any], _variables: dict[str, Any]) -> dict[str, Any]:
        """Return the plan as C(driver) or C(cuda)."""
        catalogs = {name: catalog.load(name) for name in PARTS}
        host, seen = options["host"], options["seen"]
        if options["toolkits"] is not None:
            wanted = {**options, "driver": seen["installed"]}
            return {"cuda": nvidia_plans.toolkits(catalogs, host, wanted)}
        today = datetime.now(timezone.utc).date()
        plan = nvidia_plans.driver(catalogs, host, seen, options, today)
        return {"driver": plan, "warnings": plan["warnings"]}
