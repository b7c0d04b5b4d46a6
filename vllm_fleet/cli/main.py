"""The entry point: reads the command line, runs a verb, and turns its end into an exit code."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

import vllm_fleet
from vllm_fleet.cli import argv, commands
from vllm_fleet.cli.options import with_globals
from vllm_fleet.cli.output import note, tell_error
from vllm_fleet.errors import Capture, ConfigError, ExitCode, FleetError, InternalError, Interrupted

# Typer brings click along in some versions and needs it beside itself in others.
UsageError: type[BaseException] = typer.BadParameter.__bases__[0]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vllm-fleet {vllm_fleet.__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_print_version),
    ] = False,
) -> None:
    """Turn a fleet of bare servers into hosts that serve models with vLLM, and keep them so."""


def build(args: Sequence[str]) -> typer.Typer:
    """Return the application with every verb."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for name, function in commands.COMMANDS.items():
        app.command(name)(with_globals(function))
    app.add_typer(_lab(args), name="lab", help="The embedded fleet: try everything on one machine.")
    return app


def _lab(args: Sequence[str]) -> typer.Typer:
    """Return the lab's verbs; imported only when they are wanted, since start-up counts."""
    if "lab" not in args or find_spec("vllm_fleet.cli.lab") is None:
        return typer.Typer(no_args_is_help=True)
    app: typer.Typer = import_module("vllm_fleet.cli.lab").app
    return app


def run(args: Sequence[str]) -> ExitCode:
    """Run one command line; every known end of a command leaves here as an exit code."""
    wanted_json = "--json" in args
    try:
        ended = build(args)(argv.normalise(args), prog_name="vllm-fleet", standalone_mode=False)
    except UsageError as error:
        return tell_error(_usage(error), wanted_json)
    except typer.Abort:
        return tell_error(Interrupted("stopped"), wanted_json)
    except FleetError as error:
        return tell_error(error, wanted_json)
    return _code(ended)


def _code(ended: object) -> ExitCode:
    """Return what a command gave back as an exit code (Typer's own usage code 2 is our 1)."""
    return ExitCode(ended) if isinstance(ended, int) else ExitCode.OK


def _usage(error: BaseException) -> ConfigError:
    """Turn Typer's usage error into ours."""
    message = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "vllm-fleet"
    return ConfigError(message or "usage error", hint=f"see: {path} --help")


def _raise_interrupt(_signum: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    args = list(sys.argv[1:] if args is None else args)
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, _raise_interrupt)
    boundary = Capture()
    code = ExitCode.FAULT
    try:
        with boundary:
            code = run(args)
    except KeyboardInterrupt:
        return int(tell_error(Interrupted("interrupted"), "--json" in args))
    if boundary.error is not None:
        return int(_tell_crash(boundary.error, args))
    return int(code)


def _tell_crash(error: Exception, args: Sequence[str]) -> ExitCode:
    """Say in one line that we crashed, and keep the traceback where it can be found."""
    text = "".join(traceback.format_exception(error))
    if {"-v", "-vv", "-vvv", "--verbose"} & set(args):
        note(text)
    log = _write_crash(text)
    told = InternalError(f"a fault of our own: {type(error).__name__}: {error}", hint=log)
    return tell_error(told, "--json" in args)


def _write_crash(text: str) -> str:
    """Write the traceback down; say where, or why not."""
    from vllm_fleet.state.paths import state_root

    folder = state_root() / "crashes"
    path = folder / f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        return f"the traceback could not be written to {Path(folder)}: {problem}; -v prints it"
    return f"the traceback is in {path}"
