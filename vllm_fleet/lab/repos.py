"""The repositories of the personas in the mirror: built where missing or out of date."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vllm_fleet.lab import deb_repo, labdata, packages, rpm_repo
from vllm_fleet.lab.packages import Package
from vllm_fleet.lab.settings import Lab

SCRATCH = ".repository-"
STAMP = ".digest"
# A change of how repositories are made counts this up: the cache then makes them anew.
FORMAT = 2
Build = Callable[[Path, Mapping[str, Any], list[Package], Path], Path]
BUILDERS: dict[str, Build] = {"rpm": rpm_repo.build, "deb": deb_repo.build}


def ensure(lab: Lab, base: Path, name: str) -> Path:
    """Return the folder with a persona's repository."""
    target = folder(lab, name)
    wanted = digest(base, name)
    if _stamp(target) != wanted:
        _build(lab, base, name, wanted)
    return target


def folder(lab: Lab, name: str) -> Path:
    """Return where the mirror serves a persona's repository."""
    return lab.mirror_root / str(labdata.persona(name)["family"]) / name


def digest(base: Path, name: str) -> str:
    """Return what the content of a repository depends on, as a digest."""
    persona = labdata.persona(name)
    data = labdata.read(f"packages_{persona['family']}")
    return labdata.digest(FORMAT, base.name, persona, data, packages.kernel_words())


def remove_leftovers(lab: Lab) -> None:
    """Remove what a killed build left (the caller holds the lab's lock)."""
    for scratch in lab.cache.glob(f"{SCRATCH}*"):
        shutil.rmtree(scratch)


def _stamp(target: Path) -> str:
    try:
        return (target / STAMP).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _build(lab: Lab, base: Path, name: str, stamp: str) -> None:
    persona = labdata.persona(name)
    scratch = lab.cache / f"{SCRATCH}{name}"
    built = BUILDERS[persona["family"]](base, persona, packages.of(persona), scratch)
    (built / STAMP).write_text(stamp, encoding="utf-8")
    target = folder(lab, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        # The old one leaves in one step, so that no reader sees half of it.
        target.rename(scratch / "old")
    built.rename(target)
    shutil.rmtree(scratch)
