"""Judge a run by its events: good is only the host whose events say so.

Pure: events in, verdict out. Failed, unreachable and silent hosts are told apart, and whatever
was not seen is *unknown*, never ok.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from vllm_fleet.engine.diffs import diff_text
from vllm_fleet.engine.messages import cause_of, message_of
from vllm_fleet.engine.queueing import Event
from vllm_fleet.errors import ExitCode, worst

STAGE_NAME = re.compile(r"^Stage (\w+):")
OTHER_STAGE = "other"


class Status(str, Enum):
    """How a host fared, worst first."""

    FAILED = "failed"
    UNREACHABLE = "unreachable"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    OK = "ok"
    SKIPPED = "skipped"
    UNTOUCHED = "untouched"


RANK = {status: rank for rank, status in enumerate(Status)}
GOOD = frozenset({Status.OK, Status.CHANGED, Status.SKIPPED, Status.UNTOUCHED})


@dataclass(frozen=True)
class Failure:
    """One task that went wrong on one host."""

    host: str
    stage: str
    task: str
    message: str
    status: Status


@dataclass(frozen=True)
class Change:
    """One task that changed something on one host (or would, in check mode)."""

    host: str
    stage: str
    task: str
    diff: str = ""


@dataclass(frozen=True)
class Cause:
    """Failures that look the same."""

    stage: str
    task: str
    message: str
    status: Status
    hosts: tuple[str, ...]


@dataclass
class Cell:
    """One host in one stage, while it runs."""

    ok: int = 0
    changed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    blank: bool = False

    def status(self, rescued: Collection[int] = ()) -> Status:
        """Return how the host stands here; failures that a task rescued do not count."""
        real = [item for item in self.failures if id(item) not in rescued]
        if real:
            return min((item.status for item in real), key=RANK.__getitem__)
        if self.open or self.blank:
            return Status.UNKNOWN
        if self.changed:
            return Status.CHANGED
        if self.ok or self.failures:
            return Status.OK
        return Status.SKIPPED if self.skipped else Status.UNTOUCHED


@dataclass(frozen=True)
class HostVerdict:
    """How one host fared."""

    host: str
    status: Status
    stages: dict[str, Status]
    changed: dict[str, int]
    reason: str = ""


@dataclass(frozen=True)
class Verdict:
    """How the run went."""

    hosts: tuple[HostVerdict, ...]
    stages: tuple[str, ...]
    causes: tuple[Cause, ...]
    changes: tuple[Change, ...]
    complete: bool
    gaps: int
    started_tasks: int
    # Hosts on which something waits for a reboot.
    reboot_pending: tuple[str, ...] = ()
    stopped_at: str = ""

    def counts(self) -> dict[str, int]:
        """Return how many hosts fared how."""
        return {
            status.value: sum(host.status is status for host in self.hosts) for status in Status
        }

    def exit_code(self) -> ExitCode:
        """Return what the hosts' results come to."""
        statuses = {host.status for host in self.hosts}
        codes = set()
        if statuses & {Status.FAILED, Status.UNKNOWN}:
            codes.add(ExitCode.FAILED)
        if Status.UNREACHABLE in statuses:
            codes.add(ExitCode.UNREACHABLE)
        if self.reboot_pending:
            codes.add(ExitCode.WAITING)
        if statuses <= {Status.UNTOUCHED}:
            codes.add(ExitCode.CONFIG)
        return worst(codes)


