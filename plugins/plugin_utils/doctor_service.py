# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about instances and releases: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.doctor_types import (
    Facts,
    Rule,
    Scene,
    Seen,
    of_kind,
    some,
)

ENABLED = ("enabled", "enabled-runtime")


def units(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Every instance runs, stays up, and runs what its files say."""
    for row in facts["units"]:
        name = row["name"]
        if not name.startswith("vllm@"):
            continue
        state = _state(row)
        if state:
            yield Seen(*state, name)
        stale = row.get("newer_files", [])
        if stale or (row["reload"] and row["active"] == "active"):
            why = f"newer than the process: {some(stale)}" if stale else "systemd has to reload"
            yield Seen("service-stale", f"{name}: {why}", name)
        for code, line in row.get("journal", {}).items():
            yield Seen(code, f"{name}: {line}", name)


def _state(row: dict[str, object]) -> tuple[str, str] | None:
    """Return the code for an instance that does not run, and what was seen."""
    name, active = row["name"], row["active"]
    if row["load"] in ("masked", "error", "bad-setting"):
        return "service-load-error", f"{name} is {row['load']} {row['load_error']}".strip()
    if active == "failed":
        return "service-failed", f"{name}: {row['result']}, exit status {row['status']}"
    if row["sub"] == "auto-restart" or (active == "activating" and row["restarts"]):
        return "service-restarting", f"{name} was started again {row['restarts']} times"
    if active == "inactive" and row["enabled"] in ENABLED:
        return "service-stopped", f"{name} is enabled and inactive"
    return None


def instances(facts: Facts, scene: Scene) -> Iterator[Seen]:
    """Every instance of the host is wanted, has its release, and knows its accelerator's paths."""
    releases = {row["id"] for row in facts["releases"]}
    for row in facts["instances"]:
        name = row["name"]
        if scene.instances is not None and name not in scene.instances:
            wanted = some(list(scene.instances)) or "none"
            yield Seen("service-orphan", f"{name}; the inventory has: {wanted}", name)
        if row["release"] and row["release"] not in releases:
            yield Seen("service-release-missing", f"{name}: {row['release']}", name)
        installed = facts["hardware"]["ascend"]["driver"]["state"] == "installed"
        if of_kind(facts, "npu") and installed and not row["ascend_environment"]:
            seen = f"{name}: its environment file names nothing below /usr/local/Ascend"
            yield Seen("service-environment", seen, name)


def releases(facts: Facts, _scene: Scene) -> Iterator[Seen]:
    """Every release is complete."""
    for row in facts["releases"]:
        if not row["complete"]:
            yield Seen("release-incomplete", f"/opt/vllm/releases/{row['id']}", row["id"])


RULES: tuple[Rule, ...] = (units, instances, releases)
