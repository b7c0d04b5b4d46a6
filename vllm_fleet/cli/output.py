"""What goes to the terminal: text without control characters, or one JSON document."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from vllm_fleet.errors import ExitCode, FleetError, Problem

# Everything a terminal would act on, apart from line breaks and tabs; and what turns text round.
CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
MAX_HOSTS = 8


def clean(text: str) -> str:
    """Return text with nothing in it that a terminal would act on."""
    return CONTROL.sub("", text.replace("\r\n", "\n"))


def out(text: str = "") -> None:
    """Print a line of the answer."""
    sys.stdout.write(f"{clean(text)}\n")


def note(text: str = "") -> None:
    """Print a line beside the answer (progress, errors)."""
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()


def document(schema: str, **content: Any) -> None:
    """Print the one JSON document of a command."""
    whole = {"schema": f"vllm-fleet/{schema}/1", **content}
    sys.stdout.write(json.dumps(whole, ensure_ascii=False, indent=2, default=str) + "\n")


def some(names: Iterable[str], limit: int = MAX_HOSTS) -> str:
    """Return names in one line, shortened where there are many."""
    every = list(names)
    shown = ", ".join(every[:limit])
    return shown if len(every) <= limit else f"{shown} and {len(every) - limit} more"


def problem_lines(problem: Problem) -> list[str]:
    """Return a problem as lines for people."""
    where = f"{problem.where()}: " if problem.file else ""
    lines = [f"{where}{problem.message}"]
    if problem.hosts:
        lines.append(f"    hosts: {some(problem.hosts)}")
    if problem.hint:
        lines.append(f"    {problem.hint}")
    return lines


def tell_error(error: FleetError, as_json: bool) -> ExitCode:
    """Report an error in the form asked for, and return its exit code."""
    if as_json:
        document(
            "error",
            exit_code=int(error.code),
            message=error.message,
            hint=error.hint,
            problems=[problem.as_dict() for problem in error.problems],
        )
    else:
        note(f"vllm-fleet: {error.message}")
        for problem in error.problems:
            for line in problem_lines(problem):
                note(f"  {line}")
        if error.hint:
            note(f"  {error.hint}")
    return error.code
