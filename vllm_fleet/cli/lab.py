"""`vllm-fleet lab`: the embedded fleet."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from vllm_fleet.errors import ConfigError, ExitCode
from vllm_fleet.lab import api, faults, settings
from vllm_fleet.lab.errors import LabRefusal

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Names = Annotated[list[str] | None, typer.Argument(metavar="[HOST]...", help="Only these hosts.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
SCHEMA = "vllm-fleet/lab-status/1"


@app.command()
def up(
    names: Names = None,
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME=PERSONA", help="Also raise this extra host."),
    ] = None,
    hardware: Annotated[
        str, typer.Option(metavar="NAME", help="Give new hosts this hardware.")
    ] = "",
    python: Annotated[
        str, typer.Option(metavar="X.Y", help="Give new hosts this Python (pyenv's, if there).")
    ] = "",
    bind: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE:TARGET", help="Show a folder to new hosts, read-only."),
    ] = None,
    contents: Annotated[
        bool, typer.Option(help="Fill the mirror with all that an engine needs.")
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Raise the demo fleet, or the named hosts; what runs already is left alone."""
    asked = _asked(names or [], host or [])
    raised = api.up(
        asked,
        hardware=hardware,
        python=python,
        binds=bind or (),
        contents=contents,
        tell=_note,
    )
    if as_json:
        _print_json({"inventory": str(raised.inventory), "hosts": list(raised.hosts)})
    else:
        typer.echo(f"up: {', '.join(raised.hosts)}\ninventory: {raised.inventory}")
    return ExitCode.OK


def _asked(names: list[str], extra: list[str]) -> dict[str, str] | None:
    asked = dict.fromkeys(names, "")
    for item in extra:
        name, sign, persona = item.partition("=")
        if not (sign and persona):
            raise LabRefusal(f"--host {item}: no persona", hint="give --host NAME=PERSONA")
        asked[name] = persona
    return asked or None


@app.command()
def status(as_json: AsJson = False) -> ExitCode:
    """Show the lab's hosts."""
    rows = api.status()
    if as_json:
        _print_json({"hosts": rows})
        return ExitCode.OK
    columns = ("name", "persona", "address", "hardware", "state", "faults")
    for line in _table(columns, rows):
        typer.echo(line)
    return ExitCode.OK


def _table(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> list[str]:
    cells = [[column.upper() for column in columns]]
    cells += [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells]  # fmt: skip


def _cell(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text or "-"


@app.command()
def reset(names: Names = None, as_json: AsJson = False) -> ExitCode:
    """Drop everything that hosts have written and boot them as new."""
    api.reset(names or None)
    return _left(as_json)


def _left(as_json: bool) -> ExitCode:
    """Tell, for programs, which hosts there are now."""
    if as_json:
        _print_json({"hosts": api.status()})
    return ExitCode.OK


@app.command()
def down(
    names: Names = None,
    purge: Annotated[bool, typer.Option("--purge", help="Empty the cache too.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Take hosts down; with the last one everything of the lab goes, but for the cache."""
    if purge and names:
        raise ConfigError("--purge empties the whole cache: it takes no host names")
    api.down(names or None, purge=purge)
    return _left(as_json)


@app.command("break")
def break_(
    host: Annotated[str, typer.Argument(metavar="HOST")],
    fault: Annotated[
        str, typer.Argument(metavar="[FAULT]", help=f"One of: {', '.join(faults.FAULTS)}.")
    ] = "",
    heal: Annotated[bool, typer.Option("--heal", help="Heal it (without FAULT: all).")] = False,
    path: Annotated[str, typer.Option(help="File or folder of edited-file, full-disk.")] = "",
    unit: Annotated[str, typer.Option(help="Unit of stopped-unit.")] = "",
    as_json: AsJson = False,
) -> ExitCode:
    """Put a fault into a host, or heal it."""
    say = _note if as_json else typer.echo
    if heal:
        for healed in api.heal_host(host, fault):
            say(f"{host}: healed {healed}")
        return _left(as_json)
    if not fault:
        raise LabRefusal("no fault is named", hint=f"the lab knows: {', '.join(faults.FAULTS)}")
    api.break_host(host, fault, _option(fault, path=path, unit=unit))
    say(f"{host}: {faults.FAULTS[fault].what}; heal it with: lab break {host} --heal")
    return _left(as_json)


def _option(fault: str, **given: str) -> str:
    """Return the option that this fault takes; one that it does not take is refused."""
    takes = faults.FAULTS[fault].option if fault in faults.FAULTS else ""
    for name, value in given.items():
        if value and name != takes:
            raise LabRefusal(f"the fault {fault} takes no --{name}")
    return given.get(takes, "")


@app.command()
def inventory(as_json: AsJson = False) -> ExitCode:
    """Write the inventory of all hosts that are up, and print where it is."""
    path = api.write_inventory(settings.current())
    if as_json:
        _print_json({"inventory": str(path)})
    else:
        typer.echo(path)
    return ExitCode.OK


def _note(line: str) -> None:
    typer.echo(line, err=True)


def _print_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps({"schema": SCHEMA, **document}, indent=2))
