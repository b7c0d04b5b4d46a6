# SPDX-License-Identifier: GPL-3.0-or-later
"""What the planning actions share: they compute on the controller and contact no host."""

from __future__ import annotations

from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import PlanError


class PlanningAction(ActionBase):
    """An action whose ``compute`` returns the result, or raises PlanError with what to do."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = False
    TRANSFERS_FILES = False
    SPEC: ClassVar[dict[str, Any]] = {}

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Validate the options and compute; a PlanError becomes the failure of this host."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _result, options = self.validate_argument_spec(argument_spec=self.SPEC)
        try:
            return {"changed": False, **self.compute(options, variables)}
        except PlanError as error:
            host = variables.get("inventory_hostname", "?")
            return {"failed": True, "changed": False, "msg": f"host {host}: {error}"}

    def compute(self, options: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the action."""
        raise NotImplementedError
