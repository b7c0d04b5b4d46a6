"""Exit codes and forms of errors, for every end that a command can have."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vllm_fleet
from vllm_fleet.cli import commands
from vllm_fleet.cli.main import main
from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.errors import PRECEDENCE, ConfigError, ExitCode, LockedError, Problem, worst


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_FLEET_STATE_HOME", str(tmp_path / "state"))


def give(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Put a command of ours in the place of ``validate``."""
    monkeypatch.setitem(commands.COMMANDS, "validate", function)


def test_options_arrive_the_same_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[GlobalOptions] = []

    def command(options: GlobalOptions) -> ExitCode:
        seen.append(options)
        return ExitCode.OK

    give(monkeypatch, command)
    words = "-i a -i b --limit x --json -vv --forks 7 -u me --vault-id l@f --vault-password-file v"
    words += " --become-password-file p -e @e --events o"
    assert main([*words.split(), "validate"]) == 0
    assert main(["validate", *words.split()]) == 0
    assert seen[0] == seen[1]
    assert seen[0] == GlobalOptions(
        inventory=["a", "b"],
        limit="x",
        json=True,
        verbose=2,
        forks=7,
        user="me",
        vault_id=["l@f"],
        vault_password_file=["v"],
        become_password_file="p",
        extra_vars=["@e"],
        events="o",
    )
    assert seen[0].extra_vars_files() == ("e",)


@pytest.mark.parametrize(
    "words",
    [
        ["--bogus"],
        ["validate", "--bogus"],
        ["nonsense"],
        ["validate", "--forks", "many"],
        ["validate", "--forks", "-1"],
        ["validate", "stray"],
        ["init"],
        ["validate", "-i"],
        ["validate", "-e", "a=b"],
    ],
)
def test_a_usage_error_is_1(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("vllm-fleet: ")


def test_a_misspelt_verb_gets_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    main(["aply"])
    assert "apply" in capsys.readouterr().err


def test_a_usage_error_with_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "validate", "--bogus"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "vllm-fleet/error/1"
    assert document["exit_code"] == 1
    assert "--bogus" in document["message"]


def test_a_known_option_without_a_verb_is_not_called_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["-i", "x", "--json"]) == 1
    assert "No such option" not in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["reset", "down", "break npu-01 refuse", "inventory"])
def test_every_verb_of_the_lab_takes_json(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from vllm_fleet.lab import api

    for name in ("reset", "down", "break_host", "write_inventory"):
        monkeypatch.setattr(api, name, lambda *_args, **_more: "")
    monkeypatch.setattr(api, "status", list)
    assert main(["--json", "lab", *verb.split()]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "vllm-fleet/lab-status/1"


def test_version_and_help_are_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"vllm-fleet {vllm_fleet.__version__}\n"
    assert main(["--help"]) == 0
    assert main(["apply", "--help"]) == 0
    assert main(["-i", "x", "apply", "--help"]) == 0


def test_each_known_error_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, code in ((ConfigError("x"), 1), (LockedError("x"), 7)):
        give(monkeypatch, _raiser(error))
        assert main(["validate"]) == code


def _raiser(error: BaseException) -> Any:
    def command(options: GlobalOptions) -> ExitCode:
        raise error

    return command


def test_problems_name_file_line_hosts_and_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = Problem("is wrong", "hosts.yml", 7, ("a", "b"), hint="mend it")
    give(monkeypatch, _raiser(ConfigError("no good", [problem], hint="read the manual")))
    main(["validate"])
    assert capsys.readouterr().err == (
        "vllm-fleet: no good\n"
        "  hosts.yml:7: is wrong\n"
        "      hosts: a, b\n"
        "      mend it\n"
        "  read the manual\n"
    )


def test_a_crash_is_70_in_one_line_with_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, _raiser(ZeroDivisionError("boom")))
    assert main(["validate"]) == 70
    err = capsys.readouterr().err
    assert "a fault of our own: ZeroDivisionError: boom" in err
    assert "Traceback" not in err
    log = Path(re.search(r"traceback is in (\S+)", err)[1])  # type: ignore[index]
    assert "ZeroDivisionError: boom" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_crash_shows_its_traceback_with_v(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, _raiser(ZeroDivisionError("boom")))
    assert main(["validate", "-v"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_a_crash_with_json_is_one_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, _raiser(ZeroDivisionError("boom")))
    assert main(["validate", "--json"]) == 70
    assert json.loads(capsys.readouterr().out)["exit_code"] == 70


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, _raiser(KeyboardInterrupt()))
    assert main(["validate"]) == 130


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_signal_outside_of_a_run_is_130(
    monkeypatch: pytest.MonkeyPatch, signum: int
) -> None:
    def command(options: GlobalOptions) -> ExitCode:
        os.kill(os.getpid(), signum)
        return ExitCode.OK

    give(monkeypatch, command)
    assert main(["validate"]) == 130


def test_precedence_is_that_of_the_contract() -> None:
    contract = [5, 3, 4, 7, 6, 2]
    assert [int(code) for code in PRECEDENCE if code in contract] == contract
    assert worst([]) == 0
    assert worst([ExitCode.CHANGES, ExitCode.UNREACHABLE, ExitCode.FAILED]) == 3
    assert worst([ExitCode.LOCKED, ExitCode.BUDGET]) == 5


def test_help_is_quick() -> None:
    command = [sys.executable, "-m", "vllm_fleet", "--help"]
    # Seconds of work, not of the clock: other work on the machine must not decide this.
    times = []
    for _ in range(3):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        used = after.children_user + after.children_system
        times.append(used - before.children_user - before.children_system)
    assert min(times) < 0.5


def test_start_up_leaves_the_heavy_libraries_alone() -> None:
    code = "import sys, vllm_fleet.cli.main as m; m.main(['--help']);"
    code += "sys.exit(bool({'ansible', 'ansible_runner', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == 0


def test_control_characters_do_not_reach_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, _raiser(ConfigError("a\x1b[31mred\x1b]0;title\x07\x07\r\u202eb")))
    main(["validate"])
    assert capsys.readouterr().err == "vllm-fleet: aredb\n"
