"""The lab's mirror: everything that hosts without Internet need, served on the lab's bridge.

``ensure`` downloads once into ``<cache>/mirror``, ``start`` and ``stop`` run the server.  The
sections ``rpm/`` and ``deb/`` are filled by the personas; this module fills the others.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vllm_fleet.lab import mirror_files, python_archive, tiny_model, wheelhouse
from vllm_fleet.lab.mirror_files import MirrorError

__all__ = ["MirrorError", "ensure", "is_running", "start", "stop", "sums", "url"]

ADDRESS = "10.213.0.1"
PORT = 8213
DATA = Path(__file__).parent / "data/mirror.yml"
MODULE = "vllm_fleet.lab.mirror_server"
# A number for each section's way of making it; a change makes the section anew.
FORMAT = {"wheels": 1, "locks": 1, "sources": 1, "python": 1, "models/tiny": 1}
START_LIMIT = 20.0
STOP_LIMIT = 10.0


@dataclass(frozen=True)
class Places:
    """Where the mirror keeps things on this machine."""

    cache: Path
    home: Path

    @property
    def root(self) -> Path:
        """The folder that is served."""
        return self.cache / "mirror"

    @property
    def pid_file(self) -> Path:
        """The server's process id while it runs."""
        return self.home / "mirror.pid"

    @property
    def log(self) -> Path:
        """What the server was asked."""
        return self.home / "mirror.log"


def places() -> Places:
    """The lab's folders, as the environment names them."""
    cache = os.environ.get("VLLM_FLEET_LAB_CACHE") or "/var/cache/vllm-fleet-lab"
    home = os.environ.get("VLLM_FLEET_LAB_HOME") or "/var/lib/vllm-fleet-lab"
    return Places(Path(cache), Path(home))


@functools.lru_cache(maxsize=1)
def contents() -> dict[str, Any]:
    """What the mirror holds, as ``data/mirror.yml`` says."""
    loaded: dict[str, Any] = yaml.safe_load(DATA.read_text())
    return loaded


def url(section: str = "", address: str = ADDRESS, port: int = PORT) -> str:
    """Address of a section, as hosts of the lab reach it."""
    return f"http://{address}:{port}/{section}"


def sums(section: str) -> dict[str, str]:
    """File name to SHA-256 of a section that is filled."""
    return mirror_files.read_sums(places().root / section)


def architecture() -> str:
    """The machine's architecture as archives name it."""
    return os.uname().machine


def _silent(_line: str) -> None:
    """Tell nobody."""


def ensure(base: Path, tell: Callable[[str], None] = _silent) -> Path:
    """Fill what is missing or out of date; return the folder that is served.

    ``base`` is the lab's base root; ``tell`` gets one line for every section that is made.
    """
    where = places()
    with mirror_files.exclusive(where.cache):
        for section, make in _makers(base).items():
            inputs = _inputs(section, base)
            if mirror_files.is_fresh(where.root, section, inputs):
                continue
            tell(f"mirror: making {section}")
            _make(where, section, make, inputs)
    return where.root


def _make(
    where: Places, section: str, make: Callable[[Path, Path], None], inputs: Any
) -> None:
    with mirror_files.scratch(where.cache) as work:
        staged = work / "staged"
        staged.mkdir()
        make(work, staged)
        mirror_files.publish(where.root, section, staged, inputs)


def _makers(base: Path) -> dict[str, Callable[[Path, Path], None]]:
    """How each section is made, in the order in which they need each other."""
    return {
        "models/tiny": _make_model,
        "python": functools.partial(_make_python, base),
        "wheels": functools.partial(_make_wheels, base),
        "locks": _make_locks,
        "sources": functools.partial(_make_sources, base),
    }


