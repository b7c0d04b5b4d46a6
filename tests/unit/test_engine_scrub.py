"""Secrets out of whatever is kept; and the event log's small events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vllm_fleet.engine import scratch
from vllm_fleet.engine.eventlog import EventLog, Slimmer, read, slim, slim_result
from vllm_fleet.engine.judge import Judge
from vllm_fleet.engine.scrub import MASK, Scrubber, is_secret_name, secret_values

PLANTED = "PLANTED-7f3a"


@pytest.mark.parametrize(
    "name",
    ["ansible_become_pass", "db_password", "HF_TOKEN", "api_key", "vllm_service_secret", "passwd"],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["vllm_build_source", "ansible_host", "compass", "tokenizer", "max_tokens"]
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_secret_values_are_found_however_deep() -> None:
    values = {"a": [{"my_password": "one"}], "b": {"c": {"token": "two"}}, "d": "three"}
    assert secret_values(values) == {"one", "two"}


def test_text_keys_lists_and_addresses_are_scrubbed() -> None:
    scrub = Scrubber([PLANTED, "line one\nline two"])
    data = {PLANTED: [f"a {PLANTED} b"], "url": "https://me:hunter2@example/x", "n": 1}
    assert scrub.data(data) == {
        MASK: [f"a {MASK} b"],
        "url": f"https://me:{MASK}@example/x",
        "n": 1,
    }
    assert scrub.text("has line two in it") == f"has {MASK} in it"


def test_values_under_a_secret_name_are_scrubbed_unseen() -> None:
    assert Scrubber().data({"password": "unknown", "token": ""}) == {"password": MASK, "token": ""}


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert Scrubber(["secret", "secret-longer"]).text("x secret-longer y") == f"x {MASK} y"


def test_short_words_are_left() -> None:
    assert Scrubber(["on", ""]).text("on and on") == "on and on"


def event(**result: Any) -> dict[str, Any]:
    data = {"host": "a", "task": "t", "task_args": PLANTED, "res": result}
    head = {"counter": 1, "event": "runner_on_ok", "uuid": "u", "stdout": PLANTED}
    return {**head, "event_data": data}


def test_arguments_facts_and_output_are_not_kept() -> None:
    kept = slim(event(changed=True, invocation={"module_args": PLANTED}, ansible_facts=PLANTED))
    assert kept["event_data"]["res"] == {"changed": True}
    assert PLANTED not in str(kept)


def test_an_empty_result_stays_empty_and_another_does_not_become_so() -> None:
    assert slim_result({}) == {}
    assert slim_result({"ansible_facts": {}}) == {"changed": False}


def test_long_texts_keep_their_end() -> None:
    text = slim_result({"stdout": "x" * 10_000 + "the end"})["stdout"]
    assert len(text) < 5000
    assert text.endswith("the end")


def test_a_log_can_be_judged_again_and_holds_no_differences(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "log.gz")
    small = Slimmer(Scrubber())(event(changed=True, diff={"before": "", "after": "new"}))
    assert small["event_data"]["res"]["diff"]["after"] == "new"
    log.write(small)
    log.close()
    events = list(read(tmp_path / "log.gz"))
    assert "diff" not in events[0]["event_data"]["res"]
    judge = Judge(["a"])
    judge.feed(events[0])
    assert judge.changes[0].task == "t"


def test_a_torn_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    log = EventLog(path)
    for _ in range(1000):
        log.write(slim(event(changed=False)))
    log.close()
    path.write_bytes(path.read_bytes()[:-20])
    assert 0 < len(list(read(path))) <= 1000


def test_only_memory_is_good_enough() -> None:
    mounts = "tmpfs /dev/shm tmpfs rw 0 0\n/dev/sda1 /run ext4 rw 0 0\nodd\n"
    assert scratch.memory_mounts(mounts) == {"/dev/shm"}


def test_the_private_folder_is_private_and_goes_even_after_an_error(tmp_path: Path) -> None:
    def use() -> None:
        with scratch.scratch(tmp_path) as folder:
            assert folder.stat().st_mode & 0o777 == 0o700
            (folder / "x").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use()
    assert list(tmp_path.iterdir()) == []
