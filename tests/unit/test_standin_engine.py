"""The stand-in engine answers like vLLM, says what it is, and misbehaves on request."""

from __future__ import annotations

import ast
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ENGINE = Path(__file__).parents[2] / "vllm_fleet/lab/data/engine/standin-engine"
PYTHON = os.environ.get("STANDIN_TEST_PYTHON", sys.executable)
LIMIT = 20.0


@dataclass
class Engine:
    """A running stand-in."""

    process: subprocess.Popen[str]
    port: int

    def ask(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """Status and text of one answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        content = None if body is None else json.dumps(body)
        connection.request("POST" if content else "GET", path, content, headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def chat(self, text: str = "hello", **more: Any) -> dict[str, Any]:
        """The answer to one message."""
        body = {"messages": [{"role": "user", "content": text}], **more}
        status, answer = self.ask("/v1/chat/completions", body)
        assert status == 200, answer
        return dict(json.loads(answer))


Start = Callable[..., Engine]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def launch(words: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PYTHON, str(ENGINE), *words], env={**os.environ, **environment},
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def start(model: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def begin(*words: str, **environment: str) -> Engine:
        given = list(words) or ["serve", str(model), "--served-model-name", "tiny"]
        process = launch([*given, "--host", "127.0.0.1", "--port", "0"], environment)
        running.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"on port (\d+)", line):
                return Engine(process, int(found.group(1)))
        raise AssertionError("the stand-in ended before it listened")

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def test_it_parses_on_the_oldest_python_of_a_managed_host() -> None:
    ast.parse(ENGINE.read_text(), feature_version=(3, 6))
    assert ENGINE.stat().st_mode & 0o111
    assert ENGINE.read_text().startswith("#!/usr/bin/python3\n")


def test_it_says_in_every_place_that_it_is_a_stand_in(start: Start) -> None:
    engine = start()
    assert json.loads(engine.ask("/version")[1])["stand_in"] is True
    assert "stand-in" in json.loads(engine.ask("/v1/models")[1])["data"][0]["owned_by"]
    answer = engine.chat()
    assert "stand-in engine" in answer["choices"][0]["message"]["content"]
    assert "stand-in" in answer["system_fingerprint"]


def test_answers_have_the_shape_of_vllm(start: Start) -> None:
    engine = start()
    assert engine.ask("/health") == (200, "")
    assert json.loads(engine.ask("/load")[1]) == {"server_load": 0}
    assert engine.ask("/nope") == (404, '{"detail": "Not Found"}')
    answer = engine.chat("one two", model="tiny")
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["finish_reason"] == "stop"
    usage = answer["usage"]
    assert usage["prompt_tokens"] == 2
    assert usage["total_tokens"] == 2 + usage["completion_tokens"]


def test_completions_stop_at_the_number_of_tokens(start: Start) -> None:
    engine = start()
    status, text = engine.ask("/v1/completions", {"prompt": "hello", "max_tokens": 3})
    assert status == 200
    choice = json.loads(text)["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("This is a", "length")


def test_a_stream_ends_with_done(start: Start) -> None:
    engine = start()
    body = {"messages": [{"role": "user", "content": "x"}], "stream": True, "max_tokens": 2}
    events = engine.ask("/v1/chat/completions", body)[1].strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    words = [json.loads(event[6:])["choices"][0]["delta"]["content"] for event in events[:-1]]
    assert words == ["This ", "is"]


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ({"model": "other", "prompt": "x"}, 404, "Valid aliases: tiny"),
        ({"model": "tiny"}, 400, "prompt"),
        (["no object"], 400, "JSON object"),
    ],
)
def test_bad_requests_are_refused(start: Start, body: Any, status: int, word: str) -> None:
    seen, text = start().ask("/v1/completions", body)
    assert (seen, word in text) == (status, True)


def test_both_forms_of_the_command_line_and_unknown_options_are_kept(
    start: Start, model: Path
) -> None:
    engine = start(
        f"--model={model}", "--served-model-name", "a", "b", "--tensor-parallel-size=8",
        "--enforce-eager", "--max-model-len", "1024",
    )  # fmt: skip
    rows = json.loads(engine.ask("/v1/models")[1])["data"]
    assert [(row["id"], row["root"], row["max_model_len"]) for row in rows] == [
        ("a", str(model), 1024), ("b", str(model), 1024),
    ]  # fmt: skip
    seen = json.loads(engine.ask("/stand-in")[1])
    assert seen["unknown_options"] == ["--tensor-parallel-size=8", "--enforce-eager"]


def test_a_key_guards_the_same_paths_as_in_vllm_and_is_never_shown(start: Start) -> None:
    engine = start(VLLM_API_KEY="s3cret", VLLM_CPU_KVCACHE_SPACE="1")
    assert engine.ask("/v1/models")[0] == 401
    assert engine.ask("/v1/models", headers={"Authorization": "Bearer s3cret"})[0] == 200
    assert engine.ask("/health")[0] == 200
    shown = engine.ask("/stand-in")[1]
    assert "s3cret" not in shown
    assert json.loads(shown)["environment"]["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_metrics_have_the_names_of_vllm_and_count(start: Start) -> None:
    engine = start()
    engine.chat("one two three")
    page = engine.ask("/metrics")[1]
    labels = r'\{engine="0",model_name="tiny"'
    assert re.search(r"^vllm:prompt_tokens_total" + labels + r"\} 3\.0$", page, re.MULTILINE)
    assert re.search(
        r"^vllm:request_success_total" + labels + r',finished_reason="stop"\} 1$',
        page, re.MULTILINE,
    )  # fmt: skip
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert f"# TYPE vllm:{name} gauge" in page
    for name in ("time_to_first_token_seconds", "inter_token_latency_seconds"):
        assert f'vllm:{name}_bucket{{engine="0",model_name="tiny",le="+Inf"}} 1' in page


def test_a_model_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    process = launch(["serve", str(tmp_path / "none")], {})
    _, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, "has no config.json" in errors) == (1, True)


def test_it_ends_with_the_status_that_was_asked_for(model: Path) -> None:
    process = launch(["serve", str(model)], {"STANDIN_EXIT_CODE": "3"})
    process.communicate(timeout=LIMIT)
    assert process.returncode == 3


def test_it_crashes_while_it_serves(start: Start) -> None:
    engine = start(STANDIN_EXIT_AFTER="0.1")
    assert engine.process.wait(timeout=LIMIT) == 1


def test_a_slow_start_does_not_listen_yet(model: Path) -> None:
    words = ["serve", str(model), "--host", "127.0.0.1", "--port", "0"]
    begun = time.monotonic()
    process = launch(words, {"STANDIN_START_SECONDS": "0.4"})
    assert process.stderr is not None
    assert "on port" in process.stderr.readline()
    assert time.monotonic() - begun >= 0.4
    process.kill()
    process.communicate()


@pytest.mark.parametrize(("place", "path"), [("health", "/health"), ("completions", None)])
def test_it_hangs_where_it_was_asked_to(start: Start, place: str, path: str | None) -> None:
    engine = start(STANDIN_HANG=place)
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=0.3)
    body = None if path else json.dumps({"prompt": "x"})
    connection.request("POST" if body else "GET", path or "/v1/completions", body)
    with pytest.raises(TimeoutError):
        connection.getresponse()
    assert engine.ask("/version")[0] == 200


def test_health_can_be_bad(start: Start) -> None:
    assert start(STANDIN_HEALTH="500").ask("/health")[0] == 500


def test_sigterm_lets_a_running_request_end(start: Start) -> None:
    engine = start(STANDIN_TOKEN_SECONDS="0.1")
    answers: list[dict[str, Any]] = []
    worker = threading.Thread(target=lambda: answers.append(engine.chat(max_tokens=8)))
    worker.start()
    deadline = time.monotonic() + LIMIT
    while json.loads(engine.ask("/load")[1])["server_load"] == 0:
        assert time.monotonic() < deadline
    engine.process.send_signal(signal.SIGTERM)
    worker.join(LIMIT)
    assert answers[0]["choices"][0]["finish_reason"] == "length"
    assert engine.process.wait(timeout=LIMIT) == 0
