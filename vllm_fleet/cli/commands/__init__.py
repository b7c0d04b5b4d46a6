"""The verbs, in the order in which help lists them."""

from __future__ import annotations

from collections.abc import Callable

from vllm_fleet.cli.commands.apply import apply
from vllm_fleet.cli.commands.doctor import doctor
from vllm_fleet.cli.commands.explain import explain
from vllm_fleet.cli.commands.history import history
from vllm_fleet.cli.commands.init import init
from vllm_fleet.cli.commands.status import status
from vllm_fleet.cli.commands.validate import validate
from vllm_fleet.errors import ExitCode

COMMANDS: dict[str, Callable[..., ExitCode]] = {
    "init": init,
    "validate": validate,
    "explain": explain,
    "doctor": doctor,
    "apply": apply,
    "status": status,
    "history": history,
}
