"""``apply`` with the real ansible-runner on local connections."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from vllm_fleet.cli import run as cli_run
from vllm_fleet.state.lock import fleet_lock
from vllm_fleet.state.paths import fleet_dir


def statuses(document: dict[str, Any]) -> dict[str, str]:
    return {name: host["status"] for name, host in document["hosts"].items()}


def test_first_run_changes_and_the_second_does_not(fleet: Any) -> None:
    fleet.add("a").add("b")
    code, first = fleet.json("apply")
    assert (code, statuses(first)) == (0, {"a": "changed", "b": "changed"})
    assert {change["task"] for change in first["changes"]} == {"Write the file"}
    code, second = fleet.json("apply")
    assert (code, statuses(second), second["changes"]) == (0, {"a": "ok", "b": "ok"}, [])
    fine = {"status": "ok", "changed": 0}
    assert second["hosts"]["a"]["stages"] == {"os_baseline": fine, "hugepages": fine}
    assert first["hosts"]["a"]["changed"] == 1


def test_check_and_diff_predict_and_touch_nothing(fleet: Any) -> None:
    fleet.add("a")
    code, out, _ = fleet.run("apply", "--check", "--diff")
    assert code == 0
    assert "would change:" in out
    assert "+a" in out
    assert not (fleet.root / "a.txt").exists()


def test_a_failed_host_is_3_and_failures_are_grouped(fleet: Any) -> None:
    for name in ("a", "b"):
        fleet.add(name, os_baseline_fail=True)
    fleet.add("c")
    code, out, _ = fleet.run("apply")
    assert code == 3
    assert "failed on 2 hosts: os_baseline: Fail" in out
    assert "disk 3 of a is full" in out
    assert "hosts: a, b" in out
    assert "0 ok, 1 changed, 2 failed, 0 unreachable, 0 unknown" in out


def test_an_unreachable_host_is_4(fleet: Any) -> None:
    fleet.add("a").add_unreachable("z")
    code, document = fleet.json("apply")
    assert (code, statuses(document)) == (4, {"a": "changed", "z": "unreachable"})


def test_failed_wins_over_unreachable(fleet: Any) -> None:
    fleet.add("a", os_baseline_fail=True).add_unreachable("z")
    assert fleet.json("apply")[0] == 3


def test_BR_64_a_result_that_is_too_large_is_unknown(fleet: Any) -> None:
    fleet.add("a").add("b", os_baseline_big=True)
    code, document = fleet.json("apply")
    assert (code, statuses(document)) == (3, {"a": "changed", "b": "unknown"})


def test_a_locked_fleet_is_7_and_names_the_holder(fleet: Any) -> None:
    fleet.add("a")
    with fleet_lock(fleet_dir("demo"), "20260101T000000-abcdef"):
        code, _, err = fleet.run("apply")
    assert code == 7
    assert "20260101T000000-abcdef" in err
    assert not (fleet.root / "a.txt").exists()


def test_an_invalid_inventory_is_1_and_nothing_is_touched(fleet: Any) -> None:
    fleet.add("a", os_baseline_sleep="long")
    code, document = fleet.json("apply")
    assert code == 1
    assert "os_baseline_sleep must be a whole number" in document["problems"][0]["message"]
    assert not (fleet.root / "a.txt").exists()
    assert not fleet.state.exists()


def test_a_playbook_that_ansible_refuses_is_1_with_its_words(fleet: Any) -> None:
    site = fleet.root / "collection/playbooks/site.yml"
    site.write_text(site.read_text() + "\n- name: Broken\n  hosts: serving\n  nonsense: true\n")
    fleet.add("a")
    code, out, _ = fleet.run("apply")
    assert code == 1
    assert "nothing was touched" in out
    assert "nonsense" in out


def test_hosts_that_no_play_touches_are_1(fleet: Any) -> None:
    site = fleet.root / "collection/playbooks/site.yml"
    site.write_text(site.read_text().replace("hosts: serving", "hosts: nvidia"))
    fleet.add("a")
    code, out, _ = fleet.run("apply")
    assert code == 1
    assert "Ansible stopped before the first task" in out


def test_only_the_roles_that_were_named_run(fleet: Any) -> None:
    fleet.add("a")
    code, document = fleet.json("apply", "--roles", "hugepages")
    assert code == 0
    assert list(document["hosts"]["a"]["stages"]) == ["hugepages"]
    assert not (fleet.root / "a.txt").exists()


def test_an_unknown_role_is_1_with_a_hint(fleet: Any) -> None:
    fleet.add("a")
    code, _, err = fleet.run("apply", "--roles", "hugepage")
    assert code == 1
    assert "did you mean hugepages?" in err


def test_limit_keeps_to_its_hosts(fleet: Any) -> None:
    fleet.add("a").add("b")
    code, document = fleet.json("apply", "--limit", "b")
    assert (code, statuses(document)) == (0, {"b": "changed"})
    assert not (fleet.root / "a.txt").exists()


def test_events_are_written_while_it_runs(fleet: Any) -> None:
    fleet.add("a")
    events = fleet.root / "events.jsonl"
    assert fleet.run("apply", "--events", str(events))[0] == 0
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    assert {line["schema"] for line in lines} == {"vllm-fleet/event/1"}
    assert [line["stage"] for line in lines if line["kind"] == "stage"] == [
        "os_baseline",
        "hugepages",
    ]
    assert lines[-1]["kind"] == "end"
    assert lines[-1]["counts"]["changed"] == 1


def test_an_events_file_that_cannot_be_written_is_1(fleet: Any) -> None:
    fleet.add("a")
    assert fleet.run("apply", "--events", "/nowhere/events")[0] == 1


def test_status_and_history_tell_what_happened(fleet: Any) -> None:
    fleet.add("a").add("b", os_baseline_fail=True)
    fleet.run("apply")
    fleet.add("c")
    code, status = fleet.json("status")
    assert code == 0
    assert statuses(status) == {"a": "changed", "b": "failed", "c": "never"}
    assert status["hosts"]["b"]["message"] == "disk 3 of b is full"
    _, history = fleet.json("history")
    assert [run["exit_code"] for run in history["runs"]] == [3]
    assert history["runs"][0]["counts"]["failed"] == 1
    assert "b     failed" in fleet.run("status")[1]
    assert "apply" in fleet.run("history")[1]


def test_check_runs_do_not_count_for_status(fleet: Any) -> None:
    fleet.add("a")
    fleet.run("apply", "--check")
    assert statuses(fleet.json("status")[1]) == {"a": "never"}


def test_a_handler_that_raises_is_told_and_the_run_goes_on(
    fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(cli_run.EventLog, "write", fail)
    fleet.add("a")
    code, _, err = fleet.run("apply")
    assert code == 0
    assert "no space left" in err


def test_a_judge_that_raises_is_70(fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise KeyError("host")

    monkeypatch.setattr(cli_run.Judge, "_runner_on_ok", fail)
    fleet.add("a")
    assert fleet.run("apply")[0] == 70


def test_the_log_holds_every_event(fleet: Any) -> None:
    fleet.add("a")
    _, document = fleet.json("apply")
    log = Path(document["log"])
    assert log.stat().st_mode & 0o777 == 0o600
    with gzip.open(log, "rt") as lines:
        events = [json.loads(line) for line in lines]
    assert [event["counter"] for event in events] == list(range(1, len(events) + 1))


def test_a_database_from_a_newer_version_is_left_alone(fleet: Any) -> None:
    fleet.add("a")
    fleet.run("apply")
    with sqlite3.connect(fleet.state / "demo/fleet.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    code, _, err = fleet.run("apply")
    assert code == 1
    assert "99" in err
