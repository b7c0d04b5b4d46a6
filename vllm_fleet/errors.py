"""Exit codes, and the exceptions that carry them: the one place where both are defined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import IntEnum
from types import TracebackType
from typing import Any


class ExitCode(IntEnum):
    """What the exit codes of the command mean (scripts in the field depend on them)."""

    OK = 0
    CONFIG = 1
    CHANGES = 2
    FAILED = 3
    UNREACHABLE = 4
    BUDGET = 5
    WAITING = 6
    LOCKED = 7
    FAULT = 70
    INTERRUPTED = 130


# Where several apply, the first of these that is present wins.
PRECEDENCE = (
    ExitCode.INTERRUPTED,
    ExitCode.FAULT,
    ExitCode.CONFIG,
    ExitCode.BUDGET,
    ExitCode.FAILED,
    ExitCode.UNREACHABLE,
    ExitCode.LOCKED,
    ExitCode.WAITING,
    ExitCode.CHANGES,
)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the code that wins where several apply."""
    present = set(codes)
    return next((code for code in PRECEDENCE if code in present), ExitCode.OK)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, with the place where a person repairs it."""

    message: str
    file: str = ""
    line: int = 0
    hosts: tuple[str, ...] = ()
    option: str = ""
    hint: str = ""

    def where(self) -> str:
        """Return ``file:line`` as far as it is known."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def as_dict(self) -> dict[str, Any]:
        """Return the problem as it stands in JSON output."""
        return asdict(self)


class FleetError(Exception):
    """An error that is told in one line, with the exit code that it leads to."""

    code = ExitCode.CONFIG

    def __init__(self, message: str, problems: Iterable[Problem] = (), hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.problems = tuple(problems)
        self.hint = hint


class ConfigError(FleetError):
    """The usage, the inventory or the configuration is wrong: nothing was touched."""


class LockedError(FleetError):
    """Another run works on the same fleet."""

    code = ExitCode.LOCKED


class InternalError(FleetError):
    """A fault of our own that we noticed ourselves."""

    code = ExitCode.FAULT


class Interrupted(FleetError):
    """The run was asked to stop."""

    code = ExitCode.INTERRUPTED


class Capture:
    """A boundary: an exception inside is kept in ``error`` and goes no further.

    Two places need one: the command as a whole (a crash becomes exit code 70) and each event
    handler (one that raises must not take the run with it). Interrupts pass through.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> Capture:
        self.error = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        return True
