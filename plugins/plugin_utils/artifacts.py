# SPDX-License-Identifier: GPL-3.0-or-later
"""Which published files a set of versions needs, and whether the files at hand are these.

``needed`` is pure; ``verify`` reads files. A file without a published sum is told as such, never
taken as good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions

GOOD, WRONG, ABSENT, UNKNOWN = "good", "wrong sum", "absent", "no published sum"
CHUNK = 1024 * 1024


@dataclass(frozen=True)
class Artifact:
    """A file that is needed; without a name the catalog has no published file for it."""

    kind: str
    version: str
    name: str | None = None
    sha256: str | None = None
    url: str | None = None
    chip: str | None = None

    def __str__(self) -> str:
        chip = f" for {self.chip}" if self.chip else ""
        return self.name or f"{self.kind} {self.version}{chip}"


def needed(
    found: Mapping[str, str], chips: list[Mapping[str, Any]], arch: str, catalog: Mapping[str, Any]
) -> list[Artifact]:
    """Return the files for a set on hosts with these chips (rows of ascend.yml).

    ``catalog`` holds ``ascend`` and ``artifacts/ascend``.
    """
    wanted = list(_wanted(found, chips, catalog["ascend"]))
    return [_published(catalog["artifacts/ascend"], *want, arch) for want in dict.fromkeys(wanted)]


def _wanted(
    found: Mapping[str, str], chips: list[Mapping[str, Any]], ascend: Mapping[str, Any]
) -> Iterator[tuple[str, str, str | None]]:
    """Yield (kind, version, chip) of each file."""
    driver, cann = found.get("driver"), found.get("cann")
    for chip in chips:
        if driver:
            yield "hdk", driver, chip["tag"]
    if cann:
        yield "toolkit", cann, None
        row = next((r for r in ascend["cann"] if versions.matches(cann, r["versions"])), None)
        for chip in chips:
            yield (row["operators"] if row else "ops"), cann, chip["ops"]


def _published(
    files: Mapping[str, Any], kind: str, version: str, chip: str | None, arch: str
) -> Artifact:
    """Return the published file for a part, or the part without a file."""
    for row in files["files"]:
        same = row["kind"] == kind and row.get("chip") == chip and row.get("arch") == arch
        if same and versions.compare(row["version"], version) == 0:
            url = f"{files['base']}{row['folder']}/{row['name']}"
            return Artifact(kind, version, row["name"], row["sha256"], url, chip)
    return Artifact(kind, version, chip=chip)


def verify(folder: Path, artifact: Artifact) -> str:
    """Return whether a needed file lies in a folder, with the published sum."""
    if artifact.name is None or artifact.sha256 is None:
        return UNKNOWN
    path = folder / artifact.name
    if not path.is_file():
        return ABSENT
    return GOOD if sha256_of(path) == artifact.sha256 else WRONG


def sha256_of(path: Path) -> str:
    """Return the SHA-256 sum of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
