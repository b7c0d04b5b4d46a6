"""``status``: each host as the last runs left it."""

from __future__ import annotations

import time
from collections import Counter
from typing import Annotated, Any

import typer

from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.cli.output import document, out
from vllm_fleet.cli.prepare import fleet_name, valid_fleet
from vllm_fleet.cli.tables import table
from vllm_fleet.errors import ExitCode


def status(
    options: GlobalOptions,
    fleet: Annotated[str, typer.Option("--fleet", help="Which fleet, without -i.")] = "",
) -> ExitCode:
    """Show each host as the last runs left it; contacts no host."""
    from vllm_fleet.state.paths import database, fleet_dir
    from vllm_fleet.state.store import open_store

    name, wanted = _fleet(options, fleet)
    with open_store(database(fleet_dir(name))) as store:
        hosts = _with_unseen(store.hosts(), wanted)
    counts = dict(Counter(host["status"] for host in hosts))
    if options.json:
        document("status", fleet=name, counts=counts, hosts=_by_name(hosts))
    else:
        out(f"fleet {name}: {', '.join(f'{n} {word}' for word, n in counts.items()) or 'no hosts'}")
        out(table(("host", "status", "when", "last good", "run", "why"), map(_row, hosts)))
    return ExitCode.OK


def _fleet(options: GlobalOptions, fleet: str) -> tuple[str, tuple[str, ...] | None]:
    """Return the fleet and, where an inventory is given, its hosts."""
    if fleet or not options.inventory:
        return fleet_name(options, fleet), None
    found = valid_fleet(options)
    return found.fleet, found.inventory.selected


def _with_unseen(
    hosts: list[dict[str, Any]], wanted: tuple[str, ...] | None
) -> list[dict[str, Any]]:
    """Return the hosts of the inventory, those that no run has touched among them."""
    if wanted is None:
        return hosts
    known = {host["host"]: host for host in hosts}
    unseen = {"status": "never", "run": "", "at": None, "last_good": None, "message": ""}
    return [known.get(name, {"host": name, "stages": {}, **unseen}) for name in wanted]


def _by_name(hosts: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the hosts under their names, as ``apply`` gives them."""
    return {host["host"]: {k: v for k, v in host.items() if k != "host"} for host in hosts}


def _row(host: dict[str, Any]) -> list[str]:
    """Return a host as the cells of a table."""
    first = host["message"].split("\n")[0]
    return [
        host["host"], host["status"], _when(host["at"]), _when(host["last_good"]),
        host["run"], first[:80],
    ]  # fmt: skip


def _when(at: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else "-"
