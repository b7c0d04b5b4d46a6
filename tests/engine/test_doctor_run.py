"""The doctor with the real ansible-runner, on hosts with local connections and on dead ones."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vllm_fleet.cli.main import main
from vllm_fleet.doctor.collect import Collector
from vllm_fleet.engine.scrub import Scrubber

Run = Callable[..., tuple[int, Any]]
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that examines an inventory; it gives the exit code and the document."""
    monkeypatch.setenv("VLLM_FLEET_STATE_HOME", str(tmp_path / "state"))

    def examine(hosts: dict[str, Any], *words: str, **variables: Any) -> tuple[int, Any]:
        whole = {"all": {"hosts": hosts, "vars": {"vllm_fleet": {"name": "demo"}, **variables}}}
        inventory = tmp_path / "inventory.json"
        inventory.write_text(json.dumps(whole), encoding="utf-8")
        code = main(["doctor", "-i", str(inventory), "--json", *words])
        return code, json.loads(capsys.readouterr().out)

    return examine


def codes(host: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in host["findings"]}


def test_br_07_a_dead_host_and_an_old_python_do_not_hold_up_the_others(
    run: Run, tmp_path: Path
) -> None:
    old = tmp_path / "python3.6"
    old.write_text("#!/bin/sh\necho 3.6.8\n", encoding="utf-8")
    old.chmod(0o755)
    hosts = {
        "dead": {"ansible_host": "127.0.0.1", "ansible_port": 9},
        "here": LOCAL,
        "old": {**LOCAL, "ansible_python_interpreter": str(old)},
    }
    code, told = run(hosts, "-v")
    assert (code, told["schema"]) == (4, "vllm-fleet/doctor/1")
    assert told["counts"]["examined"] == 2
    assert told["counts"]["unreachable"] == 1
    dead, here, wrong = (told["hosts"][name] for name in ("dead", "here", "old"))
    assert codes(dead) == {"port-refused"}
    assert here["status"] == "examined"
    assert here["facts"]["identity"]["kernel"]
    # Another interpreter of the host works, so that it is examined all the same.
    assert "python-wrong-one" in codes(wrong)
    assert wrong["facts"]["identity"]["kernel"]
    finding = next(row for row in wrong["findings"] if row["code"] == "python-wrong-one")
    assert "3.6.8" in finding["seen"]
    assert finding["page"] == "docs/doctor.md#python-wrong-one"


def test_a_broken_option_of_a_role_is_no_reason_not_to_look(run: Run) -> None:
    code, told = run(
        {"here": LOCAL}, hugepages_attempts="many", vllm_service_instances="{{ nothing }}"
    )
    assert code in (0, 2)
    assert told["hosts"]["here"]["status"] == "examined"
    assert "facts" not in told["hosts"]["here"]


def test_no_host_is_an_error_and_never_well(run: Run) -> None:
    code, told = run({"here": LOCAL}, "--limit", "nobody")
    assert (code, told["schema"]) == (1, "vllm-fleet/error/1")


def test_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VLLM_FLEET_STATE_HOME", str(tmp_path / "state"))
    inventory = tmp_path / "hosts.json"
    dead = {"ansible_host": "127.0.0.1", "ansible_port": 9}
    whole = {"all": {"hosts": {"dead": dead}, "vars": {"vllm_fleet": {"name": "demo"}}}}
    inventory.write_text(json.dumps(whole), encoding="utf-8")
    assert main(["doctor", "-i", str(inventory)]) == 4
    text = capsys.readouterr().out
    assert "dead (unreachable)" in text
    assert "port-refused: Nothing answers on the ssh port" in text
    assert "docs/doctor.md#port-refused" in text


def event(kind: str, host: str, result: Any) -> dict[str, Any]:
    data = {"task_action": "vllm_fleet.baremetal.host_findings", "host": host, "res": result}
    return {"event": kind, "event_data": data}


@pytest.mark.parametrize(
    ("kind", "result", "code"),
    [
        ("runner_on_ok", {"findings": [], "facts": {}}, 0),
        ("runner_on_ok", {"findings": [{"code": "disk-full"}], "facts": {}}, 2),
        ("runner_on_ok", {"changed": False}, 3),
        ("runner_on_ok", {}, 3),
        ("runner_on_failed", {"msg": "it broke"}, 3),
        ("runner_on_unreachable", {"msg": "refused"}, 4),
        ("runner_on_start", None, 3),
    ],
)
def test_what_a_result_comes_to(kind: str, result: Any, code: int) -> None:
    collector = Collector(["a"], Scrubber())
    collector.feed(event(kind, "a", result))
    assert collector.exit_code() == code


def test_secrets_are_masked_before_anybody_sees_them() -> None:
    collector = Collector(["a"], Scrubber(["hunter2hunter2"]))
    seen = [{"code": "log-port", "seen": "key hunter2hunter2 in a log"}]
    collector.feed(event("runner_on_ok", "a", {"findings": seen, "facts": {"x": "hunter2hunter2"}}))
    assert "hunter2" not in json.dumps(collector.hosts["a"].findings)
    assert "hunter2" not in json.dumps(collector.hosts["a"].facts)


def test_other_tasks_say_nothing_about_a_host() -> None:
    collector = Collector(["a"], Scrubber())
    collector.feed({"event": "runner_on_ok", "event_data": {"task_action": "debug", "host": "a"}})
    collector.feed({"event": "warning", "stdout": "beware"})
    assert collector.counts()["unknown"] == 1
    assert not collector.started
    assert collector.complaints == ["beware"]
