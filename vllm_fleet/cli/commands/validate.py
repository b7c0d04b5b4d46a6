"""``validate``: check everything that can be checked without a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.cli.output import document, note, out, problem_lines
from vllm_fleet.cli.prepare import wanted
from vllm_fleet.errors import ExitCode
from vllm_fleet.text import some

if TYPE_CHECKING:
    from vllm_fleet.inventory.preflight import Preflight


def validate(
    options: GlobalOptions,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of variables, for editors.")
    ] = False,
) -> ExitCode:
    """Check the inventory and its options; contacts no host."""
    if schema:
        return _print_schema()
    from vllm_fleet.inventory.preflight import inspect

    found = inspect(wanted(options))
    code = ExitCode.CONFIG if found.report.problems else ExitCode.OK
    if options.json:
        _document(found, code)
    else:
        _tell(found, options.verbose)
    return code


def _print_schema() -> ExitCode:
    """Print the JSON Schema of the inventory's variables."""
    from vllm_fleet.inventory.editor_schema import text
    from vllm_fleet.inventory.preflight import find_collection

    out(text(find_collection().root).rstrip("\n"))
    return ExitCode.OK


def _document(found: Preflight, code: ExitCode) -> None:
    """Print everything as one JSON document."""
    report = found.report
    document(
        "validate",
        ok=not report.problems,
        exit_code=int(code),
        fleet=found.fleet,
        hosts=list(found.inventory.selected),
        problems=[problem.as_dict() for problem in report.problems],
        warnings=[problem.as_dict() for problem in report.warnings],
        notes=[problem.as_dict() for problem in report.notes],
        settled_at_run=report.settled_at_run,
        settled_at_scan=report.settled_at_scan,
        sets=report.sets,
    )


def _tell(found: Preflight, verbose: int) -> None:
    """Print everything for people."""
    report = found.report
    kinds = (("error", report.problems), ("warning", report.warnings), ("note", report.notes))
    for kind, problems in kinds:
        for problem in problems:
            first, *rest = problem_lines(problem)
            note("\n".join([f"{kind}: {first}", *rest]))
    for line, hosts in _set_lines(report.sets, verbose):
        out(f"versions of {some(hosts)}{line}")
    if report.settled_at_run:
        out(f"settled at run (templates): {some(report.settled_at_run)}")
    if report.settled_at_scan:
        out(f"settled at scan: {_scan_line(report.settled_at_scan)}")
    count = len(found.inventory.selected)
    verdict = f"{len(report.problems)} problems" if report.problems else "valid"
    out(f"fleet {found.fleet or '?'}: {count} hosts, {verdict}")


def _set_lines(sets: list[dict[str, Any]], verbose: int) -> list[tuple[str, list[str]]]:
    """Return the versions that hosts get, where a release set or -v asks for them."""
    found: dict[str, list[str]] = {}
    for judged in sets:
        versions = (judged["resolution"] or {}).get("set", {})
        word = f" ({judged['release_set']})" if judged["release_set"] else ""
        listed = ", ".join(f"{name} {version}" for name, version in versions.items())
        if verbose or word:
            found.setdefault(f"{word}: {listed or 'not known'}", []).extend(judged["hosts"])
    return list(found.items())


def _scan_line(pairs: list[dict[str, Any]]) -> str:
    """Return what only hosts can settle, in one line."""
    hosts = {host for pair in pairs for host in pair["hosts"]}
    subjects = dict.fromkeys(pair["left"] for pair in pairs)
    return f"{some(subjects)} ({len(hosts)} hosts)"
