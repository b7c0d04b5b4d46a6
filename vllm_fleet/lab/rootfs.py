"""Change a file tree as data says: write files, remove files, enable and mask units."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

UNITS = "etc/systemd/system"


def below(root: Path, path: str) -> Path:
    """Return where an absolute path of a guest stands in the tree on this machine."""
    return root / path.lstrip("/")


def write(root: Path, path: str, content: str, mode: int = 0o644) -> None:
    """Write one file, in the place of whatever stood there (a link is not followed)."""
    target = below(root, path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    target.write_text(content, encoding="utf-8")
    target.chmod(mode)


def remove(root: Path, pattern: str) -> None:
    """Remove what matches a pattern; fine when nothing does."""
    # A pattern without a wildcard would not match a link that leads nowhere.
    plain = below(root, pattern)
    for found in [plain] if plain.is_symlink() else sorted(root.glob(pattern.lstrip("/"))):
        if found.is_dir() and not found.is_symlink():
            shutil.rmtree(found)
        else:
            found.unlink()


def link(root: Path, path: str, target: str) -> None:
    """Make a symbolic link."""
    place = below(root, path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


def customise(root: Path, data: Mapping[str, Any]) -> None:
    """Apply the keys `removed`, `files`, `links`, `masked` and `enabled` of lab data."""
    for pattern in data.get("removed", ()):
        remove(root, pattern)
    for path, file in data.get("files", {}).items():
        write(root, path, file["content"], int(file.get("mode", "0644"), 8))
    for path, target in data.get("links", {}).items():
        link(root, path, target)
    for unit in data.get("masked", ()):
        link(root, f"{UNITS}/{unit}", "/dev/null")
    for wanted_by, units in data.get("enabled", {}).items():
        for unit in units:
            link(root, f"{UNITS}/{wanted_by}/{unit}", f"../{unit}")
