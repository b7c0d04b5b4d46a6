"""The role tests' own harness: a role run that it misreads would make every role test lie."""

from __future__ import annotations

import pytest
from harness import RunResult, TaskResult


def test_changed_counts_only_changed_tasks() -> None:
    tasks = [
        TaskResult("ok", "a", "copy", {"changed": True}),
        TaskResult("ok", "b", "copy", {"changed": False}),
        TaskResult("failed", "c", "copy", {"changed": True, "msg": "no"}),
    ]
    run = RunResult(2, "", tasks)
    assert run.changed == ["a"]
    assert run.failed == [("c", "no")]
    assert not run.ok


@pytest.mark.parametrize("status", ["failed", "unreachable"])
def test_message_of_a_loop_is_that_of_its_first_failed_item(status: str) -> None:
    items = {"results": [{"msg": "fine"}, {"failed": True, "msg": "broken"}]}
    assert TaskResult(status, "t", "file", items).message == "broken"
