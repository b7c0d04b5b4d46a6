"""The launcher: what it starts, it also ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import sleepers

from vllm_fleet.engine import launch

# Ignores the interrupt, and has a child in a session of its own.
STUBBORN = "trap '' INT TERM; setsid sleep {0} & echo ready; while true; do sleep {0}; done"


class Launched:
    """A launcher with its control line in our hands."""

    def __init__(self, scratch: Path, *command: str) -> None:
        self.scratch = scratch
        scratch.mkdir()
        (scratch / "secret").write_text("x")
        self.process = subprocess.Popen(
            [sys.executable, "-I", launch.__file__, str(scratch), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self) -> None:
        assert self.process.stdin
        os.write(self.process.stdin.fileno(), b"x")

    def ready(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == b"ready\n"

    def end(self) -> int:
        return self.process.wait(timeout=30)


@pytest.fixture
def marker() -> Iterator[int]:
    """A number of seconds that finds our own sleeps again; none may be left."""
    number = 100_000 + os.getpid()
    yield number
    assert sleepers(number) == []


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -TERM $$", 143)])
def test_the_exit_status_is_handed_on_and_the_folder_stays(
    tmp_path: Path, command: str, code: int
) -> None:
    launched = Launched(tmp_path / "s", "bash", "-c", command)
    assert launched.end() == code
    assert (launched.scratch / "secret").exists()


def test_what_it_starts_has_no_terminal_and_no_control_line(tmp_path: Path) -> None:
    launched = Launched(tmp_path / "s", "bash", "-c", "readlink /proc/self/fd/0; echo > /dev/tty")
    assert launched.process.stdout
    assert launched.process.stdout.readline() == b"/dev/null\n"
    assert launched.end() != 0


def test_a_second_request_does_not_wait(tmp_path: Path, marker: int) -> None:
    launched = Launched(tmp_path / "s", "bash", "-c", STUBBORN.format(marker))
    launched.ready()
    began = time.monotonic()
    launched.ask()
    launched.ask()
    assert launched.end() == 128 + 9
    assert time.monotonic() - began < launch.GRACE_S
    assert (launched.scratch / "secret").exists()


def test_when_the_command_is_gone_everything_goes(tmp_path: Path, marker: int) -> None:
    launched = Launched(tmp_path / "s", "bash", "-c", f"setsid sleep {marker} & echo ready; wait")
    launched.ready()
    assert launched.process.stdin
    launched.process.stdin.close()
    launched.end()
    assert not launched.scratch.exists()
