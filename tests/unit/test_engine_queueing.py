"""The queue between ansible-runner and what is done with its events (BR-65)."""

from __future__ import annotations

import threading
import time
from typing import Any

from vllm_fleet.engine.queueing import EventQueue


def test_BR_65_a_slow_handler_does_not_slow_the_run_down_and_loses_nothing() -> None:
    release = threading.Event()
    seen: list[int] = []

    def slow(event: dict[str, Any]) -> None:
        release.wait(10)
        seen.append(event["counter"])

    queue = EventQueue([slow])
    began = time.monotonic()
    for counter in range(10_000):
        assert queue.put({"counter": counter}) is False
    assert time.monotonic() - began < 2
    assert seen == []
    release.set()
    queue.close()
    assert seen == list(range(10_000))
    assert queue.taken == 10_000


def test_BR_65_a_handler_that_raises_is_recorded_and_called_again() -> None:
    seen: list[int] = []

    def moody(event: dict[str, Any]) -> None:
        if event["counter"] == 1:
            raise ValueError("once")
        seen.append(event["counter"])

    others: list[dict[str, Any]] = []
    queue = EventQueue([moody, others.append])
    for counter in range(3):
        queue.put({"counter": counter})
    queue.close()
    assert seen == [0, 2]
    assert len(others) == 3
    assert len(queue.errors) == 1
    assert queue.errors[0].endswith("moody: ValueError: once")


def test_events_are_prepared_once_for_all() -> None:
    seen: list[Any] = []
    queue = EventQueue([seen.append, seen.append], lambda event: {"small": event["counter"]})
    queue.put({"counter": 1})
    queue.put({"nothing": 2})
    queue.put({"counter": 3})
    queue.close()
    assert seen == [{"small": 1}] * 2 + [{"small": 3}] * 2
    assert "KeyError" in queue.errors[0]
