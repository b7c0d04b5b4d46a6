"""Personas: what makes a lab host look like one distribution, as a layer over the base root."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from vllm_fleet.lab import base, labdata, repos
from vllm_fleet.lab.process import contained, run
from vllm_fleet.lab.settings import Lab

SCRATCH = ".layer-"
# A change of how layers are made counts this up: the cache then makes them anew.
FORMAT = 3
BUILD_LIMIT_S = 300


def ensure(lab: Lab, root: Path, name: str) -> Path:
    """Return a persona's layer; it and its repository are built where they are not there."""
    repository = repos.ensure(lab, root, name)
    layer = _layer(lab, root, name)
    if not layer.is_dir():
        _build([name, str(root), str(repository)], layer)
    return layer


def remove_leftovers(lab: Lab) -> None:
    """Remove what a killed build left (the caller holds the lab's lock)."""
    for scratch in lab.cache.glob(f"{SCRATCH}*"):
        shutil.rmtree(scratch)
    repos.remove_leftovers(lab)


def remove_outdated(lab: Lab) -> None:
    """Remove layers and base roots that today's data no longer makes (no host may run)."""
    root = base.folder(lab)
    current = {root, *(_layer(lab, root, name) for name in labdata.names("personas"))}
    for pattern in ("layer-*", "base-*"):
        for folder in set(lab.cache.glob(pattern)) - current:
            shutil.rmtree(folder)


def _layer(lab: Lab, root: Path, name: str) -> Path:
    return lab.cache / f"layer-{name}-{_digest(root, name)}"


def _digest(root: Path, name: str) -> str:
    family = labdata.persona(name)["family"]
    return labdata.digest(FORMAT, repos.digest(root, name), labdata.read(f"families/{family}"))


def _build(arguments: list[str], layer: Path) -> None:
    """Change a mounted overlay of the base in a process of its own: what it wrote is the layer."""
    scratch = layer.with_name(f"{SCRATCH}{arguments[0]}")
    module = [sys.executable, "-m", "vllm_fleet.lab.layer", *arguments, str(scratch)]
    source = str(Path(__file__).resolve().parents[2])
    run(contained(module), limit=BUILD_LIMIT_S, env={"PYTHONPATH": source})
    (scratch / "upper").rename(layer)
    shutil.rmtree(scratch)