class Judge:
    """Takes events one by one, and gives the verdict at the end."""

    def __init__(
        self,
        hosts: Iterable[str],
        expected: Mapping[str, Collection[str]] | None = None,
        wanted: Collection[str] = (),
    ) -> None:
        self.hosts = list(dict.fromkeys(hosts))
        self.expected = expected or {}
        # Stages that were asked for. Others only run what Ansible always runs, which says
        # nothing about a host, unless it goes wrong.
        self.wanted = frozenset(wanted)
        self.cells: dict[tuple[str, str], Cell] = {}
        self.stages: list[str] = []
        self.stage = OTHER_STAGE
        self.task = ""
        self.changes: list[Change] = []
        self.stats: dict[str, Any] | None = None
        self.stopped_early = False
        self.started_tasks = 0
        self._last_task = ""
        self._last_task_hosts: set[str] = set()
        self._reboot: dict[tuple[str, str], bool] = {}
        self._item_messages: dict[tuple[str, str], list[str]] = {}
        self._last_counter = 0
        self._gaps = 0

    def feed(self, event: Event) -> None:
        """Take in one event."""
        self._count(event)
        name = str(event.get("event", ""))
        handler = getattr(self, f"_{name}", None)
        if handler is not None:
            handler(event.get("event_data") or {})

    def _count(self, event: Event) -> None:
        """Notice events that never came."""
        counter = event.get("counter")
        if "event" not in event:
            # ansible-runner could not read the event's data: it was lost on the way.
            self._gaps += 1
        if isinstance(counter, int):
            self._gaps += max(0, counter - self._last_counter - 1)
            self._last_counter = max(counter, self._last_counter)

    def _playbook_on_play_start(self, data: Mapping[str, Any]) -> None:
        found = STAGE_NAME.match(str(data.get("name") or data.get("play") or ""))
        self.stage = found.group(1) if found else OTHER_STAGE
        if self.stage not in self.stages:
            self.stages.append(self.stage)

    def _playbook_on_task_start(self, data: Mapping[str, Any]) -> None:
        self.started_tasks += 1
        self.task = str(data.get("task") or data.get("name") or "")

    def _playbook_on_no_hosts_remaining(self, _data: Mapping[str, Any]) -> None:
        self.stopped_early = True

    def _playbook_on_stats(self, data: Mapping[str, Any]) -> None:
        self.stats = dict(data)

    def _runner_on_start(self, data: Mapping[str, Any]) -> None:
        uuid = str(data.get("task_uuid", ""))
        if uuid != self._last_task:
            self._last_task, self._last_task_hosts = uuid, set()
        self._last_task_hosts.add(self._host(data))
        self._cell(data).open.add(uuid)

    def _runner_on_ok(self, data: Mapping[str, Any]) -> None:
        cell = self._close(data)
        result = data.get("res")
        self._note_reboot(data, result)
        # ansible-runner puts {} in place of a result that is too large (runner #1381).
        cell.blank = cell.blank or not result
        cell.ok += 1
        if isinstance(result, Mapping) and result.get("changed"):
            cell.changed += 1
            self.changes.append(self._change(data, result))

    def _runner_on_skipped(self, data: Mapping[str, Any]) -> None:
        self._close(data).skipped += 1

    def _runner_on_failed(self, data: Mapping[str, Any]) -> None:
        cell = self._close(data)
        if data.get("ignore_errors"):
            cell.ok += 1
        else:
            cell.failures.append(self._failure(data, Status.FAILED))

    def _runner_on_unreachable(self, data: Mapping[str, Any]) -> None:
        self._close(data).failures.append(self._failure(data, Status.UNREACHABLE))

    def _runner_item_on_failed(self, data: Mapping[str, Any]) -> None:
        key = (self._host(data), str(data.get("task_uuid", "")))
        self._item_messages.setdefault(key, []).append(message_of(data.get("res")))

    def _runner_item_on_ok(self, data: Mapping[str, Any]) -> None:
        self._note_reboot(data, data.get("res"))
        if not data.get("res"):
            self._cell(data).blank = True

    def _note_reboot(self, data: Mapping[str, Any], result: Any) -> None:
        """Note what a task says about a reboot; the last word of each task counts."""
        if isinstance(result, Mapping) and "reboot_required" in result:
            key = (self._host(data), f"{data.get('task', '')}{result.get('item', '')}")
            self._reboot[key] = bool(result["reboot_required"])

    def _host(self, data: Mapping[str, Any]) -> str:
        return str(data.get("host", ""))

    def _cell(self, data: Mapping[str, Any]) -> Cell:
        found = STAGE_NAME.match(str(data.get("play") or ""))
        stage = found.group(1) if found else self.stage
        return self.cells.setdefault((self._host(data), stage), Cell())

    def _close(self, data: Mapping[str, Any]) -> Cell:
        cell = self._cell(data)
        cell.open.discard(str(data.get("task_uuid", "")))
        return cell

    def _failure(self, data: Mapping[str, Any], status: Status) -> Failure:
        host, task_uuid = self._host(data), str(data.get("task_uuid", ""))
        items = self._item_messages.get((host, task_uuid))
        message = items[0] if items else message_of(data.get("res"))
        return Failure(host, self._stage_of(data), str(data.get("task", "")), message, status)

    def _stage_of(self, data: Mapping[str, Any]) -> str:
        found = STAGE_NAME.match(str(data.get("play") or ""))
        return found.group(1) if found else self.stage

    def _change(self, data: Mapping[str, Any], result: Mapping[str, Any]) -> Change:
        task = str(data.get("task", ""))
        return Change(self._host(data), self._stage_of(data), task, diff_text(result.get("diff")))

    # The verdict

    def verdict(self, finished: bool = True) -> Verdict:
        """Return the verdict; ``finished`` says that the process ended by itself."""
        complete = finished and self.stats is not None and not self.stopped_early
        rescued = self._rescued()
        names = list(dict.fromkeys([*self.hosts, *(host for host, _ in self.cells)]))
        hosts = [self._host_verdict(name, rescued, complete) for name in names if name]
        real = [item for item in self._failures() if id(item) not in rescued]
        return Verdict(
            hosts=tuple(hosts),
            stages=tuple(self.stages),
            causes=tuple(group(real, names)),
            changes=tuple(self.changes),
            complete=complete,
            gaps=self._gaps,
            started_tasks=self.started_tasks,
            reboot_pending=tuple(
                dict.fromkeys(host for (host, _), pending in self._reboot.items() if pending)
            ),
            stopped_at="" if complete else f"{self.stage}: {self.task}" if self.task else "start",
        )

    def _failures(self) -> list[Failure]:
        return [failure for cell in self.cells.values() for failure in cell.failures]

    def _rescued(self) -> set[int]:
        """Return the failures (by identity) that a rescue made good, as the statistics say."""
        if self.stats is None or not self.stats.get("rescued"):
            return set()
        rescued: set[int] = set()
        for host, count in self.stats["rescued"].items():
            mine = [f for f in self._failures() if f.host == host and f.status is Status.FAILED]
            rescued |= {id(failure) for failure in mine[: int(count)]}
        return rescued

    def _host_verdict(self, host: str, rescued: set[int], complete: bool) -> HostVerdict:
        mine = {stage: cell for (name, stage), cell in self.cells.items() if name == host}
        stages = {stage: cell.status(rescued) for stage, cell in mine.items()}
        stages = {stage: status for stage, status in stages.items() if self._counts(stage, status)}
        status = min(stages.values(), key=RANK.__getitem__, default=Status.UNTOUCHED)
        reason = ""
        if status in GOOD:
            reason = self._doubt(host, stages, complete)
            status = Status.UNKNOWN if reason else status
        elif status is Status.UNKNOWN:
            reason = "a task gave no result"
        changed = {stage: mine[stage].changed for stage in stages}
        return HostVerdict(host, status, stages, changed, reason)

    def _counts(self, stage: str, status: Status) -> bool:
        """Say whether a stage says something about a host."""
        return not self.wanted or stage in self.wanted or status not in GOOD

    def _doubt(self, host: str, stages: Mapping[str, Status], complete: bool) -> str:
        """Return why a host that looks good cannot be called so."""
        if not complete:
            return self._cut_off(host, stages)
        seen = any(name == host for name, _ in self.cells)
        if host in (self.stats or {}).get("processed", {}) and not seen:
            return "Ansible worked on it, but no event of it arrived"
        if self._gaps and not self._agrees_with_statistics(host):
            return f"{self._gaps} events are missing"
        return ""

    def _cut_off(self, host: str, stages: Mapping[str, Status]) -> str:
        """Return why a host of a run that stopped early may not be done."""
        if not stages:
            return "the run stopped before this host"
        if self.stats is None or host in self._last_task_hosts:
            return "the run stopped while this host was at work"
        if set(self.expected.get(host, ("?",))) <= set(stages):
            return ""
        return "the run stopped before this host was done"

    def _agrees_with_statistics(self, host: str) -> bool:
        """Say whether as many results arrived as Ansible counted."""
        cells = [cell for (name, _), cell in self.cells.items() if name == host]
        stats = self.stats or {}
        counted = [stats.get(key, {}).get(host, 0) for key in ("ok", "changed", "skipped")]
        return counted == [
            sum(cell.ok for cell in cells),
            sum(cell.changed for cell in cells),
            sum(cell.skipped for cell in cells),
        ]


def group(failures: Iterable[Failure], hosts: Collection[str]) -> list[Cause]:
    """Group failures that look the same, the most frequent first."""
    groups: dict[tuple[str, str, str, Status], list[Failure]] = {}
    for failure in failures:
        cause = cause_of(failure.message, hosts)
        key = (failure.stage, failure.task, cause, failure.status)
        groups.setdefault(key, []).append(failure)
    ordered = sorted(groups.values(), key=len, reverse=True)
    return [
        Cause(
            stage=items[0].stage,
            task=items[0].task,
            message=items[0].message,
            status=items[0].status,
            hosts=tuple(dict.fromkeys(item.host for item in items)),
        )
        for items in ordered
    ]
