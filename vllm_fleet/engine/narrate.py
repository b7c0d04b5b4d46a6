"""Tell a run's events in few words: for ``--events`` and for a log without a terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from vllm_fleet.engine.judge import STAGE_NAME
from vllm_fleet.engine.messages import message_of
from vllm_fleet.engine.queueing import Event

SCHEMA = "vllm-fleet/event/1"
RESULTS = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}


def narrate(event: Event) -> dict[str, Any] | None:
    """Return an event in few words, or nothing where it says nothing new."""
    name, data = event.get("event"), event.get("event_data") or {}
    if name == "playbook_on_play_start":
        return {"kind": "stage", "stage": stage_of(data), "play": str(data.get("name", ""))}
    if name == "playbook_on_task_start":
        return {"kind": "task", "stage": stage_of(data), "task": task_of(data)}
    if name in RESULTS:
        return _result(RESULTS[name], data)
    return None


def stage_of(data: Mapping[str, Any]) -> str:
    """Return the stage that an event belongs to."""
    found = STAGE_NAME.match(str(data.get("play") or data.get("name") or ""))
    return found.group(1) if found else ""


def task_of(data: Mapping[str, Any]) -> str:
    """Return the task's name."""
    return str(data.get("task") or data.get("name") or "")


def _result(status: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a host's result of a task."""
    result = data.get("res")
    if status == "ok":
        changed = isinstance(result, Mapping) and result.get("changed")
        status = "changed" if changed else "ok" if result else "unknown"
    if status == "failed" and data.get("ignore_errors"):
        status = "ok"
    told = {"kind": "result", "host": str(data.get("host", "")), "stage": stage_of(data)}
    told |= {"task": task_of(data), "status": status}
    if status in {"failed", "unreachable"}:
        told["message"] = message_of(result)
    return told


class EventsWriter:
    """Writes events as newline-delimited JSON while the run goes on."""

    def __init__(self, file: IO[str], run_id: str) -> None:
        self.file = file
        self.run_id = run_id

    def feed(self, event: Event) -> None:
        """Write an event, if it says something."""
        if (told := narrate(event)) is not None:
            self.write(told)

    def write(self, told: Mapping[str, Any]) -> None:
        """Write one line."""
        line = {"schema": SCHEMA, "run": self.run_id, "time": round(time.time(), 3), **told}
        self.file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.file.flush()


class PlainView:
    """Says what happens in plain lines, where there is no terminal."""

    def __init__(self, say: Callable[[str], None], verbose: int = 0) -> None:
        self.say = say
        self.verbose = verbose
        self._stage = ""

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_error: object) -> None:
        """Nothing to tidy up."""

    def feed(self, event: Event) -> None:
        """Say what an event tells."""
        told = narrate(event)
        if told is None:
            return
        if told["kind"] == "stage" and told["stage"] != self._stage:
            self._stage = told["stage"]
            self._line(f"stage {self._stage or 'other'}")
        if told["kind"] == "result" and self._is_news(told["status"]):
            reason = f": {first_line(told['message'])}" if "message" in told else ""
            self._line(f"  {told['host']} {told['status']}: {told['task']}{reason}")

    def _is_news(self, status: str) -> bool:
        return bool(self.verbose) or status not in {"ok", "skipped"}

    def _line(self, text: str) -> None:
        self.say(f"{time.strftime('%H:%M:%S')} {text}")


def first_line(text: str) -> str:
    """Return the first line of a text."""
    return text.strip().split("\n")[0]
