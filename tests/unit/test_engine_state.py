"""When an instance is started, restarted or left alone; when it counts as down."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import engine_state

NOW, MONOTONIC = 1_000_000.0, 5_000.0
ENV = "/etc/vllm-fleet/instances/r1.env"
RUNNING = {
    "LoadState": "loaded",
    "UnitFileState": "enabled",
    "ActiveState": "active",
    "SubState": "running",
    "NeedDaemonReload": "no",
    "NRestarts": "0",
    # The process is 1000 seconds old.
    "ExecMainStartTimestampMonotonic": "4000000000",
}
SHOWN = """\
EnvironmentFiles=/etc/vllm-fleet/instances/r1.env (ignore_errors=no)
EnvironmentFiles=/etc/vllm-fleet/secrets/r1.env (ignore_errors=yes)
FragmentPath=/etc/systemd/system/vllm@.service
DropInPaths=/run/systemd/system/service.d/zz.conf /etc/systemd/system/vllm@r1.service.d/10-x.conf
LoadError=
"""


def decide(unit: dict[str, str], changed: float = NOW - 2000, **more: Any) -> Any:
    return engine_state.decide({**RUNNING, **unit}, {ENV: changed}, NOW, MONOTONIC, **more)


def test_files_in_use_leave_out_what_generators_write() -> None:
    assert engine_state.files_in_use(engine_state.parse_show(SHOWN)) == [
        "/etc/systemd/system/vllm@.service",
        "/etc/systemd/system/vllm@r1.service.d/10-x.conf",
        "/etc/vllm-fleet/instances/r1.env",
        "/etc/vllm-fleet/secrets/r1.env",
    ]


def test_an_instance_with_its_present_files_is_left_alone() -> None:
    assert decide({}) == ([], [])


@pytest.mark.parametrize(
    ("unit", "changed", "actions", "reason"),
    [
        ({}, NOW - 900, ["restart"], "is newer than the process"),
        ({"NeedDaemonReload": "yes"}, 0.0, ["daemon-reload", "restart"], "not read"),
        ({"UnitFileState": "disabled"}, 0.0, ["enable"], "not enabled"),
        ({"ActiveState": "inactive"}, 0.0, ["start"], "it was inactive"),
        ({"ActiveState": "failed", "Result": "start-limit-hit"}, 0.0, ["start"], "start-limit-hit"),
        ({"ActiveState": "activating"}, NOW - 1, ["restart"], "newer"),
        ({"LoadState": "not-found"}, NOW, ["enable", "start"], "not there yet"),
    ],
)
def test_what_brings_an_instance_up(
    unit: dict[str, str], changed: float, actions: list[str], reason: str
) -> None:
    found, reasons = decide(unit, changed)
    assert found == actions
    assert any(reason in text for text in reasons)


def test_a_systemd_that_restarts_by_itself_is_left_to_it() -> None:
    assert decide({"ActiveState": "activating", "SubState": "auto-restart"}) == ([], [])


def test_a_missing_file_is_no_reason_to_restart() -> None:
    assert engine_state.decide(RUNNING, {ENV: None}, NOW, MONOTONIC) == ([], [])


def test_check_mode_counts_what_an_earlier_task_would_change() -> None:
    assert decide({}, predicted=[ENV]) == (["restart"], [f"{ENV} would change"])


@pytest.mark.parametrize(
    ("unit", "actions"),
    [
        ({}, ["stop", "disable"]),
        ({"ActiveState": "failed"}, ["disable"]),
        ({"ActiveState": "inactive", "UnitFileState": "disabled"}, []),
        ({"LoadState": "not-found", "ActiveState": "inactive", "UnitFileState": ""}, []),
    ],
)
def test_what_takes_an_instance_down(unit: dict[str, str], actions: list[str]) -> None:
    assert decide(unit, state="stopped")[0] == actions
    assert decide(unit, state="absent")[0] == actions


@pytest.mark.parametrize(
    ("unit", "restarts", "why"),
    [
        ({}, 0, None),
        ({"NRestarts": "3"}, 3, None),
        ({"ActiveState": "activating", "SubState": "start"}, 0, None),
        ({"NRestarts": "4"}, 3, "restart counter 4, was 3"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, 0, "restarts it"),
        ({"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "2"}, 0, "status 2"),
        ({"ActiveState": "inactive"}, 0, "it is inactive"),
    ],
)
def test_when_an_instance_counts_as_down(
    unit: dict[str, str], restarts: int, why: str | None
) -> None:
    found = engine_state.down_reason({**RUNNING, **unit}, restarts)
    assert found is None if why is None else why in str(found)


@pytest.mark.parametrize("state", ["masked", "error", "bad-setting"])
def test_a_unit_that_systemd_cannot_use_is_named(state: str) -> None:
    unit = {"LoadState": state, "LoadError": "it says so"}
    assert "vllm@r1.service" in str(engine_state.load_problem(unit, "vllm@r1.service"))
    assert engine_state.load_problem(RUNNING, "vllm@r1.service") is None
