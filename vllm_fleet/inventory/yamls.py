"""YAML, read by the loader in C where PyYAML has it: ten times faster, with the same marks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read(file: Path) -> Any:
    """Return the content of a YAML file."""
    loader = LOADER(file.read_text(encoding="utf-8"))
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
