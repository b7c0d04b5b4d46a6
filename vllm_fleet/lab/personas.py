"""Personas: what makes a lab host look like one distribution, as a layer over the base root."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from vllm_fleet.lab import labdata, repos
from vllm_fleet.lab.process import contained, run
from vllm_fleet.lab.settings import Lab

SCRATCH = ".layer-"
# A change of how layers are made counts this up: the cache then makes them anew.
FORMAT = 3
BUILD_LIMIT_S = 300


def ensure(lab: Lab, base: Path, name: str) -> Path:
    """Return a persona's layer; it and its repository are built where they are not there."""
    repository = repos.ensure(lab, base, name)
    layer = lab.cache / f"layer-{name}-{_digest(base, name)}"
    if not layer.is_dir():
        _build([name, str(base), str(repository)], layer)
    return layer


def remove_leftovers(lab: Lab) -> None:
    """Remove what a killed build left (the caller holds the lab's lock)."""
    for scratch in lab.cache.glob(f"{SCRATCH}*"):
        shutil.rmtree(scratch)
    repos.remove_leftovers(lab)


def _digest(base: Path, name: str) -> str:
    family = labdata.persona(name)["family"]
    return labdata.digest(FORMAT, repos.digest(base, name), labdata.read(f"families/{family}"))


def _build(arguments: list[str], layer: Path) -> None:
    """Change a mounted overlay of the base in a process of its own: what it wrote is the layer."""
    scratch = layer.with_name(f"{SCRATCH}{arguments[0]}")
    module = [sys.executable, "-m", "vllm_fleet.lab.layer", *arguments, str(scratch)]
    source = str(Path(__file__).resolve().parents[2])
    run(contained(module), limit=BUILD_LIMIT_S, env={"PYTHONPATH": source})
    (scratch / "upper").rename(layer)
    shutil.rmtree(scratch)
