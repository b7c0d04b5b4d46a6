"""The lab's mirror: everything that hosts without Internet need, served on the lab's bridge.

``ensure`` downloads once into ``<cache>/mirror``, ``start`` and ``stop`` run the server.  The
sections ``rpm/`` and ``deb/`` are filled by the personas; this module fills the others.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from vllm_fleet.lab import mirror_files, python_archive, tiny_model, wheelhouse
from vllm_fleet.lab.mirror_files import MirrorError
from vllm_fleet.lab.settings import MIRROR_PORT, Lab

__all__ = ["MirrorError", "ensure", "is_running", "remove_leftovers", "start", "stop", "sums"]

DATA = Path(__file__).parent / "data/mirror.yml"
MODULE = "vllm_fleet.lab.mirror_server"
# A number for each section's way of making it; a change makes the section anew.
FORMAT = {
    "models/tiny": 1,
    "models/tiny-llama": 1,
    "python": 1,
    "wheels": 1,
    "locks": 1,
    "sources": 1,
}
MODELS = {"models/tiny": "deepseek", "models/tiny-llama": "llama"}
START_LIMIT = 20.0
STOP_LIMIT = 10.0


@functools.lru_cache(maxsize=1)
def contents() -> dict[str, Any]:
    """What the mirror holds, as ``data/mirror.yml`` says."""
    loaded: dict[str, Any] = yaml.safe_load(DATA.read_text())
    return loaded


def pid_file(lab: Lab) -> Path:
    """The server's process id while it runs."""
    return lab.home / "mirror.pid"


def log_file(lab: Lab) -> Path:
    """What the server was asked."""
    return lab.home / "mirror.log"


def sums(lab: Lab, section: str) -> dict[str, str]:
    """File name to SHA-256 of a section that is filled."""
    return mirror_files.read_sums(lab.mirror_root / section)


def architecture() -> str:
    """The machine's architecture as archives name it."""
    return os.uname().machine


def _silent(_line: str) -> None:
    """Tell nobody."""


def ensure(lab: Lab, base: Path, tell: Callable[[str], None] = _silent) -> Path:
    """Fill what is missing or out of date; return the folder that is served.

    ``base`` is the lab's base root; ``tell`` gets one line for every section that is made.
    """
    with mirror_files.exclusive(lab.cache):
        for section, make in MAKERS.items():
            inputs = _inputs(section, base)
            if not mirror_files.is_fresh(lab.mirror_root, section, inputs):
                tell(f"mirror: making {section}")
                _make(lab, section, functools.partial(make, lab, base), inputs)
    return lab.mirror_root


def _make(lab: Lab, section: str, make: Callable[[Path, Path], None], inputs: Any) -> None:
    with mirror_files.scratch(lab.cache) as work:
        staged = work / "staged"
        staged.mkdir()
        make(work, staged)
        mirror_files.publish(lab.mirror_root, section, staged, inputs)


def remove_leftovers(lab: Lab) -> None:
    """Remove what a killed ``ensure`` left in the cache."""
    mirror_files.remove_leftovers(lab.cache)


def _inputs(section: str, base: Path) -> dict[str, Any]:
    """What a section's content depends on."""
    known: dict[str, Any] = {"format": FORMAT[section], "machine": architecture()}
    if section in MODELS:
        known["shape"] = repr(tiny_model.Shape(MODELS[section]))
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


def _make_model(family: str, _lab: Lab, _base: Path, _work: Path, staged: Path) -> None:
    tiny_model.write(staged, tiny_model.Shape(family))


def _make_python(_lab: Lab, base: Path, _work: Path, staged: Path) -> None:
    name = f"cpython-{python_version(base)}-{architecture()}.tar.gz"
    python_archive.write(base, contents()["python"], staged / name)


def _make_wheels(lab: Lab, base: Path, work: Path, staged: Path) -> None:
    pip = wheelhouse.open_pip(base, work, contents()["python"])
    wheelhouse.download(pip, contents()["locks"], staged, lab.mirror_root / "wheels")
    wheelhouse.write_index(staged)


def _make_locks(lab: Lab, _base: Path, _work: Path, staged: Path) -> None:
    wheelhouse.write_locks(contents()["locks"], sums(lab, "wheels"), staged)


def _make_sources(lab: Lab, base: Path, work: Path, staged: Path) -> None:
    pip = wheelhouse.open_pip(base, work, contents()["python"])
    wheels = work / "wheels"
    wheels.mkdir()
    for path in (lab.mirror_root / "wheels").glob("*.whl"):
        os.link(path, wheels / path.name)
    wheelhouse.install(pip, contents()["build_lock"], wheels)
    for source in contents()["sources"]:
        wheelhouse.fetch_source(pip, source, staged)


# How each section is made, in the order in which they need each other.
MAKERS: dict[str, Callable[[Lab, Path, Path, Path], None]] = {
    **{section: functools.partial(_make_model, family) for section, family in MODELS.items()},
    "python": _make_python,
    "wheels": _make_wheels,
    "locks": _make_locks,
    "sources": _make_sources,
}


def start(lab: Lab, address: str = "", port: int = MIRROR_PORT) -> int:
    """Serve the mirror in the background, on the bridge's address only; return the process id.

    A server that already runs is left alone.
    """
    if (running := is_running(lab)) is not None:
        return running
    address = address or lab.gateway
    lab.home.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", MODULE, str(lab.mirror_root), address, str(port)]
    with log_file(lab).open("a") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": _package_root()},
        )
    mirror_files.write_atomic(pid_file(lab), f"{process.pid}\n")
    _wait_for_answer(lab, process, f"http://{address}:{port}/")
    return process.pid


def _package_root() -> str:
    return str(Path(__file__).resolve().parents[2])


def _wait_for_answer(lab: Lab, process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_LIMIT
    while process.poll() is None and time.monotonic() < deadline:
        if _answers(address, process.pid):
            return
        time.sleep(0.05)
    stop(lab)
    raise MirrorError(f"the mirror does not answer at {address}; see {log_file(lab)}")


def _answers(address: str, pid: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=2) as answer:
            return f"vllm-fleet-mirror/{pid} " in answer.headers.get("Server", "") + " "
    except (urllib.error.URLError, OSError):
        return False


def is_running(lab: Lab) -> int | None:
    """Process id of the running server; None where there is none."""
    try:
        pid = int(pid_file(lab).read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if MODULE.encode() in words else None


def stop(lab: Lab) -> None:
    """End the server and remove its pid file; its log stays for ``lab down`` to remove."""
    pid = is_running(lab)
    if pid is not None:
        _end(lab, pid)
    pid_file(lab).unlink(missing_ok=True)


def _end(lab: Lab, pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_LIMIT
    while is_running(lab) == pid:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    _reap(pid)


def _reap(pid: int) -> None:
    """Collect the exit status where the server is a child of this very process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def describe(lab: Lab) -> Mapping[str, int]:
    """Bytes per section, for people."""
    root = lab.mirror_root
    return {
        section: sum(path.stat().st_size for path in mirror_files.payload(root / section))
        for section in FORMAT
        if (root / section).is_dir()
    }