def _inputs(section: str, base: Path) -> dict[str, Any]:
    """What a section's content depends on."""
    known: dict[str, Any] = {"format": FORMAT[section], "machine": architecture()}
    if section == "models/tiny":
        known["shape"] = repr(tiny_model.Shape())
    elif section == "python":
        known["base"] = python_version(base)
    elif section == "sources":
        known["sources"] = contents()["sources"]
    else:
        names = contents()["locks"]
        known["locks"] = {name: wheelhouse.lock_file(name).read_text() for name in names}
    return known


def python_version(base: Path) -> str:
    """The full version of the base root's Python (read from its package database)."""
    package = f"Package: python{contents()['python']}-minimal\n"
    for paragraph in (base / "var/lib/dpkg/status").read_text(errors="replace").split("\n\n"):
        if paragraph.startswith(package):
            line = next(row for row in paragraph.splitlines() if row.startswith("Version: "))
            return line.split()[1].split("-")[0]
    raise MirrorError(f"{base} has no python{contents()['python']}")


def _make_model(_work: Path, staged: Path) -> None:
    tiny_model.write(staged)


def _make_python(base: Path, _work: Path, staged: Path) -> None:
    name = f"cpython-{python_version(base)}-{architecture()}.tar.gz"
    python_archive.write(base, contents()["python"], staged / name)


def _make_wheels(base: Path, work: Path, staged: Path) -> None:
    pip = wheelhouse.open_pip(base, work, contents()["python"])
    wheelhouse.download(pip, contents()["locks"], staged, places().root / "wheels")
    wheelhouse.write_index(staged)


def _make_locks(_work: Path, staged: Path) -> None:
    wheelhouse.write_locks(contents()["locks"], sums("wheels"), staged)


def _make_sources(base: Path, work: Path, staged: Path) -> None:
    pip = wheelhouse.open_pip(base, work, contents()["python"])
    wheels = work / "wheels"
    wheels.mkdir()
    for path in (places().root / "wheels").glob("*.whl"):
        os.link(path, wheels / path.name)
    wheelhouse.install(pip, contents()["build_lock"], wheels)
    for source in contents()["sources"]:
        wheelhouse.fetch_source(pip, source, staged)


def start(address: str = ADDRESS, port: int = PORT) -> int:
    """Serve the mirror in the background, at this address only; return the process id.

    A server that already runs is left alone.
    """
    where = places()
    if (running := is_running()) is not None:
        return running
    where.home.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", MODULE, str(where.root), address, str(port)]
    with where.log.open("a") as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            cwd="/", env={**os.environ, "PYTHONPATH": _package_root()},
        )
    mirror_files.write_atomic(where.pid_file, f"{process.pid}\n")
    _wait_for_answer(process, url("", address, port))
    return process.pid


def _package_root() -> str:
    return str(Path(__file__).resolve().parents[2])


def _wait_for_answer(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_LIMIT
    while process.poll() is None and time.monotonic() < deadline:
        if _answers(address):
            return
        time.sleep(0.05)
    stop()
    raise MirrorError(f"the mirror does not answer at {address}; see {places().log}")


def _answers(address: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=2) as answer:
            return bool(answer.headers.get("Server", "").startswith("vllm-fleet-mirror"))
    except (urllib.error.URLError, OSError):
        return False


def is_running() -> int | None:
    """Process id of the running server; None where there is none."""
    try:
        pid = int(places().pid_file.read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if MODULE.encode() in words else None


def stop() -> None:
    """End the server and remove its pid file; its log stays for ``lab down`` to remove."""
    pid = is_running()
    if pid is not None:
        _end(pid)
    places().pid_file.unlink(missing_ok=True)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_LIMIT
    while is_running() == pid:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        _reap(pid)
        time.sleep(0.02)


def _reap(pid: int) -> None:
    """Collect the exit status where the server is a child of this very process."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def describe() -> Mapping[str, int]:
    """Bytes per section, for people."""
    root = places().root
    return {
        section: sum(path.stat().st_size for path in mirror_files.payload(root / section))
        for section in FORMAT
        if (root / section).is_dir()
    }
