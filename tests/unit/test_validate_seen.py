"""What runs saw of hosts settles what the inventory leaves open; contradictions are told."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from vllm_fleet.engine.eventlog import Sightings, slim
from vllm_fleet.inventory.check import Report
from vllm_fleet.inventory.preflight import Wanted, inspect
from vllm_fleet.state.paths import database, fleet_dir
from vllm_fleet.state.store import SCHEMA, last_seen, open_store

HOSTS = """\
all:
  vars:
    vllm_fleet: {{name: seen}}
    ansible_python_interpreter: /usr/bin/python3
    {extra}
  children:
    ascend: {{hosts: {{n1: }}}}
    builders: {{hosts: {{n1: }}}}
    serving: {{children: {{ascend: }}}}
"""
IDENTITY = {
    "os": {"key": "openEuler-22.03-SP4"},
    "arch": "aarch64",
    "glibc": "2.34",
    "page_size": 4096,
    "python": {"version": "3.9.9"},
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FLEET_STATE_HOME", str(tmp_path / "state"))


def see(**changes: Any) -> None:
    """Write down what a run saw of n1."""
    with open_store(database(fleet_dir("seen"))) as store:
        store.see({"n1": IDENTITY | changes})


def report(tmp_path: Path, extra: str = "") -> Report:
    """Return what validate says of the inventory."""
    (tmp_path / "hosts.yml").write_text(HOSTS.format(extra=extra))
    return inspect(Wanted((str(tmp_path / "hosts.yml"),))).report


def left_open(found: Report) -> set[str]:
    return {str(pair["left"]) for pair in found.settled_at_scan}


def test_a_run_settles_system_and_python(tmp_path: Path) -> None:
    before = left_open(report(tmp_path))
    assert {"the operating system", "glibc", "Python of the host"} <= before
    see()
    found = report(tmp_path)
    assert not {"the operating system", "glibc", "Python of the host"} & left_open(found)
    # What is wrong with the system that was seen is told before a host is touched again.
    assert any("has no packages of Python 3.11" in problem.message for problem in found.problems)


def test_what_the_inventory_says_wins_and_the_difference_is_told(tmp_path: Path) -> None:
    see()
    found = report(tmp_path, "vllm_fleet_platform: {os: openEuler-24.03-SP1}")
    words = [warning.message for warning in found.warnings]
    assert (
        "vllm_fleet_platform.os is openEuler-24.03-SP1, and a run last saw openEuler-22.03-SP4"
        in words
    )
    assert found.sets[0]["platform"]["os"] == "openEuler-24.03-SP1"


def test_a_bad_pair_from_a_run_says_how_to_correct_it(tmp_path: Path) -> None:
    see(glibc="2.28", os={"key": "kylin-V10-SP3"}, python={"version": "3.11.2"})
    found = report(tmp_path, "vllm_build_requirements: [vllm-ascend==0.23.0]")
    hints = [problem.hint for problem in found.problems if "glibc" in problem.message]
    assert hints
    assert "as a run last saw it" in hints[0]


def test_the_identity_of_a_host_is_the_only_fact_that_is_kept() -> None:
    facts = {"vllm_fleet_host": IDENTITY, "env": {"TOKEN": "x"}}
    result = {"changed": False, "ansible_facts": facts}
    event = slim({"event": "runner_on_ok", "event_data": {"host": "n1", "res": result}})
    seen = Sightings()
    seen.feed(event)
    assert seen.hosts == {"n1": IDENTITY}
    assert "TOKEN" not in str(event)


def test_no_database_is_made_by_looking(tmp_path: Path) -> None:
    assert last_seen(tmp_path / "state/seen/fleet.sqlite") == {}
    report(tmp_path)
    assert not (tmp_path / "state").exists()


def test_a_database_of_the_first_schema_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with sqlite3.connect(path) as db:
        db.executescript(f"{SCHEMA} PRAGMA user_version = 1;")
    assert last_seen(path) == {}
