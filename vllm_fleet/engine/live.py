"""Show a run on a terminal: hosts by stages, while it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from vllm_fleet.engine.judge import RANK, Cell, Judge, Status
from vllm_fleet.engine.queueing import Event
from vllm_fleet.text import clean

STYLES = {
    Status.FAILED: "bold red",
    Status.UNREACHABLE: "magenta",
    Status.UNKNOWN: "yellow",
    Status.CHANGED: "cyan",
    Status.OK: "green",
    Status.SKIPPED: "dim",
    Status.UNTOUCHED: "dim",
}
# Room for the heading, the current task and the counts.
FRAME_LINES = 8


class Tracker:
    """Feeds the judge; a lock keeps the display from reading half a change."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.lock = threading.Lock()

    def feed(self, event: Event) -> None:
        """Take in one event."""
        with self.lock:
            self.judge.feed(event)


class LiveView:
    """A table that Rich redraws a few times a second."""

    def __init__(self, tracker: Tracker, stages: Sequence[str], console: Console) -> None:
        self.tracker = tracker
        self.stages = list(stages)
        self.console = console
        self.began = time.monotonic()
        self.live = Live(
            console=console, get_renderable=self.table, refresh_per_second=4, transient=True
        )

    def __enter__(self) -> LiveView:
        self.live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.live.stop()

    def feed(self, _event: Event) -> None:
        """The table reads the judge by itself."""

    def table(self) -> Table:
        """Return the table as things stand."""
        judge = self.tracker.judge
        with self.tracker.lock:
            cells = dict(judge.cells)
            rows = {host: self._row(host, cells) for host in judge.hosts}
            now = f"{judge.stage}: {judge.task}" if judge.task else "connecting"
        return self._draw(rows, now)

    def _draw(self, rows: dict[str, list[tuple[Status, Text]]], now: str) -> Table:
        room = max(self.console.height - FRAME_LINES, 3)
        worst_first = sorted(rows, key=lambda host: min((RANK[s] for s, _ in rows[host])))
        shown = [host for host in rows if host in set(worst_first[:room])]
        left = len(rows) - len(shown)
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        caption = f"{minutes}:{seconds:02d}  {clean(now)}" + (f"  (+{left} hosts)" if left else "")
        table = Table(caption=Text(caption), caption_justify="left", expand=False)
        for name in ("host", *self.stages):
            table.add_column(name, no_wrap=True)
        for host in shown:
            table.add_row(Text(clean(host)), *(text for _, text in rows[host]))
        return table

    def _row(self, host: str, cells: dict[tuple[str, str], Cell]) -> list[tuple[Status, Text]]:
        return [cell_text(cells.get((host, stage))) for stage in self.stages] or [
            (Status.UNTOUCHED, Text(""))
        ]


def cell_text(cell: Cell | None) -> tuple[Status, Text]:
    """Return how a host stands in a stage, in a word and a colour."""
    if cell is None:
        return Status.UNTOUCHED, Text("-", style="dim")
    if cell.open and not cell.failures:
        return Status.OK, Text("working", style="blue")
    status = cell.status()
    count = f" {cell.changed}" if status is Status.CHANGED else ""
    return status, Text(f"{status.value}{count}", style=STYLES[status])
