"""``explain``: where a host's values come from in the inventory, and which source wins."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.cli.output import document, out
from vllm_fleet.cli.prepare import wanted
from vllm_fleet.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from vllm_fleet.inventory.explain import Line
WIDTH = 60


def explain(
    options: GlobalOptions,
    host: Annotated[str, typer.Argument(help="A host of the inventory.")],
    variable: Annotated[str, typer.Argument(help="A variable; all of the host's without it.")] = "",
) -> ExitCode:
    """Say where each value of a host comes from, and which source wins; contacts no host."""
    from vllm_fleet.inventory.explain import lines, unknown
    from vllm_fleet.inventory.preflight import inspect

    found = inspect(replace(wanted(options), limit=""))
    if host not in found.inventory.selected:
        raise ConfigError(f"there is no host {host}", hint=unknown(host, found.inventory.selected))
    told = lines(found.scene, found.collection.root / "roles", host, variable)
    if variable and not told[0].sources:
        known = [*found.scene.options, *found.scene.names]
        raise ConfigError(f"nothing defines {variable} for {host}", hint=unknown(variable, known))
    if options.json:
        document(
            "explain", host=host, groups=found.inventory.groups_of(host),
            variables=[line.as_dict() for line in told],
        )  # fmt: skip
    else:
        for line in told:
            _tell(line)
    return ExitCode.OK


def _tell(line: Line) -> None:
    """Print one variable with its sources, the winner first."""
    out(line.name)
    for number, source in enumerate(line.sources):
        mark = "*" if number == 0 else " "
        place = f"{source['file']}:{source['line']}"
        out(f"  {mark} {short(source['value'])}  {source['kind']}  {place}")
    if line.hint:
        out(f"    {line.hint}")


def short(value: Any) -> str:
    """Return a value in one line of limited length."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
