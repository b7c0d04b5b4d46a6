# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan on the controller what has to be done to a host's Ascend software."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import (
    ascend_plans,
    catalog,
    os_support,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.planning_action import (
    PlanningAction,
)


class ActionModule(PlanningAction):
    """The action; see the module of the same name for its documentation."""

    SPEC: ClassVar[dict[str, Any]] = {
        "product": {"type": "str", "choices": ["driver", "cann"], "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "packages": {"type": "list", "elements": "dict", "default": []},
        "found": {"type": "dict", "required": True},
    }

    def compute(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the plan."""
        found = options["found"]
        if found["wrong_kinds"]:
            raise ascend_plans.PlanError(
                f"{', '.join(found['wrong_kinds'])} is a directory and must be a file (a mount "
                "into a container makes such): remove it"
            )
        plan = _absent if options["state"] == "absent" else _present
        host = variables["ansible_facts"]["vllm_fleet_host"]
        return {"kernel_headers": _headers(host), **plan(options, found)}


def _headers(host: dict[str, Any]) -> str:
    """Return the package with the headers of the host's kernel."""
    rows = catalog.load("operating_systems")["operating_systems"]
    row = next((r for r in rows if r["key"] == host["os"]["key"]), {})
    return os_support.kernel_headers(host["kernel"], host["os"]["family"], row)


def _absent(options: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    if options["product"] == "driver":
        steps = ascend_plans.removal(found, ("firmware", "driver"))
    else:
        steps = list(ascend_plans.cann_removal(found))
    return {"steps": steps, "targets": {}, "set_env": []}


def _present(options: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    ascend, product = catalog.load("ascend"), options["product"]
    needs_chip = options["packages"] and (product == "driver" or found["chips"])
    chip = ascend_plans.family(ascend, found["chips"]) if needs_chip else None
    sums = catalog.load("artifacts/ascend")
    wanted = ascend_plans.packages(product, options["packages"], chip, found["machine"], sums)
    if product == "driver" and not wanted:
        return {"steps": [], "targets": {}, "set_env": []}
    targets = {part: row["version"] for part, row in wanted.items()}
    if product == "driver":
        steps = ascend_plans.driver_steps(found, wanted)
        return {"steps": steps, "targets": targets, "set_env": []}
    steps = ascend_plans.cann_steps(found, wanted, ascend) if wanted else []
    return {"steps": steps, "targets": targets, "set_env": ascend_plans.set_env(found, wanted)}
