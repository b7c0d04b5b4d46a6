"""Variables that a release of vllm-fleet removed: they would do nothing, in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vllm_fleet.errors import Problem
from vllm_fleet.inventory.scene import Scene
from vllm_fleet.inventory.specs import Finding


def removed(scene: Scene, rows: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the removed variables that an inventory still has, with the release and what to write.

    ``rows`` is the content of catalog/removed_variables.yml.
    """
    for row in rows["variables"]:
        hosts = scene.holders(row["name"])
        if hosts:
            message = f"was removed in {row['removed']}: {row['reason']}"
            hint = f"today: {row['today']}" if row.get("today") else "remove the line"
            yield scene.problem(row["name"], hosts, Finding((), message, hint))
