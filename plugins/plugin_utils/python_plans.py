# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Python interpreter a host gets, from its operating system and the role's options. Pure."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions

Data = dict[str, Any]

_VERSION = re.compile(r"^[0-9]+\.[0-9]+$")
_SHA256 = re.compile(r"^[0-9a-fA-F]{64}$")
_URL = re.compile(r"^https?://")


class PlanError(ValueError):
    """Options that lead to no interpreter or no engine; the text says what to do."""


def is_url(place: str) -> bool:
    """Say whether a place is a URL (otherwise it is a path on the controller)."""
    return _URL.match(place) is not None


def check_sha256(option: str, value: Any) -> str:
    """Return a checksum in lower case, or raise PlanError."""
    if not isinstance(value, str) or not _SHA256.match(value):
        raise PlanError(f"{option} must be 64 hexadecimal digits, not {value!r}")
    return value.lower()


def check_version(catalog: Data, version: Any) -> str:
    """Return the wanted version as MAJOR.MINOR, or raise PlanError."""
    if version is None:
        return str(catalog["default"])
    if not isinstance(version, str):
        raise PlanError(
            f"python_runtime_version is the number {version!r}, and YAML cannot tell 3.1 from "
            f'3.10: quote it, as in python_runtime_version: "{catalog["default"]}"'
        )
    if not _VERSION.match(version):
        raise PlanError(
            f"python_runtime_version is {version!r}; wanted is MAJOR.MINOR, "
            f'as in "{catalog["default"]}"'
        )
    if versions.compare(version, str(catalog["minimum"])) < 0:
        raise PlanError(
            f"python_runtime_version is {version!r}; engines need {catalog['minimum']} or later "
            "(if you wrote it without quotes, quote it)"
        )
    return version


def check_engine(version: str, engine: Data | None) -> None:
    """Raise PlanError where the engine does not support this Python."""
    wanted = engine and engine.get("requires_python")
    if engine and wanted and not versions.matches(version, wanted):
        raise PlanError(
            f"{engine['distribution']} {engine['version']} needs Python {wanted}; "
            f"python_runtime_version is {version!r}"
        )


def plan(catalog: Data, host: Data, options: Data, engine: Data | None = None) -> Data:
    """Return the interpreter for a host: its path, and the packages or archive that bring it."""
    version = check_version(catalog, options.get("version"))
    check_engine(version, engine)
    if options.get("source") == "archive":
        return _from_archive(version, options)
    return _from_distribution(catalog, version, host["os"])


def _from_distribution(catalog: Data, version: str, system: Data) -> Data:
    """Return the plan for an interpreter of the distribution."""
    row = next((r for r in catalog["distributions"] if system["key"] in r["os"]), None)
    if row is None:
        raise PlanError(
            f"catalog/python.yml does not know which interpreters {system['key']} offers. "
            "Set python_runtime_source: archive"
        )
    if version not in row["offers"]:
        raise PlanError(_not_offered(version, row, system["key"]))
    return {
        "source": "distribution",
        "version": version,
        "executable": row["executable"].format(version=version),
        "packages": [name.format(version=version) for name in row["packages"]],
        "archive": {},
    }


def _not_offered(version: str, row: Data, key: str) -> str:
    """Return why the distribution cannot bring this version, and the way out."""
    offered = ", ".join(row["offers"]) or "nothing else"
    why = (
        f"Python {version} is the system's own on {key}, and engines never go into it"
        if version == row["system"]
        else f"{key} has no packages of Python {version}"
    )
    return (
        f"{why}; beside the system's {row['system']} it offers {offered}. Choose an offered "
        "version, or set python_runtime_source: archive with python_runtime_archive and "
        "python_runtime_archive_sha256"
    )


def _from_archive(version: str, options: Data) -> Data:
    """Return the plan for an interpreter from an archive."""
    place = options.get("archive")
    if not place:
        raise PlanError(
            "python_runtime_source is archive: python_runtime_archive must be a URL or a path on "
            "the controller"
        )
    sha256 = check_sha256("python_runtime_archive_sha256", options.get("archive_sha256"))
    local = "" if is_url(place) else _local_archive(place, sha256)
    dest = f"{options.get('root', '/opt/vllm/python')}/{version}"
    return {
        "source": "archive",
        "version": version,
        "executable": f"{dest}/bin/python3",
        "packages": [],
        "archive": {"src": place, "local": local, "sha256": sha256, "dest": dest},
    }


def _local_archive(place: str, sha256: str) -> str:
    """Return the path of a file on the controller, or raise PlanError where it is not the one."""
    path = Path(place).expanduser()
    if not path.is_file():
        raise PlanError(f"there is no file {path} on the controller")
    seen = sha256_of(path)
    if seen != sha256:
        raise PlanError(f"wrong checksum: {path} has SHA-256 {seen}, wanted {sha256}")
    return str(path)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    summed = hashlib.sha256()
    with path.open("rb") as stream:
        for chunk in iter(lambda: stream.read(1024 * 1024), b""):
            summed.update(chunk)
    return summed.hexdigest()
