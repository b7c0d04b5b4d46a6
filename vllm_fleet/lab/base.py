"""The base root: Debian as mmdebstrap makes it, kept in the cache under a digest of its data."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from vllm_fleet.lab import labdata, rootfs
from vllm_fleet.lab.process import contained, run
from vllm_fleet.lab.settings import Lab

SCRATCH = ".building-"
BUILD_LIMIT_S = 1800
MIRROR_VARIABLE = "VLLM_FLEET_LAB_DEBIAN_MIRROR"
APT = Path("/etc/apt")


def ensure(lab: Lab) -> Path:
    """Return the base root; it is built where it is not in the cache."""
    root = folder(lab)
    remove_leftovers(lab)
    if not root.is_dir():
        _build(labdata.read("base"), root)
    return root


def folder(lab: Lab) -> Path:
    """Return where the base root of today's data is, or will be."""
    return lab.cache / f"base-{labdata.digest(labdata.read('base'))}"


def remove_leftovers(lab: Lab) -> None:
    """Remove what a killed build left (the caller holds the lab's lock)."""
    for scratch in lab.cache.glob(f"{SCRATCH}*"):
        shutil.rmtree(scratch)


def _build(data: dict[str, object], root: Path) -> None:
    scratch = root.with_name(f"{SCRATCH}{root.name}")
    run(contained(command(data, scratch)), limit=BUILD_LIMIT_S)
    rootfs.customise(scratch, data)
    scratch.rename(root)


def command(data: dict[str, object], target: Path) -> list[str]:
    """Return mmdebstrap's command line."""
    packages, excluded = data["packages"], data["excluded"]
    assert isinstance(packages, list)
    assert isinstance(excluded, list)
    return [
        "mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory",
        f"--include={','.join(packages)}", '--aptopt=Acquire::Languages "none"',
        *(f"--dpkgopt=path-exclude={path}" for path in excluded),
        str(data["suite"]), str(target), *mirrors(),
    ]  # fmt: skip


def mirrors() -> list[str]:
    """Return the Debian mirror to use, if any is named: else mmdebstrap knows one itself."""
    named = os.environ.get(MIRROR_VARIABLE)
    if named:
        return [named]
    return mirrors_of(_apt_sources())[:1]


def mirrors_of(sources: str) -> list[str]:
    """Return Debian's mirrors among apt's sources (Ubuntu's are of no use here)."""
    return re.findall(r"https?://[^\s#]+/debian/?(?=\s|$)", sources)


def _apt_sources() -> str:
    files = [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*"))]
    lines = [line for file in files if file.is_file() for line in _lines(file)]
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines()
