"""Events go through a queue, so that whatever is done with them never slows Ansible down."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

from vllm_fleet.errors import Capture

Event = dict[str, Any]
Handler = Callable[[Event], None]


class EventQueue:
    """Takes events in microseconds, and hands them to the handlers in a thread of its own.

    A handler that raises is recorded and called again for the next event.
    """

    def __init__(
        self, handlers: Iterable[Handler], prepare: Callable[[Event], Event] | None = None
    ) -> None:
        self.handlers = tuple(handlers)
        self.prepare = prepare
        self.errors: list[str] = []
        self.taken = 0
        self._queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="events", daemon=True)
        self._thread.start()

    def put(self, event: Event) -> bool:
        """Take an event; False tells ansible-runner to write no file for it."""
        self._queue.put(event)
        return False

    def close(self) -> None:
        """Wait until every event has been handled."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (event := self._queue.get()) is not None:
            self.taken += 1
            if self.prepare is not None:
                event = self._call(self.prepare, event)
            for handler in self.handlers if event is not None else ():
                self._call(handler, event)

    def _call(self, function: Callable[[Event], Any], event: Event) -> Any:
        """Call a function; note what it raises and return nothing then."""
        with Capture() as boundary:
            return function(event)
        name = getattr(function, "__qualname__", repr(function))
        self.errors.append(f"{name}: {type(boundary.error).__name__}: {boundary.error}")
        return None
