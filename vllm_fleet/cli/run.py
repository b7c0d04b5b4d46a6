"""One run of the fleet's playbook: lock, run, judge, record, report."""

from __future__ import annotations

import getpass
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rich.console import Console

import vllm_fleet
from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.cli.output import note
from vllm_fleet.cli.prepare import wanted
from vllm_fleet.cli.summary import Finished, tell
from vllm_fleet.engine import runner
from vllm_fleet.engine.eventlog import EventLog, Sightings, Slimmer
from vllm_fleet.engine.judge import Judge, Verdict
from vllm_fleet.engine.live import LiveView, Tracker
from vllm_fleet.engine.narrate import EventsWriter, PlainView
from vllm_fleet.engine.queueing import Event, Handler
from vllm_fleet.engine.request import RunRequest
from vllm_fleet.engine.scrub import Scrubber
from vllm_fleet.errors import ConfigError, ExitCode, Problem
from vllm_fleet.inventory.preflight import Preflight, secrets
from vllm_fleet.state.lock import fleet_lock
from vllm_fleet.state.paths import database, fleet_dir, run_dir
from vllm_fleet.state.store import WHOLE, Result, RunStart, Store, new_run_id, open_store

COMPLAINTS = ("error", "verbose", "warning")
KEPT_COMPLAINTS = 12


@dataclass(frozen=True)
class Job:
    """What ``apply`` was asked to do."""

    check: bool = False
    diff: bool = False
    full: bool = False
    roles: tuple[str, ...] = ()


@dataclass
class Complaints:
    """What Ansible says outside of tasks: the only explanation when it never gets to one."""

    lines: list[str] = field(default_factory=list)

    def feed(self, event: Event) -> None:
        """Keep what is worth showing."""
        if event.get("event") in COMPLAINTS and (text := str(event.get("stdout", "")).strip()):
            self.lines = [*self.lines, text][-KEPT_COMPLAINTS:]


def run_job(options: GlobalOptions, found: Preflight, job: Job) -> ExitCode:
    """Run it under the fleet's lock, and report."""
    run_id = new_run_id()
    folder = fleet_dir(found.fleet)
    with (
        _events_file(options.events, run_id) as events,
        fleet_lock(folder, run_id),
        open_store(database(folder)) as store,
    ):
        store.close_dead(alive=run_id)
        store.begin(run_start(options, job, run_id))
        finished = _run(options, found, job, Output(run_id, run_dir(folder, run_id), events))
        record(store, finished)
    tell(finished, options.json, job.diff)
    return finished.code


def run_start(options: GlobalOptions, job: Job, run_id: str) -> RunStart:
    """Return what is recorded before anything happens."""
    selection: dict[str, Any] = {"limit": options.limit, "roles": list(job.roles)}
    return RunStart(
        id=run_id,
        command="apply",
        is_check=job.check,
        selection=selection | {"full": job.full},
        by_whom=os.environ.get("SUDO_USER") or getpass.getuser(),
        tool_version=vllm_fleet.__version__,
    )


def run_request(options: GlobalOptions, found: Preflight, job: Job) -> RunRequest:
    """Return what Ansible is to run."""
    asked = wanted(options)
    return RunRequest(
        playbook=found.playbook,
        inventories=found.inventory.sources,
        limit=options.limit,
        tags=job.roles,
        check=job.check,
        diff=job.diff,
        forks=options.forks,
        user=options.user,
        verbosity=0,
        extra_vars_files=asked.extra_vars_files,
        credentials=asked.credentials,
    )


@dataclass(frozen=True)
class Output:
    """Where a run leaves its traces."""

    run_id: str
    folder: Path
    events: EventsWriter | None

    @property
    def log(self) -> Path:
        """Return the file of the event log."""
        return self.folder / "events.jsonl.gz"


