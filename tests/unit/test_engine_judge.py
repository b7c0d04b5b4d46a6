"""The judge: events in, verdict out."""

from __future__ import annotations

from typing import Any

import pytest

from vllm_fleet.engine.diffs import diff_text
from vllm_fleet.engine.judge import Judge, Status, Verdict
from vllm_fleet.engine.messages import cause_of, message_of
from vllm_fleet.errors import ExitCode

OK = {"changed": False}
PLAY = "Stage {}: Do it"


class Run:
    """Builds a run's events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.stage = ""
        self.task = ""

    def add(self, event: str, **data: Any) -> Run:
        counter = len(self.events) + 1
        self.events.append({"counter": counter, "event": event, "event_data": data})
        return self

    def play(self, stage: str) -> Run:
        self.stage = PLAY.format(stage)
        return self.add("playbook_on_play_start", name=self.stage)

    def task_start(self, name: str, *hosts: str) -> Run:
        self.task = name
        self.add("playbook_on_task_start", task=name, play=self.stage)
        for host in hosts:
            self.on("start", host)
        return self

    def on(self, what: str, host: str, **data: Any) -> Run:
        names = {"host": host, "play": self.stage, "task": self.task, "task_uuid": self.task}
        return self.add(f"runner_on_{what}", **names, **data)

    def good_task(self, name: str, *hosts: str, changed: bool = False) -> Run:
        self.task_start(name, *hosts)
        for host in hosts:
            self.on("ok", host, res={"changed": changed})
        return self

    def stats(self, **counts: Any) -> Run:
        return self.add("playbook_on_stats", **counts)

    def verdict(self, *hosts: str, finished: bool = True, **settings: Any) -> Verdict:
        judge = Judge(hosts, **settings)
        for event in self.events:
            judge.feed(event)
        return judge.verdict(finished)


def statuses(verdict: Verdict) -> dict[str, str]:
    return {host.host: host.status.value for host in verdict.hosts}


def test_ok_changed_and_skipped_are_good() -> None:
    run = Run().play("os_baseline").good_task("t", "a").good_task("u", "b", changed=True)
    run.task_start("v", "c").on("skipped", "c", res={"skipped": True})
    verdict = run.stats(ok={"a": 1}).verdict("a", "b", "c")
    assert statuses(verdict) == {"a": "ok", "b": "changed", "c": "skipped"}
    assert verdict.exit_code() is ExitCode.OK
    assert verdict.hosts[1].changed == {"os_baseline": 1}
    assert verdict.complete


def test_the_worst_stage_decides() -> None:
    run = Run().play("one").good_task("t", "a", "b").play("two").task_start("u", "a", "b")
    run.on("failed", "a", res={"msg": "no"}).on("unreachable", "b", res={"msg": "gone"})
    verdict = run.stats(failures={"a": 1}, dark={"b": 1}).verdict("a", "b")
    assert statuses(verdict) == {"a": "failed", "b": "unreachable"}
    assert verdict.hosts[0].stages == {"one": Status.OK, "two": Status.FAILED}
    assert verdict.exit_code() is ExitCode.FAILED
    assert verdict.stages == ("one", "two")


def test_only_unreachable_hosts_are_4() -> None:
    run = Run().play("one").task_start("t", "a").on("unreachable", "a", res={"msg": "gone"})
    assert run.stats(dark={"a": 1}).verdict("a").exit_code() is ExitCode.UNREACHABLE


def test_a_started_task_without_a_result_is_unknown() -> None:
    run = Run().play("one").task_start("t", "a", "b").on("ok", "a", res=OK)
    verdict = run.stats(ok={"a": 1}).verdict("a", "b")
    assert statuses(verdict) == {"a": "ok", "b": "unknown"}
    assert verdict.hosts[1].reason == "a task gave no result"
    assert verdict.exit_code() is ExitCode.FAILED


@pytest.mark.parametrize("empty", [{}, None])
def test_BR_64_an_emptied_result_is_unknown(empty: Any) -> None:
    run = Run().play("one").task_start("t", "a").on("ok", "a", res=empty)
    assert statuses(run.stats(ok={"a": 1}).verdict("a")) == {"a": "unknown"}


def test_BR_64_an_emptied_item_is_unknown() -> None:
    run = Run().play("one").task_start("t", "a")
    run.add("runner_item_on_ok", host="a", play=run.stage, task_uuid="t", res={})
    assert statuses(run.on("ok", "a", res=OK).stats(ok={"a": 1}).verdict("a")) == {"a": "unknown"}


def test_a_failure_with_an_emptied_result_is_still_a_failure() -> None:
    run = Run().play("one").task_start("t", "a").on("failed", "a", res={})
    verdict = run.stats(failures={"a": 1}).verdict("a")
    assert statuses(verdict) == {"a": "failed"}
    assert "no result arrived" in verdict.causes[0].message


def test_a_silent_host_that_ansible_worked_on_is_unknown() -> None:
    run = Run().play("one").good_task("t", "a").stats(processed={"a": 1, "b": 1})
    verdict = run.verdict("a", "b")
    assert statuses(verdict) == {"a": "ok", "b": "unknown"}
    assert "no event" in verdict.hosts[1].reason


def test_a_host_that_no_play_names_is_untouched() -> None:
    run = Run().play("one").good_task("t", "a").stats(processed={"a": 1})
    verdict = run.verdict("a", "b")
    assert statuses(verdict) == {"a": "ok", "b": "untouched"}
    assert verdict.exit_code() is ExitCode.OK


def test_nothing_touched_is_a_configuration_error() -> None:
    assert Run().stats(processed={}).verdict("a", "b").exit_code() is ExitCode.CONFIG


def test_a_gap_makes_the_host_whose_counts_disagree_unknown() -> None:
    run = Run().play("one").good_task("t", "a", "b").good_task("u", "a")
    run.task_start("u", "b").on("ok", "b", res=OK)
    run.stats(ok={"a": 2, "b": 2}, processed={"a": 1, "b": 1})
    of_b = [n for n, event in enumerate(run.events) if event["event_data"].get("host") == "b"]
    for number in reversed(of_b[:2]):
        del run.events[number]
    verdict = run.verdict("a", "b")
    assert verdict.gaps == 2
    assert statuses(verdict) == {"a": "ok", "b": "unknown"}
    assert verdict.hosts[1].reason == "2 events are missing"


def test_an_event_whose_data_was_lost_counts_as_missing() -> None:
    run = Run().play("one").good_task("t", "a")
    run.events.append({"counter": len(run.events) + 1, "event_data": {}})
    verdict = run.stats(ok={"a": 2}, processed={"a": 1}).verdict("a")
    assert (verdict.gaps, statuses(verdict)) == (1, {"a": "unknown"})


def test_a_run_without_statistics_leaves_nobody_good() -> None:
    run = Run().play("one").good_task("t", "a", "b").task_start("u", "a", "b")
    run.on("failed", "a", res={"msg": "no"}).on("ok", "b", res=OK)
    verdict = run.verdict("a", "b", "c")
    assert statuses(verdict) == {"a": "failed", "b": "unknown", "c": "unknown"}
    assert verdict.stopped_at == "one: u"
    assert not verdict.complete


def test_BR_55_hosts_that_a_stopped_run_did_not_reach_are_unknown() -> None:
    expected = dict.fromkeys("abcd", ("one", "two"))
    run = Run().play("one").good_task("t", *"abcd").play("two").good_task("u", "a")
    run.task_start("u2", "b", "c").on("failed", "b", res={"msg": "no"}).on("ok", "c", res=OK)
    run.add("playbook_on_no_hosts_remaining").stats(ok={"a": 2, "c": 2, "d": 1}, failures={"b": 1})
    verdict = run.verdict(*"abcd", expected=expected)
    assert statuses(verdict) == {"a": "ok", "b": "failed", "c": "unknown", "d": "unknown"}
    reasons = {host.host: host.reason for host in verdict.hosts}
    assert reasons["c"] == "the run stopped while this host was at work"
    assert reasons["d"] == "the run stopped before this host was done"


def test_a_rescued_failure_is_no_failure() -> None:
    run = Run().play("one").task_start("t", "a").on("failed", "a", res={"msg": "no"})
    run.good_task("rescue", "a").stats(ok={"a": 1}, rescued={"a": 1}, processed={"a": 1})
    verdict = run.verdict("a")
    assert (statuses(verdict), verdict.causes) == ({"a": "ok"}, ())


def test_an_ignored_failure_is_ok() -> None:
    run = Run().play("one").task_start("t", "a")
    run.on("failed", "a", res={"msg": "no"}, ignore_errors=True).stats(ok={"a": 1})
    assert statuses(run.verdict("a")) == {"a": "ok"}


def test_stages_that_were_not_asked_for_only_count_when_they_fail() -> None:
    run = Run().play("preflight").good_task("t", "a", "b").play("one").good_task("u", "a")
    run.stats(processed={"a": 1, "b": 1})
    verdict = run.verdict("a", "b", wanted=("one",))
    assert statuses(verdict) == {"a": "ok", "b": "untouched"}
    assert verdict.hosts[0].stages == {"one": Status.OK}
    run = Run().play("preflight").task_start("t", "a").on("failed", "a", res={"msg": "no"})
    verdict = run.stats(failures={"a": 1}).verdict("a", wanted=("one",))
    assert statuses(verdict) == {"a": "failed"}


def test_failures_are_grouped_by_cause_and_the_largest_group_comes_first() -> None:
    run = Run().play("one").task_start("t", "x", "npu-01", "npu-02")
    run.on("failed", "x", res={"msg": "something else"})
    run.on("failed", "npu-01", res={"msg": "npu-01: no route to 192.0.2.1 after 31 s"})
    run.on("failed", "npu-02", res={"msg": "npu-02: no route to 192.0.2.2 after 32 s"})
    causes = run.stats(failures={"x": 1}).verdict("x", "npu-01", "npu-02").causes
    assert [cause.hosts for cause in causes] == [("npu-01", "npu-02"), ("x",)]
    assert causes[0].message == "npu-01: no route to 192.0.2.1 after 31 s"


def test_a_failed_loop_tells_what_the_item_said() -> None:
    run = Run().play("one").task_start("t", "a")
    run.add("runner_item_on_failed", host="a", task_uuid="t", res={"msg": "no such package"})
    run.on("failed", "a", res={"msg": "One or more items failed"})
    assert run.stats(failures={"a": 1}).verdict("a").causes[0].message == "no such package"


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"msg": "plain"}, "plain"),
        ({"msg": "Task failed: Action failed: gone"}, "gone"),
        ({"msg": ["a", "b"]}, "a; b"),
        ({"msg": "non-zero return code", "stderr": "x\nlast\n"}, "non-zero return code: last"),
        ({"msg": "MODULE FAILURE", "module_stderr": "Error: y"}, "MODULE FAILURE: Error: y"),
        ({"censored": "hidden"}, "the result is hidden, since it may hold a secret (no_log)"),
        ({"rc": 1}, "failed, saying nothing"),
        ({"msg": "lacks some", "failures": ["No package x", "y"]}, "lacks some: No package x; y"),
    ],
)
def test_messages(result: dict[str, Any], message: str) -> None:
    assert message_of(result) == message


def test_long_messages_are_cut() -> None:
    assert len(message_of({"msg": "x" * 5000})) < 1300


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a: disk 3 full", "b: disk 12 full"),
        ("at 192.0.2.1", "at 198.51.100.7"),
        ("hash 0123456789abcdef", "hash fedcba9876543210"),
        ("in /root/.ansible/ansible-tmp-17.3-x/f", "in /root/.ansible/ansible-tmp-99.1-y/f"),
    ],
)
def test_causes_forget_what_differs_between_hosts(one: str, other: str) -> None:
    assert cause_of(one, ["a", "b"]) == cause_of(other, ["a", "b"])


def test_causes_keep_what_matters() -> None:
    assert cause_of("no space left", ["a"]) != cause_of("no route", ["a"])


def test_diffs_of_files_and_of_structures() -> None:
    text = diff_text([{"before": "a\n", "after": "b\n", "after_header": "/f"}, {"prepared": "p"}])
    assert text.splitlines()[:2] == ["--- /f", "+++ /f"]
    assert "-a" in text
    assert text.endswith("p")
    assert '+  "x": 1' in diff_text({"before": {}, "after": {"x": 1}})
    assert diff_text(None) == ""


def test_a_pending_reboot_is_6_until_the_task_says_otherwise() -> None:
    run = Run().play("one").task_start("t", "a", "b")
    run.on("ok", "a", res={"changed": True, "reboot_required": True}).on("ok", "b", res=OK)
    verdict = run.stats(ok={"a": 1, "b": 1}).verdict("a", "b")
    assert (verdict.reboot_pending, verdict.exit_code()) == (("a",), ExitCode.WAITING)
    run.on("ok", "a", res={"changed": False, "reboot_required": False})
    assert run.verdict("a", "b").exit_code() is ExitCode.OK
