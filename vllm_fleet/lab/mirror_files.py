"""The mirror's folders: SHA-256 sums, freshness by a stamp, and replacement in one step."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vllm_fleet.lab.errors import LabError

SUMS = "SHA256SUMS"
STAMPS = ".stamps"
LOCK = "mirror.lock"
WORK_PREFIX = "mirror-work-"
CHUNK = 1 << 20


class MirrorError(LabError):
    """The mirror cannot be filled or served; the message says what to do."""


def sha256(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    total = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(CHUNK):
            total.update(piece)
    return total.hexdigest()


def payload(directory: Path) -> list[Path]:
    """Every file below ``directory`` that counts, in a fixed order; not the sums themselves."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return sorted(path for path in found if path.name not in (SUMS, "index.html"))


def write_sums(directory: Path) -> dict[str, str]:
    """Write ``SHA256SUMS`` in the form that ``sha256sum -c`` reads; return name to sum."""
    sums = {str(path.relative_to(directory)): sha256(path) for path in payload(directory)}
    lines = [f"{digest}  {name}\n" for name, digest in sums.items()]
    (directory / SUMS).write_text("".join(lines))
    return sums


def read_sums(directory: Path) -> dict[str, str]:
    """Name to SHA-256, as ``SHA256SUMS`` in ``directory`` has it; empty where it is missing."""
    path = directory / SUMS
    if not path.is_file():
        return {}
    pairs = (line.split("  ", 1) for line in path.read_text().splitlines())
    return {name: digest for digest, name in pairs}


def verify(directory: Path) -> list[str]:
    """Names of files that are missing, changed or not on the list of sums."""
    wanted = read_sums(directory)
    names = {str(path.relative_to(directory)) for path in payload(directory)}
    wrong = names.symmetric_difference(wanted)
    wrong.update(name for name in names & set(wanted) if sha256(directory / name) != wanted[name])
    return sorted(wrong)


def fingerprint(inputs: Any) -> str:
    """Digest of whatever JSON-like value a section is made from."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def listing(directory: Path) -> dict[str, list[int]]:
    """Size and time of every file below ``directory``: cheap to take, and it tells of changes."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            state = path.stat()
            found[str(path.relative_to(directory))] = [state.st_size, state.st_mtime_ns]
    return found


def is_fresh(root: Path, section: str, inputs: Any) -> bool:
    """Whether ``section`` was made from these inputs and nobody touched its files since."""
    stamp = _stamp(root, section)
    if not stamp.is_file() or not (root / section).is_dir():
        return False
    recorded = json.loads(stamp.read_text())
    seen = {"inputs": fingerprint(inputs), "files": listing(root / section)}
    return bool(recorded == seen)


def publish(root: Path, section: str, staged: Path, inputs: Any) -> None:
    """Put the finished folder ``staged`` in place of ``section``, with sums and a stamp."""
    write_sums(staged)
    target = root / section
    target.parent.mkdir(parents=True, exist_ok=True)
    _stamp(root, section).unlink(missing_ok=True)
    old = staged.with_name(staged.name + ".old")
    if target.exists():
        target.replace(old)
    staged.replace(target)
    shutil.rmtree(old, ignore_errors=True)
    target.chmod(0o755)
    record = {"inputs": fingerprint(inputs), "files": listing(target)}
    write_atomic(_stamp(root, section), json.dumps(record))


def _stamp(root: Path, section: str) -> Path:
    return root / STAMPS / (section.replace("/", "-") + ".json")


def write_atomic(path: Path, text: str) -> None:
    """Write a file so that nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(text)
    unfinished.replace(path)


@contextlib.contextmanager
def scratch(cache: Path) -> Iterator[Path]:
    """A work folder on the mirror's own file system, gone afterwards whatever happens."""
    cache.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=cache))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def exclusive(cache: Path) -> Iterator[None]:
    """Let one process at a time fill the mirror; what a killed one left is swept first."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / LOCK).open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        _sweep(cache)
        yield


def remove_leftovers(cache: Path) -> None:
    """Sweep what a killed run left, unless somebody fills the mirror right now."""
    if not (cache / LOCK).is_file():
        return
    with (cache / LOCK).open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        _sweep(cache)


def _sweep(cache: Path) -> None:
    for left in cache.glob(f"{WORK_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
