"""The mirror's HTTP server: files of one folder, at one address, with resume.

Run as ``python -m vllm_fleet.lab.mirror_server ROOT ADDRESS PORT``.
"""

from __future__ import annotations

import http.server
import io
import os
import re
import shutil
import sys
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO

RANGE = re.compile(r"bytes=(\d*)-(\d*)$")


class Unsatisfiable(Exception):
    """The range that was asked for lies outside of the file."""


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte of a ``Range`` header; None where the whole file is wanted."""
    found = RANGE.match((header or "").strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        start, end = max(0, size - int(last)), size - 1
    else:
        start, end = int(first), min(int(last or size - 1), size - 1)
    if start > end:
        raise Unsatisfiable
    return start, end


class Handler(http.server.SimpleHTTPRequestHandler):
    """Folder listings and whole files as the base class has them; parts of files here."""

    protocol_version = "HTTP/1.1"
    # The process id lets who started the server tell it from another one on the same port.
    server_version = f"vllm-fleet-mirror/{os.getpid()}"
    remaining: int | None = None
    timeout = 60

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Send status and headers; return the stream that the body comes from."""
        self.remaining = None
        path = Path(self.translate_path(self.path))
        header = self.headers.get("Range")
        if header is None or not path.is_file():
            return super().send_head()
        try:
            part = byte_range(header, path.stat().st_size)
        except Unsatisfiable:
            self.send_error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return None
        return super().send_head() if part is None else self._send_part(path, *part)

    def _send_part(self, path: Path, start: int, end: int) -> BinaryIO:
        size = path.stat().st_size
        self.send_response(HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
        self.send_header("Content-Length", str(end - start + 1))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        stream = path.open("rb")
        stream.seek(start)
        self.remaining = end - start + 1
        return stream

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send the body, or as much of it as the range says."""
        if self.remaining is None:
            shutil.copyfileobj(source, outputfile)
            return
        while self.remaining and (piece := source.read(min(self.remaining, 1 << 18))):
            outputfile.write(piece)
            self.remaining -= len(piece)
        self.remaining = None

    def end_headers(self) -> None:
        """Tell clients that they may resume."""
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()


def make_server(root: str, address: str, port: int) -> http.server.ThreadingHTTPServer:
    """The server, bound and listening; ``serve_forever`` answers."""
    handler = partial(Handler, directory=root)
    return http.server.ThreadingHTTPServer((address, port), handler)


def main(arguments: list[str]) -> int:
    """Serve until a signal ends the process."""
    root, address, port = arguments
    os.chdir("/")
    with make_server(root, address, int(port)) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
