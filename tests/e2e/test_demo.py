"""The demo, end to end: bare lab hosts, the real engine, a second apply that changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import ROOT, ansible_playbook, environment

pytestmark = [pytest.mark.lab, pytest.mark.slow]
COMMAND = str(Path(sys.executable).with_name("vllm-fleet"))
INVENTORY = str(ROOT / "inventories" / "lab")


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Run the demo once, with nothing built or recorded before, and return its figures."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    scratch = tmp_path_factory.mktemp("demo")
    report = scratch / "figures.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(scratch / "cache"))
        patch.setenv("VLLM_FLEET_STATE_HOME", str(scratch / "state"))
        yield run_demo(report)


def run_demo(report: Path) -> dict[str, Any]:
    """Run the demo on hosts as they come from the lab; return what it writes down."""
    subprocess.run([COMMAND, "lab", "up", "--contents"], check=True)
    subprocess.run([COMMAND, "lab", "reset", "npu-01", "gpu-01", "cpu-01"], check=True)
    demo = [sys.executable, str(ROOT / "tools/demo.py"), "--json", str(report)]
    done = subprocess.run(demo, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "stand-in" in done.stdout
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return found


def json_of(*words: str) -> dict[str, Any]:
    """Run the command with --json and return its document; it must succeed."""
    done = subprocess.run(
        [COMMAND, *words, "-i", INVENTORY, "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["schema"]
    return document


def test_first_apply_changes_and_second_changes_nothing(figures: dict[str, Any]) -> None:
    assert figures["changed_first"] > 20
    assert figures["changed_second"] == 0


def test_real_engine_answers_and_the_stand_in_says_what_it_is(figures: dict[str, Any]) -> None:
    assert figures["answers"]["cpu-01"]
    assert "stand-in" in figures["answers"]["npu-01"]
    assert "stand-in" not in figures["answers"]["cpu-01"]


def test_status_and_history_know_the_run(figures: dict[str, Any]) -> None:
    assert {host["status"] for host in json_of("status")["hosts"].values()} == {"ok"}
    assert [run["exit_code"] for run in json_of("history")["runs"]][:2] == [0, 0]


def test_check_mode_of_a_converged_fleet_predicts_nothing(figures: dict[str, Any]) -> None:
    assert json_of("apply", "--check", "--diff")["changes"] == []


def test_plain_ansible_playbook_with_limit_and_tags(figures: dict[str, Any]) -> None:
    words = [ansible_playbook(), "-i", INVENTORY, "playbooks/site.yml"]
    only = ["--limit", "cpu-01", "--tags", "python_runtime,hugepages", "--check", "--diff"]
    done = subprocess.run(
        [*words, *only], capture_output=True, text=True, check=False, cwd=ROOT, env=environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    recap = done.stdout.partition("PLAY RECAP")[2]
    assert "cpu-01" in recap
    assert "changed=0" in recap
    assert "npu-01" not in recap
    assert "Write the unit template" not in done.stdout


def test_unknown_limit_touches_nothing(figures: dict[str, Any]) -> None:
    done = subprocess.run(
        [COMMAND, "apply", "-i", INVENTORY, "--limit", "nowhere-99"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert "nowhere-99" in done.stderr
