"""Read the lab's data files."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from vllm_fleet.lab.errors import LabRefusal

DATA = Path(__file__).with_name("data")


@cache
def read(name: str) -> dict[str, Any]:
    """Return the content of one data file, named without its `.yml`."""
    document = yaml.safe_load((DATA / f"{name}.yml").read_text(encoding="utf-8"))
    assert isinstance(document, dict), f"{name}.yml is no mapping"
    return document


def names(folder: str) -> list[str]:
    """Return the names of the data files in a folder."""
    return sorted(path.stem for path in (DATA / folder).glob("*.yml"))


def persona(name: str) -> dict[str, Any]:
    """Return a persona; an unknown name is refused with the known ones."""
    if name not in names("personas"):
        raise LabRefusal(
            f"unknown persona {name!r}", hint=f"the lab knows: {', '.join(names('personas'))}"
        )
    return read(f"personas/{name}")


def digest(*parts: object) -> str:
    """Return a short digest of data: the name under which what is built from it is kept."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
