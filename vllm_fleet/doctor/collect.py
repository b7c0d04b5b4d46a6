"""Take in what the examination of each host gave, event by event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_fleet.engine.messages import message_of
from vllm_fleet.engine.queueing import Event
from vllm_fleet.engine.scrub import Scrubber
from vllm_fleet.errors import ExitCode, worst

ACTION = "host_findings"
EXAMINED, UNREACHABLE, FAILED, UNKNOWN = "examined", "unreachable", "failed", "unknown"
COMPLAINTS = ("error", "warning")


@dataclass
class Examined:
    """What is known about one host."""

    status: str = UNKNOWN
    message: str = ""
    timed_out: bool = False
    findings: list[dict[str, str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


class Collector:
    """Keeps the last word on each host; a host that never came up stays unknown."""

    def __init__(self, hosts: Iterable[str], scrubber: Scrubber) -> None:
        self.hosts = {host: Examined() for host in hosts}
        self.scrubber = scrubber
        self.complaints: list[str] = []
        self.started = False

    def feed(self, event: Event) -> None:
        """Take in one event."""
        kind, data = str(event.get("event", "")), event.get("event_data") or {}
        if kind in COMPLAINTS and (text := str(event.get("stdout", "")).strip()):
            self.complaints.append(self.scrubber.text(text))
        if not str(data.get("task_action", "")).endswith(ACTION):
            return
        self.started = True
        status = {
            "runner_on_ok": EXAMINED,
            "runner_on_failed": FAILED,
            "runner_on_unreachable": UNREACHABLE,
        }.get(kind)
        if status and data.get("host") in self.hosts:
            self.hosts[data["host"]] = self._host(status, data.get("res"))

    def _host(self, status: str, result: Any) -> Examined:
        """Return a host by the result of its task, without secrets."""
        if not isinstance(result, Mapping) or (status == EXAMINED and "findings" not in result):
            return Examined(UNKNOWN, "its result did not arrive whole")
        clean = self.scrubber.data(result)
        return Examined(
            status,
            "" if status == EXAMINED else message_of(clean),
            bool(clean.get("timedout")),
            list(clean.get("findings", [])),
            dict(clean.get("facts", {})),
        )

    def counts(self) -> dict[str, int]:
        """Return how many hosts ended how."""
        statuses = [host.status for host in self.hosts.values()]
        return {name: statuses.count(name) for name in (EXAMINED, UNREACHABLE, FAILED, UNKNOWN)}

    def exit_code(self) -> ExitCode:
        """Return what the hosts come to."""
        counts = self.counts()
        codes = set()
        if counts[FAILED] or counts[UNKNOWN]:
            codes.add(ExitCode.FAILED)
        if counts[UNREACHABLE]:
            codes.add(ExitCode.UNREACHABLE)
        if any(host.findings for host in self.hosts.values()):
            codes.add(ExitCode.CHANGES)
        return worst(codes)
