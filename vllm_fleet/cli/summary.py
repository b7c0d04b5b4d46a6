"""What a run says at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vllm_fleet.cli.output import document, note, out
from vllm_fleet.engine.judge import Cause, HostVerdict, Status, Verdict
from vllm_fleet.engine.runner import RunOutcome
from vllm_fleet.errors import ExitCode
from vllm_fleet.text import duration, some

MAX_CAUSES = 10


@dataclass(frozen=True)
class Finished:
    """A run that has ended."""

    run_id: str
    fleet: str
    check: bool
    code: ExitCode
    verdict: Verdict
    outcome: RunOutcome
    seconds: float
    log: Path
    complaints: tuple[str, ...] = ()
    # What each host is, as this run saw it.
    seen: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def tell(run: Finished, as_json: bool, with_diff: bool = False) -> None:
    """Report a run in the form that was asked for."""
    if as_json:
        document("apply", **as_data(run, with_diff))
    else:
        for line in lines(run, with_diff):
            out(line)
    for error in run.outcome.handler_errors[:3]:
        note(f"vllm-fleet: while events were handled: {error}")


def as_data(run: Finished, with_diff: bool) -> dict[str, Any]:
    """Return a run as plain data."""
    verdict = run.verdict
    return {
        "run": run.run_id,
        "fleet": run.fleet,
        "check": run.check,
        "exit_code": int(run.code),
        "seconds": round(run.seconds, 1),
        "counts": verdict.counts(),
        "complete": verdict.complete,
        "stopped_at": verdict.stopped_at,
        "missing_events": verdict.gaps,
        "reboot_pending": list(verdict.reboot_pending),
        "hosts": {host.host: _host(host) for host in verdict.hosts},
        "failures": [_cause(cause) for cause in verdict.causes],
        "changes": [_change(change, with_diff) for change in verdict.changes],
        "complaints": [] if verdict.started_tasks else list(run.complaints),
        "log": str(run.log),
    }


def _host(host: HostVerdict) -> dict[str, Any]:
    stages = {
        stage: {"status": status.value, "changed": host.changed.get(stage, 0)}
        for stage, status in host.stages.items()
    }
    return {
        "status": host.status.value,
        "changed": sum(host.changed.values()),
        "reason": host.reason,
        "stages": stages,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    told = {"stage": cause.stage, "task": cause.task, "message": cause.message}
    return told | {"status": cause.status.value, "hosts": list(cause.hosts)}


def _change(change: Any, with_diff: bool) -> dict[str, Any]:
    told = {"host": change.host, "stage": change.stage, "task": change.task}
    return told | ({"diff": change.diff} if with_diff else {})


def lines(run: Finished, with_diff: bool) -> Iterator[str]:
    """Yield a run as lines for people."""
    verdict = run.verdict
    if with_diff:
        yield from diffs(verdict)
    yield from causes(verdict)
    yield from doubts(verdict)
    if not verdict.started_tasks:
        yield "Ansible stopped before the first task; nothing was touched. It says:"
        yield from (f"  {line}" for text in run.complaints for line in text.splitlines())
    yield from changes(verdict, run.check)
    if verdict.reboot_pending:
        yield f"waits for a reboot: {some(verdict.reboot_pending)}"
    counts = verdict.counts()
    told = ", ".join(f"{counts[status.value]} {status.value}" for status in _shown(counts))
    yield f"fleet {run.fleet}: {told} in {duration(run.seconds)} (run {run.run_id})"
    yield from next_step(run)


def _shown(counts: dict[str, int]) -> list[Status]:
    """Return the results that are worth a word: the usual ones, and those that occurred."""
    usual = {Status.OK, Status.CHANGED, Status.FAILED, Status.UNREACHABLE, Status.UNKNOWN}
    order = (Status.OK, Status.CHANGED, Status.SKIPPED, Status.UNTOUCHED, Status.FAILED,
             Status.UNREACHABLE, Status.UNKNOWN)  # fmt: skip
    return [status for status in order if status in usual or counts[status.value]]


def causes(verdict: Verdict) -> Iterator[str]:
    """Yield failures by cause, the most frequent first."""
    for cause in verdict.causes[:MAX_CAUSES]:
        hosts = f"{len(cause.hosts)} host{'s' if len(cause.hosts) > 1 else ''}"
        yield f"{cause.status.value} on {hosts}: {cause.stage}: {cause.task}"
        yield from (f"    {line}" for line in cause.message.splitlines())
        yield f"    hosts: {some(cause.hosts)}"
    left = len(verdict.causes) - MAX_CAUSES
    if left > 0:
        yield f"and {left} more causes; --json lists them all"


def doubts(verdict: Verdict) -> Iterator[str]:
    """Yield the hosts whose result is unknown, by reason."""
    by_reason: dict[str, list[str]] = {}
    for host in verdict.hosts:
        if host.status is Status.UNKNOWN:
            by_reason.setdefault(host.reason, []).append(host.host)
    for reason, hosts in by_reason.items():
        yield f"unknown: {reason}"
        yield f"    hosts: {some(hosts)}"


def changes(verdict: Verdict, check: bool) -> Iterator[str]:
    """Yield what was changed, or would be, by task."""
    by_task: dict[tuple[str, str], list[str]] = {}
    for change in verdict.changes:
        by_task.setdefault((change.stage, change.task), []).append(change.host)
    if by_task:
        yield "would change:" if check else "changed:"
    for (stage, task), hosts in by_task.items():
        yield f"    {stage}: {task} ({some(dict.fromkeys(hosts), 4)})"


def diffs(verdict: Verdict) -> Iterator[str]:
    """Yield what ``--diff`` shows."""
    for change in verdict.changes:
        if change.diff:
            yield f"--- {change.host}: {change.stage}: {change.task}"
            yield change.diff


def next_step(run: Finished) -> Iterator[str]:
    """Yield what to do next."""
    code, statuses = run.code, {host.status for host in run.verdict.hosts}
    if code is ExitCode.INTERRUPTED:
        yield f"Stopped by {run.outcome.cancelled_by} at {run.verdict.stopped_at}."
        # Seen over ssh: the program of the task that was cut off goes on on the host.
        yield "What that task started on the hosts may go on there for a while."
        yield "Next: run apply again; it starts from whatever state the hosts are in."
    elif any("Host key verification failed" in c.message for c in run.verdict.causes):
        yield "Next: compare these hosts' keys with their consoles, and add them to known_hosts."
    elif Status.UNREACHABLE in statuses and Status.FAILED not in statuses:
        yield "Next: check that these hosts answer over ssh, then run apply again."
    elif code is ExitCode.FAILED:
        yield f"Next: repair the cause above and run apply again. Events: {run.log}"
    elif code is ExitCode.WAITING:
        yield "Next: reboot these hosts when it suits you, then run apply again."
    elif code is ExitCode.CONFIG and run.verdict.started_tasks == 0:
        yield f"Next: repair what Ansible complains about. Events: {run.log}"
    elif statuses <= {Status.UNTOUCHED}:
        yield "No play works on the selected hosts: check their groups and --roles."
