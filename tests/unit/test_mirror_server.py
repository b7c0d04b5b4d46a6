"""The mirror's HTTP server: whole files, parts of files, folders."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vllm_fleet.lab import mirror_server
from vllm_fleet.lab.mirror_server import Unsatisfiable, byte_range

Ask = Callable[..., http.client.HTTPResponse]
TEXT = bytes(range(200))


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    (tmp_path / "served").mkdir()
    (tmp_path / "served/file.whl").write_bytes(TEXT)
    (tmp_path / "secret").write_text("not for you")
    server = mirror_server.make_server(str(tmp_path / "served"), "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)

    def request(path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection.request(method, path, headers=headers)
        return connection.getresponse()

    yield request
    connection.close()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (None, None),
        ("", None),
        ("bytes=-", None),
        ("bytes=0-1,5-6", None),
        ("lines=1-2", None),
        ("bytes=0-0", (0, 0)),
        ("bytes=10-", (10, 99)),
        ("bytes=10-19", (10, 19)),
        ("bytes=90-500", (90, 99)),
        ("bytes=-5", (95, 99)),
        ("bytes=-500", (0, 99)),
    ],
)
def test_ranges(header: str | None, part: tuple[int, int] | None) -> None:
    assert byte_range(header, 100) == part


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=5-2", "bytes=-0"])
def test_ranges_outside_of_the_file(header: str) -> None:
    with pytest.raises(Unsatisfiable):
        byte_range(header, 100)


def test_a_whole_file_and_a_part_on_one_connection(ask: Ask) -> None:
    answer = ask("/file.whl")
    assert (answer.status, answer.read()) == (200, TEXT)
    assert answer.headers["Accept-Ranges"] == "bytes"
    answer = ask("/file.whl", Range="bytes=150-")
    assert (answer.status, answer.read()) == (206, TEXT[150:])
    assert answer.headers["Content-Range"] == "bytes 150-199/200"
    answer = ask("/file.whl")
    assert answer.read() == TEXT


def test_only_the_head_of_a_part(ask: Ask) -> None:
    answer = ask("/file.whl", "HEAD", Range="bytes=0-9")
    assert (answer.status, answer.headers["Content-Length"], answer.read()) == (206, "10", b"")
    assert ask("/file.whl").read() == TEXT


def test_a_range_outside_is_416_and_a_missing_file_404(ask: Ask) -> None:
    answer = ask("/file.whl", Range="bytes=999-")
    answer.read()
    assert answer.status == 416
    answer = ask("/none", Range="bytes=0-1")
    answer.read()
    assert answer.status == 404


def test_a_folder_is_listed(ask: Ask) -> None:
    answer = ask("/")
    assert b'href="file.whl"' in answer.read()


@pytest.mark.parametrize("path", ["/../secret", "/%2e%2e/secret", "//../secret"])
def test_nothing_outside_is_served(ask: Ask, path: str) -> None:
    answer = ask(path)
    assert b"not for you" not in answer.read()
