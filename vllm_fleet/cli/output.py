"""What goes to the terminal: text without control characters, or one JSON document."""

from __future__ import annotations

import json
import sys
from typing import Any

from vllm_fleet.errors import ExitCode, FleetError, Problem
from vllm_fleet.text import clean, some


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
