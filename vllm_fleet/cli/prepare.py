"""Turn global options into what the rest of the package works with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.errors import ConfigError

if TYPE_CHECKING:
    from vllm_fleet.inventory.preflight import Preflight, Wanted


def wanted(options: GlobalOptions) -> Wanted:
    """Return what the options say about the fleet."""
    from vllm_fleet.engine.request import Credentials
    from vllm_fleet.inventory.preflight import Wanted

    return Wanted(
        sources=tuple(options.inventory),
        limit=options.limit,
        extra_vars_files=options.extra_vars_files(),
        credentials=Credentials(
            vault_ids=tuple(options.vault_id),
            vault_password_files=tuple(options.vault_password_file),
            become_password_file=options.become_password_file,
        ),
    )


def valid_fleet(options: GlobalOptions) -> Preflight:
    """Return the fleet, or refuse with everything that is wrong with it."""
    from vllm_fleet.inventory.preflight import inspect

    found = inspect(wanted(options))
    if found.report.problems:
        raise ConfigError("the inventory is not valid: nothing was touched", found.report.problems)
    return found


def fleet_name(options: GlobalOptions, given: str = "") -> str:
    """Return the fleet that is meant: named, of the inventory, or the only one known here."""
    from vllm_fleet.state.paths import known_fleets

    if given:
        if given not in known_fleets():
            raise ConfigError(f"nothing is known here about a fleet {given}")
        return given
    if options.inventory:
        return valid_fleet(options).fleet
    known = known_fleets()
    if len(known) == 1:
        return known[0]
    words = f"there are several fleets: {', '.join(known)}" if known else "no run is on record"
    raise ConfigError(words, hint="name one with --fleet or -i INVENTORY")
