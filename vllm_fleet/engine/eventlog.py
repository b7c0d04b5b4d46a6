"""One compressed log of events for each run: what a judge needs, without secrets."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vllm_fleet.engine.queueing import Event
from vllm_fleet.engine.scrub import Scrubber

HEADER = ("counter", "event", "created", "uuid")
KEPT = (
    "name", "pattern", "play", "play_uuid", "play_pattern", "task", "task_uuid", "task_path",
    "task_action", "resolved_action", "role", "host", "start", "duration", "ignore_errors",
    "changed", "dark", "failures", "ignored", "ok", "processed", "rescued", "skipped",
)  # fmt: skip
# Of a task's result: never the arguments or facts, which is where secrets are.
KEPT_OF_RESULT = (
    "changed", "failed", "unreachable", "skipped", "skip_reason", "msg", "rc", "reason",
    "exception", "module_stderr", "stderr", "stdout", "warnings", "item", "ansible_loop_var",
    "censored", "diff", "failures", "reboot_required",
)  # fmt: skip
# The one fact that is kept: what a host is, as the module host_identity saw it.
IDENTITY = "vllm_fleet_host"
LONGEST = 4000


def tail(value: Any) -> Any:
    """Return the end of a long text; the end is where errors are."""
    if isinstance(value, str) and len(value) > LONGEST:
        return f"[{len(value) - LONGEST} characters left out]{value[-LONGEST:]}"
    return value


def slim_result(result: Any) -> Any:
    """Return what is kept of a result; an empty one stays empty, since that means unknown."""
    if not isinstance(result, Mapping) or not result:
        return result
    kept = {key: tail(result[key]) for key in KEPT_OF_RESULT if key in result}
    facts = result.get("ansible_facts")
    if isinstance(facts, Mapping) and IDENTITY in facts:
        kept["ansible_facts"] = {IDENTITY: facts[IDENTITY]}
    return kept or {"changed": False}


def slim(event: Event) -> Event:
    """Return what is kept of an event."""
    data = event.get("event_data") or {}
    kept = {key: data[key] for key in KEPT if key in data}
    if "res" in data:
        kept["res"] = slim_result(data["res"])
    small: Event = {
        key: event[key] for key in ("counter", "event", "created", "uuid") if key in event
    }
    if event.get("event") in {"verbose", "warning", "error", "deprecated", "system_warning"}:
        small["stdout"] = tail(event.get("stdout", ""))
    return {**small, "event_data": kept}


class Slimmer:
    """Makes events small and takes secrets out, before anything else sees them."""

    def __init__(self, scrubber: Scrubber) -> None:
        self.scrubber = scrubber

    def __call__(self, event: Event) -> Event:
        """Return what everybody may see of an event."""
        clean: Event = self.scrubber.data(slim(event))
        return clean


class Sightings:
    """Collects what hosts are, as a run sees them."""

    def __init__(self) -> None:
        self.hosts: dict[str, Mapping[str, Any]] = {}

    def feed(self, event: Event) -> None:
        """Take in one event that went through ``Slimmer``."""
        result = event["event_data"].get("res")
        if event.get("event") == "runner_on_ok" and isinstance(result, Mapping):
            identity = result.get("ansible_facts", {}).get(IDENTITY)
            if isinstance(identity, Mapping):
                self.hosts[str(event["event_data"].get("host"))] = identity


class EventLog:
    """Writes events as compressed JSON lines."""

    def __init__(self, path: Path) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._raw = os.fdopen(handle, "wb")
        self._file = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=5)

    def write(self, event: Event) -> None:
        """Add one event that went through ``Slimmer``; differences stay off the disk."""
        result = event["event_data"].get("res")
        if isinstance(result, Mapping) and "diff" in result:
            rest = {key: value for key, value in result.items() if key != "diff"}
            event = {**event, "event_data": {**event["event_data"], "res": rest}}
        self._file.write(json.dumps(event, ensure_ascii=False, default=str).encode() + b"\n")

    def close(self) -> None:
        """Finish the file."""
        self._file.close()
        self._raw.close()


def read(path: Path) -> Iterator[Event]:
    """Yield the events of a log, as far as it goes."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        try:
            for line in lines:
                yield json.loads(line)
        except EOFError:
            return
