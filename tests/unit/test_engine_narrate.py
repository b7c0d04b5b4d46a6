"""What is told while a run goes on."""

from __future__ import annotations

import io
import json
from typing import Any

from rich.console import Console

from vllm_fleet.cli.tables import table
from vllm_fleet.engine.judge import Judge
from vllm_fleet.engine.live import LiveView, Tracker
from vllm_fleet.engine.narrate import EventsWriter, PlainView, narrate
from vllm_fleet.text import clean, duration, some

PLAY = "Stage os_baseline: Prepare"


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"play": PLAY, "task": "Do it", **data}}


EVENTS = [
    event("playbook_on_play_start", name=PLAY),
    event("playbook_on_task_start"),
    event("runner_on_start", host="a", task_uuid="1"),
    event("runner_on_start", host="b", task_uuid="1"),
    event("runner_on_ok", host="a", task_uuid="1", res={"changed": True}),
    event("runner_on_failed", host="b", task_uuid="1", res={"msg": "first\x1b[2J\nsecond"}),
    event("runner_on_ok", host="c", res={}),
    event("runner_on_skipped", host="d", res={"skipped": True}),
    event("verbose"),
]


def test_events_in_few_words() -> None:
    told = [item for item in map(narrate, EVENTS) if item]
    assert [item["kind"] for item in told] == ["stage", "task", *["result"] * 4]
    assert [item["status"] for item in told[2:]] == ["changed", "failed", "unknown", "skipped"]
    assert told[3] == {
        "kind": "result",
        "host": "b",
        "stage": "os_baseline",
        "task": "Do it",
        "status": "failed",
        "message": "first\x1b[2J\nsecond",
    }


def test_events_are_written_as_lines() -> None:
    file = io.StringIO()
    writer = EventsWriter(file, "run-1")
    for item in EVENTS:
        writer.feed(item)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert len(lines) == 6
    assert {(line["schema"], line["run"]) for line in lines} == {("vllm-fleet/event/1", "run-1")}


def test_plain_lines_tell_news_only() -> None:
    said: list[str] = []
    with PlainView(said.append) as view:
        for item in [*EVENTS, EVENTS[0]]:
            view.feed(item)
    assert [line.split(" ", 1)[1] for line in said] == [
        "stage os_baseline",
        "  a changed: Do it",
        "  b failed: Do it: first\x1b[2J",
        "  c unknown: Do it",
    ]


def draw(height: int, hosts: list[str]) -> str:
    """Return the live table as text."""
    tracker = Tracker(Judge(hosts))
    console = Console(file=io.StringIO(), width=80, height=height)
    view = LiveView(tracker, ["os_baseline", "hugepages"], console)
    for item in EVENTS:
        tracker.feed(item)
    console.print(view.table())
    return console.file.getvalue()


def test_the_live_table_shows_hosts_by_stages() -> None:
    text = draw(40, ["a", "b", "e"])
    rows = [line for line in text.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    assert cells == [["a", "changed 1", "-"], ["b", "failed", "-"], ["e", "-", "-"]]
    assert "os_baseline: Do it" in text


def test_where_there_is_no_room_the_worst_hosts_are_shown() -> None:
    text = draw(11, ["b", *(f"h{number:03}" for number in range(100))])
    assert "failed" in text
    assert "(+98 hosts)" in " ".join(text.split())


def test_text_for_people() -> None:
    assert clean("a\x1b]8;;http://x\x07b\x00\u202ec\td\r\n") == "abc\td\n"
    assert some("abc", 2) == "a, b and 1 more"
    assert some("abc") == "a, b, c"
    assert (duration(59.4), duration(125)) == ("59 s", "2 min 5 s")


def test_tables_count_wide_characters() -> None:
    text = table(("host", "x"), [("节点", "1"), ("ab", "\x1b[31m2")])
    assert text.splitlines() == ["host  x", "节点  1", "ab    2"]
