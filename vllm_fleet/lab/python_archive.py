"""Pack the base root's CPython as an archive that runs from any folder.

No prebuilt standalone CPython lies on the indexes that the lab may reach, so it makes one in
the same layout (one top folder ``python/`` with ``bin`` and ``lib``), for hosts that have no
network.  It is a stand-in: it uses the shared libraries of the lab's hosts, and a real site
brings a standalone build of its own.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from vllm_fleet.lab.mirror_files import MirrorError

TOP = "python"
SKIPPED = ("__pycache__", "test", "tests", "idlelib", "turtledemo", "dist-packages")
# The distribution keeps ensurepip's wheels outside; the archive must not need them there.
BUNDLED = """
import os as _os
build_time_vars["WHEEL_PKG_DIR"] = _os.path.join(
    _os.path.dirname(_os.__file__), "ensurepip", "_bundled")
"""
ABOUT = "made by vllm-fleet's lab from %s; needs the shared libraries of that distribution\n"


def library(base: Path, python: str) -> Path:
    """The standard library's folder in the base root."""
    path = base / "usr/lib" / ("python" + python)
    if not (path / "ensurepip").is_dir():
        raise MirrorError(f"{base} has no ensurepip for Python {python} (python{python}-venv)")
    return path


def contents(base: Path, python: str) -> Iterator[tuple[str, Path | bytes]]:
    """Name in the archive, and the file or bytes behind it."""
    stdlib = library(base, python)
    inside = f"lib/python{python}"
    yield "bin/python" + python, base / "usr/bin" / ("python" + python)
    yield "share/doc/README", (ABOUT % _distribution(base)).encode()
    for path in sorted(stdlib.rglob("*")):
        relative = path.relative_to(stdlib)
        if _counts(path, relative):
            yield f"{inside}/{relative}", _patched(path)
    for wheel in sorted((base / "usr/share/python-wheels").glob("*.whl")):
        yield f"{inside}/ensurepip/_bundled/{wheel.name}", wheel


def _counts(path: Path, relative: Path) -> bool:
    skipped = set(SKIPPED).intersection(relative.parts)
    foreign = path.is_symlink() and path.readlink().is_absolute()
    settings = relative.name in ("EXTERNALLY-MANAGED", "sitecustomize.py")
    return not foreign and path.is_file() and not skipped and not settings


def _patched(path: Path) -> Path | bytes:
    if path.name.startswith("_sysconfigdata_"):
        return path.read_bytes() + BUNDLED.encode()
    return path


def _distribution(base: Path) -> str:
    lines = (base / "etc/os-release").read_text().splitlines()
    names = (line.split("=", 1)[1].strip('"') for line in lines if line.startswith("PRETTY_NAME="))
    return next(names, "the lab's base root")


def write(base: Path, python: str, archive: Path) -> None:
    """Write the archive; the same base root gives the same bytes."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name, source in contents(base, python):
            _add(tar, f"{TOP}/{name}", source)
        for link in ("bin/python3", "bin/python"):
            _add_link(tar, f"{TOP}/{link}", "python" + python)


def _add(tar: tarfile.TarFile, name: str, source: Path | bytes) -> None:
    content = source if isinstance(source, bytes) else source.read_bytes()
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = 0o755 if "/bin/" in name or name.endswith(".so") else 0o644
    tar.addfile(member, io.BytesIO(content))


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type = tarfile.SYMTYPE
    member.linkname = target
    member.mode = 0o777
    tar.addfile(member)
