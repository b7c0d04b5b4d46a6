"""``apply``: converge the fleet."""

from __future__ import annotations

from typing import Annotated

import typer

from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.cli.prepare import valid_fleet
from vllm_fleet.errors import ConfigError, ExitCode


def apply(
    options: GlobalOptions,
    check: Annotated[bool, typer.Option("--check", help="Only predict; change nothing.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what changes in files.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Run every stage, also what is known to be fresh.")
    ] = False,
    roles: Annotated[str, typer.Option("--roles", metavar="R,...", help="Only these roles.")] = "",
) -> ExitCode:
    """Bring the hosts into the state that the inventory describes."""
    from vllm_fleet.cli.run import Job, run_job

    found = valid_fleet(options)
    return run_job(options, found, Job(check, diff, full, _roles(roles, found.stages())))


def _roles(given: str, stages: list[str]) -> tuple[str, ...]:
    """Return the roles that were named; an unknown one is an error."""
    from vllm_fleet.inventory.hints import did_you_mean

    names = tuple(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    for name in names:
        if name not in stages:
            hint = did_you_mean(name, stages)
            raise ConfigError(f"--roles: there is no role {name}", hint=hint)
    return names
