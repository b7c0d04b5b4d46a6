"""The global options: declared once, given to every command as one object."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from vllm_fleet.errors import ConfigError, ExitCode

PANEL = "Global options (before or after the verb)"


def _option(*names: str, **settings: Any) -> Any:
    """Return the declaration of one global option."""
    return typer.Option(*names, rich_help_panel=PANEL, show_default=False, **settings)


@dataclass(frozen=True)
class GlobalOptions:
    """What the global options say."""

    inventory: Annotated[
        list[str],
        _option("-i", "--inventory", metavar="INVENTORY", help="Inventory file or folder."),
    ]
    limit: Annotated[
        str, _option("-l", "--limit", metavar="PATTERN", help="Only hosts that match.")
    ]
    json: Annotated[bool, _option("--json", help="Print one JSON document and nothing else.")]
    verbose: Annotated[int, _option("-v", "--verbose", count=True, help="Say more.")]
    forks: Annotated[
        int, _option("-f", "--forks", min=0, metavar="N", help="Hosts worked on at once.")
    ]
    user: Annotated[str, _option("-u", "--user", metavar="USER", help="User on the hosts.")]
    vault_id: Annotated[
        list[str], _option("--vault-id", metavar="LABEL@FILE", help="Vault identity.")
    ]
    vault_password_file: Annotated[
        list[str],
        _option("--vault-password-file", metavar="FILE", help="File with a vault password."),
    ]
    become_password_file: Annotated[
        str, _option("--become-password-file", metavar="FILE", help="File with sudo's password.")
    ]
    extra_vars: Annotated[
        list[str], _option("-e", "--extra-vars", metavar="@FILE", help="Variables from a file.")
    ]
    events: Annotated[
        str, _option("--events", metavar="FILE", help="Write events as JSON lines while it runs.")
    ]

    def extra_vars_files(self) -> tuple[str, ...]:
        """Return the files of ``-e @FILE``; values on the command line are refused."""
        for value in self.extra_vars:
            if not value.startswith("@"):
                raise ConfigError(
                    "-e takes @FILE only: values on a command line show in the process list",
                    hint="write the variables into a YAML file and give -e @that-file",
                )
        return tuple(value[1:] for value in self.extra_vars)


DEFAULTS: dict[str, Any] = {"inventory": [], "vault_id": [], "vault_password_file": []}
DEFAULTS |= {"limit": "", "user": "", "become_password_file": "", "events": "", "extra_vars": []}
DEFAULTS |= {"json": False, "verbose": 0, "forks": 0}


def global_parameters() -> list[inspect.Parameter]:
    """Return the global options as parameters of a function."""
    hints = inspect.get_annotations(GlobalOptions, eval_str=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=DEFAULTS[field.name],
            annotation=hints[field.name],
        )
        for field in fields(GlobalOptions)
    ]


def with_globals(function: Callable[..., ExitCode]) -> Callable[..., ExitCode]:
    """Give a command the global options: its first parameter takes them as one object."""
    names = [field.name for field in fields(GlobalOptions)]

    @functools.wraps(function)
    def command(**given: Any) -> ExitCode:
        options = GlobalOptions(**{name: given.pop(name) for name in names})
        return function(options, **given)

    signature = inspect.signature(function, eval_str=True)
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(signature.parameters.values())[1:]
    ]
    parameters = [*own, *global_parameters()]
    # Typer reads the signature, and functools.wraps left the function's own.
    command.__dict__["__signature__"] = signature.replace(parameters=parameters)
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command
