"""Up, status, reset, reboot and down; what a killed `up` or supervisor leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_traces import NOTHING, eventually, traces

from vllm_fleet.lab import api, hosts
from vllm_fleet.lab.errors import LabRefusal
from vllm_fleet.lab.guest import Guest
from vllm_fleet.lab.settings import Lab

pytestmark = pytest.mark.lab
PERSONA = "openeuler-24.03-sp1"
COMMAND = [sys.executable, "-m", "vllm_fleet.lab"]


@pytest.fixture
def lab(own_lab: Lab) -> Iterator[Lab]:
    """Return the lab, down before and after the test."""
    assert traces(own_lab) == NOTHING
    yield own_lab
    api.down(lab=own_lab)


def command(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def state(lab: Lab, name: str) -> str:
    return next(row["state"] for row in api.status(lab=lab) if row["name"] == name)


def test_up_status_down(lab: Lab, environment: dict[str, str]) -> None:
    done = command(environment, "up", "--host", f"t-one={PERSONA}")
    assert done.returncode == 0, done.stderr
    shown = json.loads(command(environment, "status", "--json").stdout)
    assert [(row["name"], row["state"]) for row in shown["hosts"]] == [("t-one", "up")]
    assert command(environment, "down").returncode == 0
    assert traces(lab) == NOTHING


def test_ten_hosts_boot_soon(lab: Lab) -> None:
    api.up({"t-0": PERSONA}, lab=lab)  # The base root and the persona's layer are there now.
    begun = time.monotonic()
    raised = api.up({f"t-{number}": PERSONA for number in range(1, 11)}, lab=lab)
    took = time.monotonic() - begun
    assert len(raised.hosts) == 10
    assert took < 30, f"ten hosts took {took:.1f} s"


def test_limits_are_lifted_while_hosts_run(lab: Lab) -> None:
    limit = Path("/proc/sys/fs/inotify/max_user_instances")
    api.up({"t-one": PERSONA}, lab=lab)
    assert int(limit.read_text()) >= 8192


def test_up_again_changes_nothing(lab: Lab) -> None:
    api.up({"t-one": PERSONA}, lab=lab)
    before = api.status(lab=lab)
    api.up({"t-one": PERSONA}, lab=lab)
    assert api.status(lab=lab) == before


def test_down_of_one_keeps_the_other(lab: Lab) -> None:
    api.up({"t-one": PERSONA, "t-two": PERSONA}, lab=lab)
    api.down(["t-one"], lab=lab)
    assert [row["name"] for row in api.status(lab=lab)] == ["t-two"]
    assert state(lab, "t-two") == "up"
    assert "t-one" not in lab.inventory_file.read_text(encoding="utf-8")


def test_reset_drops_what_was_written(lab: Lab) -> None:
    api.up({"t-one": PERSONA}, lab=lab)
    Guest(lab, "t-one").run("touch", "/etc/written", "/root/written")
    api.reset(["t-one"], lab=lab)
    assert "written" not in Guest(lab, "t-one").run("ls", "/etc", "/root")


def test_a_reboot_comes_back_with_what_was_written(lab: Lab) -> None:
    api.up({"t-one": PERSONA}, lab=lab)
    guest = Guest(lab, "t-one")
    guest.run("touch", "/etc/written")
    before = guest.run("cat", "/proc/sys/kernel/random/boot_id", "/proc/1/stat")
    guest.run("systemctl", "reboot")
    assert eventually(
        lambda: not _init_is(lab, "t-one", guest.init) and state(lab, "t-one") == "up"
    )
    again = Guest(lab, "t-one")
    assert again.run("cat", "/proc/sys/kernel/random/boot_id", "/proc/1/stat") != before
    assert again.run("ls", "/etc/written") == "/etc/written\n"


def _init_is(lab: Lab, name: str, pid: int) -> bool:
    """Say whether a host (still) has this first process."""
    return pid in hosts.cgroup_processes(lab, name)


def test_a_power_off_stays_off_and_up_raises_it_again(lab: Lab) -> None:
    api.up({"t-one": PERSONA}, lab=lab)
    Guest(lab, "t-one").run("systemctl", "poweroff")
    assert eventually(lambda: state(lab, "t-one") == "stopped")
    api.up({"t-one": ""}, lab=lab)
    assert state(lab, "t-one") == "up"


@pytest.mark.parametrize("after", [0.3, 0.6, 0.9, 1.3, 1.8, 2.5])
def test_a_killed_up_leaves_nothing_after_down(
    lab: Lab, environment: dict[str, str], after: float
) -> None:
    names = [part for number in range(3) for part in ("--host", f"t-{number}={PERSONA}")]
    process = subprocess.Popen(
        [*COMMAND, "up", *names],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    # Not a wait for something: the moment of the kill is what the test varies.
    time.sleep(after)
    process.kill()
    process.wait()
    api.down(lab=lab)
    assert traces(lab) == NOTHING


def test_down_finds_hosts_whose_folder_is_gone(lab: Lab) -> None:
    api.up({"t-one": PERSONA}, lab=lab)
    shutil.rmtree(lab.home)
    api.down(lab=lab)
    assert traces(lab) == NOTHING


@pytest.mark.parametrize(
    ("which", "signum"), [(0, signal.SIGKILL), (1, signal.SIGKILL), (1, signal.SIGTERM)]
)
def test_a_killed_supervisor_takes_its_host_with_it(lab: Lab, which: int, signum: int) -> None:
    """There are two processes: what put the supervisor in its namespaces, and the supervisor."""
    api.up({"t-one": PERSONA}, lab=lab)
    os.kill(sorted(hosts.supervisors(lab.host_dir("t-one")))[which], signum)
    assert eventually(lambda: not hosts.cgroup_processes(lab, "t-one"))
    assert state(lab, "t-one") == "stopped"
    api.down(lab=lab)
    assert traces(lab) == NOTHING


def test_guests_reach_this_machine_only(lab: Lab) -> None:
    api.up({"t-one": PERSONA}, lab=lab)
    guest = Guest(lab, "t-one")
    assert "default" not in guest.run("ip", "route")
    url = f"{lab.mirror_url}/rpm/{PERSONA}/repodata/repomd.xml"
    assert "<repomd" in guest.run("curl", "--silent", "--fail", url)


def test_a_bind_shows_a_folder_read_only(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "file").write_text("shared\n")
    api.up({"t-one": PERSONA}, lab=lab, binds=[f"{folder}:/srv/shared"])
    guest = Guest(lab, "t-one")
    assert guest.run("cat", "/srv/shared/file") == "shared\n"
    assert "ro" in guest.run("findmnt", "-no", "OPTIONS", "/srv/shared").split(",")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"t-one": "plan9"}, "unknown persona 'plan9'"),
        ({"t-one": ""}, "the lab knows no host t-one"),
        ({"No_Name": PERSONA}, "'No_Name' is no name for a lab host"),
        ({"a-name-that-is-too-long": PERSONA}, "is no name for a lab host"),
    ],
)
def test_bad_input_is_refused(lab: Lab, asked: dict[str, str], message: str) -> None:
    with pytest.raises(LabRefusal, match=message):
        api.up(asked, lab=lab)
    assert traces(lab) == NOTHING
