"""Stand-in packages as data: read, with the kernel that runs and the persona's versions put in."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vllm_fleet.lab import labdata, rootfs


@dataclass(frozen=True)
class Package:
    """One package: what it is called and what it brings."""

    name: str
    version: str
    installed: bool = False
    provides: tuple[str, ...] = ()
    from_base: tuple[str, ...] = ()
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    user: Mapping[str, str] = field(default_factory=dict)

    def stage(self, base: Path, target: Path) -> None:
        """Lay everything that the package brings into a folder."""
        target.mkdir(parents=True)
        for pattern in self.from_base:
            _copy(base, target, pattern)
        rootfs.customise(target, {"files": self.files, "links": self.links})


def _copy(base: Path, target: Path, pattern: str) -> None:
    for source in base.glob(pattern.lstrip("/")):
        place = target / source.relative_to(base)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place, follow_symlinks=False)


def of(persona: Mapping[str, Any]) -> list[Package]:
    """Return the packages of a persona."""
    data = labdata.read(f"packages_{persona['family']}")
    offered = {name: data["optional"][name] for name in persona.get("offers", ())}
    versions = persona.get("versions", {})
    recorded = {**data["installed"], **_release_package(persona)}
    installed = {name: {**row, "installed": True} for name, row in recorded.items()}
    rows = {**installed, **data["available"], **offered}
    return [_package(name, row, versions) for name, row in rows.items()]


def _release_package(persona: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the package that tells dnf which release this is."""
    row = persona.get("release_package")
    if row is None:
        return {}
    return {row["name"]: {"version": row["version"], "provides": ["system-release"]}}


def _package(name: str, row: Mapping[str, Any], versions: Mapping[str, str]) -> Package:
    filled = filled_in({"name": name, **row}, kernel_words())
    filled["version"] = versions.get(name, filled["version"])
    for key in ("provides", "from_base"):
        filled[key] = tuple(filled.get(key, ()))
    return Package(**filled)


def kernel_words() -> dict[str, str]:
    """Return what stands for {kernel} and {kernel_version} in the data."""
    release = platform.release()
    number = re.match(r"[0-9.]*[0-9]", release)
    return {"kernel": release, "kernel_version": number.group() if number else "0"}


def filled_in(value: Any, words: Mapping[str, str]) -> Any:
    """Put words in for {word}, in keys and values."""
    if isinstance(value, dict):
        return {filled_in(key, words): filled_in(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [filled_in(item, words) for item in value]
    if isinstance(value, str):
        for word, text in words.items():
            value = value.replace(f"{{{word}}}", text)
    return value
