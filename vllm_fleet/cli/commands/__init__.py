"""The verbs, in the order in which help lists them."""

from __future__ import annotations

from collections.abc import Callable

from vllm_fleet.errors import ExitCode

COMMANDS: dict[str, Callable[..., ExitCode]] = {}