def _run(options: GlobalOptions, found: Preflight, job: Job, output: Output) -> Finished:
    """Run the playbook with everything that listens, and judge it."""
    began = time.monotonic()
    stages = job.roles or tuple(found.stages())
    tracker = Tracker(Judge(found.inventory.selected, found.expected(job.roles), stages))
    complaints, seen = Complaints(), Sightings()
    outcome = _execute(options, found, job, output, tracker, (complaints.feed, seen.feed))
    verdict = tracker.judge.verdict(finished=not outcome.cancelled_by)
    code = exit_code(outcome, verdict)
    if output.events:
        output.events.write({"kind": "end", "exit_code": int(code), "counts": verdict.counts()})
    return Finished(
        run_id=output.run_id,
        fleet=found.fleet,
        check=job.check,
        code=code,
        verdict=verdict,
        outcome=outcome,
        seconds=time.monotonic() - began,
        log=output.log,
        complaints=tuple(complaints.lines),
        seen=seen.hosts,
    )


def _execute(
    options: GlobalOptions,
    found: Preflight,
    job: Job,
    output: Output,
    tracker: Tracker,
    listeners: tuple[Handler, ...],
) -> runner.RunOutcome:
    """Run the playbook, and hand its events to everybody who listens."""
    slim = Slimmer(Scrubber(secrets(wanted(options), found.inventory)))
    with _event_log(output.log) as log, _view(options, tracker, found, job) as view:
        handlers: list[Handler] = [tracker.feed, log.write, *listeners, view.feed]
        if output.events:
            handlers.append(output.events.feed)
        return runner.run(run_request(options, found, job), handlers, slim)


def exit_code(outcome: runner.RunOutcome, verdict: Verdict) -> ExitCode:
    """Return what the run comes to."""
    if outcome.cancelled_by:
        return ExitCode.INTERRUPTED
    if any(error.startswith(Tracker.__name__) for error in outcome.handler_errors):
        return ExitCode.FAULT
    if not verdict.started_tasks:
        return ExitCode.CONFIG
    return verdict.exit_code()


def record(store: Store, finished: Finished) -> None:
    """Write down how it ended."""
    verdict = finished.verdict
    messages = {
        (host, cause.stage): cause.message for cause in verdict.causes for host in cause.hosts
    }
    results = []
    for host in verdict.hosts:
        for stage, status in host.stages.items():
            message = messages.get((host.host, stage), "")
            results.append(
                Result(host.host, stage, status.value, host.changed.get(stage, 0), message)
            )
        whole = next((text for (name, _), text in messages.items() if name == host.host), "")
        total = sum(host.changed.values())
        results.append(Result(host.host, WHOLE, host.status.value, total, whole or host.reason))
    stopped_at = verdict.stopped_at if finished.outcome.cancelled_by else ""
    store.see(finished.seen)
    store.finish(finished.run_id, finished.code, results, verdict.counts(), stopped_at)


@contextmanager
def _event_log(path: Path) -> Iterator[EventLog]:
    log = EventLog(path)
    try:
        yield log
    finally:
        log.close()


@contextmanager
def _events_file(name: str, run_id: str) -> Iterator[EventsWriter | None]:
    """Open the file of ``--events``, if one was named."""
    if not name:
        yield None
        return
    with _open(name) as file:
        yield EventsWriter(file, run_id)


def _open(name: str) -> IO[str]:
    try:
        return Path(name).open("w", encoding="utf-8")
    except OSError as error:
        problem = Problem(str(error.strerror), file=name)
        raise ConfigError("--events: the file cannot be written", [problem]) from error


def _view(
    options: GlobalOptions, tracker: Tracker, found: Preflight, job: Job
) -> LiveView | PlainView:
    """Return a live table on a terminal, plain lines elsewhere."""
    if sys.stderr.isatty() and not options.json:
        stages = [stage for stage in found.stages() if not job.roles or stage in job.roles]
        return LiveView(tracker, stages, Console(stderr=True))
    return PlainView(note, options.verbose)
