"""Personas: what makes a lab host look like one distribution, as a layer over the base root."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from vllm_fleet.lab import labdata
from vllm_fleet.lab.process import contained, run
from vllm_fleet.lab.settings import Lab

SCRATCH = ".layer-"
BUILD_LIMIT_S = 300


def ensure(lab: Lab, base: Path, name: str) -> Path:
    """Return a persona's layer; it is built where it is not in the cache."""
    layer = lab.cache / f"layer-{name}-{_digest(base, name)}"
    if not layer.is_dir():
        _build(base, name, layer)
    return layer


def remove_leftovers(lab: Lab) -> None:
    """Remove what a killed build left (the caller holds the lab's lock)."""
    for scratch in lab.cache.glob(f"{SCRATCH}*"):
        shutil.rmtree(scratch)


def _digest(base: Path, name: str) -> str:
    data = labdata.persona(name)
    return labdata.digest(base.name, data, labdata.read(f"families/{data['family']}"))


def _build(base: Path, name: str, layer: Path) -> None:
    """Change a mounted overlay of the base in a process of its own: what it wrote is the layer."""
    scratch = layer.with_name(f"{SCRATCH}{name}")
    module = [sys.executable, "-m", "vllm_fleet.lab.layer", name, str(base), str(scratch)]
    source = str(Path(__file__).resolve().parents[2])
    run(contained(module), limit=BUILD_LIMIT_S, env={"PYTHONPATH": source})
    (scratch / "upper").rename(layer)
    shutil.rmtree(scratch)
