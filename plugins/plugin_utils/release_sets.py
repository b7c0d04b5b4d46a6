# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engine a release set means, so that an inventory says one word and the roles follow it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import resolver
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import PlanError

PARTS = ("release_sets", "ascend")


def engine_version(name: str | None, groups: Iterable[str], catalog: Mapping[str, Any]) -> Any:
    """Return the version of vLLM of a release set; None without one, or for another accelerator.

    ``catalog`` holds release_sets and ascend.
    """
    if not name:
        return None
    try:
        row = resolver.release_set(str(name), catalog)
    except resolver.ResolveError as error:
        raise PlanError(str(error)) from error
    if row["accelerator"] not in groups:
        return None
    wanted = row["wanted"]
    return wanted.get("vllm") or _of_plugin(wanted["vllm_ascend"], catalog)


def _of_plugin(version: str, catalog: Mapping[str, Any]) -> Any:
    """Return the vLLM that a release of vllm-ascend belongs to."""
    rows = catalog["ascend"]["releases"]
    return next((row["vllm"] for row in rows if row["vllm_ascend"] == version), None)
