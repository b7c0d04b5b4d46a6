"""``validate``: check everything that can be checked without a host."""

from __future__ import annotations

from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.cli.output import document, note, out, problem_lines
from vllm_fleet.cli.prepare import wanted
from vllm_fleet.errors import ExitCode
from vllm_fleet.text import some


def validate(options: GlobalOptions) -> ExitCode:
    """Check the inventory and its options; contacts no host."""
    from vllm_fleet.inventory.preflight import inspect

    found = inspect(wanted(options))
    report = found.report
    if options.json:
        document(
            "validate",
            ok=not report.problems,
            exit_code=int(ExitCode.CONFIG if report.problems else ExitCode.OK),
            fleet=found.fleet,
            hosts=list(found.inventory.selected),
            problems=[problem.as_dict() for problem in report.problems],
            warnings=[problem.as_dict() for problem in report.warnings],
            settled_at_run=report.settled_at_run,
        )
    else:
        for kind, problems in (("error", report.problems), ("warning", report.warnings)):
            for problem in problems:
                first, *rest = problem_lines(problem)
                note("\n".join([f"{kind}: {first}", *rest]))
        if report.settled_at_run:
            out(f"settled at run (templates): {some(report.settled_at_run)}")
        count = len(found.inventory.selected)
        verdict = f"{len(report.problems)} problems" if report.problems else "valid"
        out(f"fleet {found.fleet or '?'}: {count} hosts, {verdict}")
    return ExitCode.CONFIG if report.problems else ExitCode.OK
