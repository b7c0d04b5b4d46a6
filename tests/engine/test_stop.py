"""Interrupted and killed runs, and what they leave behind: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import command_lines, sleepers, wait_for

from vllm_fleet.engine import scratch

PLANTED = "PLANTED-7f3a"
SLEEP = 613


def scratch_folders(pid: int) -> list[Path]:
    return list(scratch.base_dir().glob(f"{scratch.PREFIX}-{pid}.*"))


@pytest.fixture
def running(fleet: Any) -> Iterator[tuple[Any, subprocess.Popen[str], int]]:
    """A run in the middle of a task that takes ten minutes; its mark makes it findable."""
    marker = SLEEP + os.getpid()
    fleet.add("a", os_baseline_sleep=marker).add("b", os_baseline_sleep=marker)
    process = fleet.start("apply")
    try:
        wait_for(lambda: len(sleepers(marker)) == 2 or process.poll() is not None, "the task")
        yield fleet, process, marker
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_BR_66_a_signal_stops_everything_and_is_on_record(running: Any, signum: int) -> None:
    fleet, process, marker = running
    began = time.monotonic()
    process.send_signal(signum)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - began < 15
    assert f"Stopped by {signal.Signals(signum).name} at os_baseline: Wait" in out
    assert sleepers(marker) == []
    assert scratch_folders(process.pid) == []
    run = fleet.json("history")[1]["runs"][0]
    assert (run["exit_code"], run["stopped_at"]) == (130, "os_baseline: Wait")
    hosts = fleet.json("status")[1]["hosts"]
    assert {host["status"] for host in hosts.values()} == {"unknown"}


def test_BR_66_a_killed_run_leaves_no_process_and_no_file(running: Any) -> None:
    fleet, process, marker = running
    assert scratch_folders(process.pid)
    process.kill()
    process.communicate()
    wait_for(lambda: not sleepers(marker), "the end of the task")
    wait_for(lambda: not scratch_folders(process.pid), "the removal of the private folder")
    fleet.hosts.clear()
    fleet.add("a")
    assert fleet.run("apply")[0] == 0
    runs = fleet.json("history")[1]["runs"]
    assert [(run["exit_code"], run["stopped_at"]) for run in runs] == [(0, ""), (130, "died")]


def test_left_overs_of_dead_runs_are_removed(tmp_path: Path) -> None:
    dead = tmp_path / f"{scratch.PREFIX}-999999.123-abc"
    alive = tmp_path / f"{scratch.PREFIX}-{os.getpid()}.{scratch.started(os.getpid())}-abc"
    dead.mkdir()
    alive.mkdir()
    assert scratch.remove_left_overs(tmp_path) == [dead]
    assert alive.exists()


def planted_in(*folders: Path) -> list[str]:
    """Return the files below some folders that hold the planted secret, packed or not."""
    search = ["grep", "--recursive", "--files-with-matches", "--binary-files=text", PLANTED]
    found = subprocess.run([*search, *map(str, folders)], capture_output=True, text=True)
    packed = [path for folder in folders for path in folder.rglob("*.gz")]
    unpacked = [
        str(path)
        for path in packed
        if PLANTED in subprocess.run(["zcat", path], capture_output=True, text=True).stdout
    ]
    return found.stdout.splitlines() + unpacked


@pytest.fixture
def planted(fleet: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A fleet that prints every kind of secret that there is."""
    secrets = fleet.root / "secrets"
    secrets.mkdir()
    (secrets / "become").write_text(f"become-{PLANTED}\n")
    (secrets / "vault").write_text(f"vault-{PLANTED}\n")
    extra = (
        f"my_api_token: extra-{PLANTED}\naddress: https://user:{PLANTED}@mirror.example/simple\n"
    )
    (secrets / "extra.yml").write_text(extra)
    encrypt = ["ansible-vault", "encrypt_string", "--vault-password-file", str(secrets / "vault")]
    beside = Path(sys.executable).parent
    cipher = subprocess.run(
        [beside / encrypt[0], *encrypt[1:], f"value-{PLANTED}", "--name", "vaulted_thing"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    group_vars = fleet.root / "group_vars"
    group_vars.mkdir()
    (group_vars / "all.yml").write_text(cipher)
    monkeypatch.setenv("DEMO_PASSWORD", f"environment-{PLANTED}")
    shown = [
        "{{ vaulted_thing }}",
        "{{ my_api_token }}",
        "{{ lookup('ansible.builtin.env', 'DEMO_PASSWORD') }}",
        "{{ address }}",
    ]
    fleet.add("a", os_baseline_secrets=shown)
    fleet.arguments = [
        "--vault-password-file", str(secrets / "vault"),
        "--become-password-file", str(secrets / "become"),
        "-e", f"@{secrets / 'extra.yml'}",
    ]  # fmt: skip
    return fleet


def test_BR_45_no_secret_is_left_after_a_run(planted: Any) -> None:
    events = planted.root / "state/events.jsonl"
    events.parent.mkdir()
    code, out, err = planted.run("apply", "-v", "--events", str(events), *planted.arguments)
    assert code == 0
    assert PLANTED not in out + err
    assert planted_in(planted.state, scratch.base_dir()) == []


def test_BR_45_no_secret_shows_while_it_runs_or_after_a_kill(planted: Any) -> None:
    marker = SLEEP + os.getpid()
    planted.hosts["a"]["os_baseline_sleep"] = marker
    planted.write()
    process = planted.start("apply", *planted.arguments)
    try:
        wait_for(lambda: sleepers(marker) or process.poll() is not None, "the task")
        assert process.poll() is None
        assert not [line for line in command_lines() if PLANTED in line]
    finally:
        process.kill()
        process.communicate()
    wait_for(lambda: not scratch_folders(process.pid), "the removal of the private folder")
    assert planted_in(planted.state, scratch.base_dir()) == []
