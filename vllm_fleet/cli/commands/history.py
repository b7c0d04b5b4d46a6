"""``history``: the runs of a fleet."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.cli.output import document, out
from vllm_fleet.cli.prepare import fleet_name
from vllm_fleet.cli.tables import table
from vllm_fleet.errors import ExitCode
from vllm_fleet.text import duration


def history(
    options: GlobalOptions,
    last: Annotated[int, typer.Option("--last", min=1, help="How many runs.")] = 20,
    fleet: Annotated[str, typer.Option("--fleet", help="Which fleet, without -i.")] = "",
) -> ExitCode:
    """List the runs of a fleet, newest first."""
    from vllm_fleet.state.paths import database, fleet_dir
    from vllm_fleet.state.store import open_store

    name = fleet_name(options, fleet)
    with open_store(database(fleet_dir(name))) as store:
        runs = store.history(last)
    if options.json:
        document("history", fleet=name, runs=runs)
    else:
        rows = [_row(run) for run in runs]
        out(table(("run", "command", "started", "took", "exit", "hosts"), rows))
    return ExitCode.OK


def _row(run: dict[str, Any]) -> list[str]:
    """Return a run as the cells of a table."""
    command = run["command"] + (" --check" if run["is_check"] else "")
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run["started"]))
    took = duration(run["ended"] - run["started"]) if run["ended"] else "still running, or died"
    ended = "" if run["exit_code"] is None else str(run["exit_code"])
    counts = ", ".join(f"{count} {name}" for name, count in run["counts"].items() if count)
    stopped = f" (stopped at {run['stopped_at']})" if run["stopped_at"] else ""
    return [run["id"], command, started, took, ended, counts + stopped]
