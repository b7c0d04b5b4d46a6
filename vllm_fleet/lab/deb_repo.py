"""Build a deb persona's repository: packages of the base root packed again, and stand-ins."""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_fleet.lab import labdata
from vllm_fleet.lab.packages import Package
from vllm_fleet.lab.process import run

DPKG = "var/lib/dpkg"
SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "conffiles", "triggers")
# Fields that only dpkg's own database has.
OWN_FIELDS = re.compile(r"^(Status|Conffiles|Config-Version):.*\n(?: .*\n)*", re.MULTILINE)
CONTROL = """\
Package: {name}
Version: {version}
Architecture: all
Maintainer: the lab <lab@localhost>
Provides: {provides}
Description: Stand-in for {name}
"""


def build(base: Path, persona: Mapping[str, Any], packages: list[Package], scratch: Path) -> Path:
    """Build packages and repository in a scratch folder; return the repository."""
    repository = scratch / "repository"
    repository.mkdir(parents=True)
    for package in packages:
        tree = scratch / package.name
        package.stage(base, tree)
        _pack(tree, _control(package), repository / f"{package.name}.deb")
    for name in repacked(persona):
        tree = scratch / name
        _unpack(base, name, tree)
        _pack(tree, _stanza(base, name), repository / f"{name}.deb")
    _index(repository, str(persona["codename"]))
    return repository


def repacked(persona: Mapping[str, Any]) -> list[str]:
    """Return the real packages of the base root that a blank host has not."""
    names: list[str] = labdata.read(f"packages_{persona['family']}")["repacked"]
    return names


def _control(package: Package) -> str:
    provides = ", ".join(package.provides)
    text = CONTROL.format(name=package.name, version=package.version, provides=provides)
    return text if provides else text.replace("Provides: \n", "")


def _stanza(base: Path, name: str) -> str:
    """Return the package's control data from the base root's database."""
    for stanza in (base / DPKG / "status").read_text(encoding="utf-8").split("\n\n"):
        if stanza.startswith(f"Package: {name}\n"):
            return OWN_FIELDS.sub("", f"{stanza}\n")
    raise KeyError(f"{name} is not in the base root")


def _unpack(base: Path, name: str, tree: Path) -> None:
    """Lay an installed package's files and scripts out as dpkg-deb wants them."""
    info = base / DPKG / "info"
    tree.mkdir(parents=True)
    for line in (info / f"{name}.list").read_text(encoding="utf-8").splitlines():
        source, target = base / line.lstrip("/"), tree / line.lstrip("/")
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif source.is_file():
            # (What the base root leaves out, such as documentation, is in no file.)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    (tree / "DEBIAN").mkdir()
    for script in SCRIPTS:
        if (info / f"{name}.{script}").exists():
            shutil.copy2(info / f"{name}.{script}", tree / "DEBIAN" / script)


def _pack(tree: Path, control: str, target: Path) -> None:
    (tree / "DEBIAN").mkdir(exist_ok=True)
    (tree / "DEBIAN/control").write_text(control, encoding="utf-8")
    run(["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", tree, target])


def _index(repository: Path, codename: str) -> None:
    """Write what apt reads: a flat repository's Packages and Release."""
    listing = run(["dpkg-scanpackages", "--multiversion", "."], cwd=repository)
    (repository / "Packages").write_text(listing, encoding="utf-8")
    with gzip.open(repository / "Packages.gz", "wt", encoding="utf-8") as file:
        file.write(listing)
    release = f"Origin: vllm-fleet-lab\nSuite: {codename}\nCodename: {codename}\nSHA256:\n"
    release += "".join(_hash_line(repository / name) for name in ("Packages", "Packages.gz"))
    (repository / "Release").write_text(release, encoding="utf-8")


def _hash_line(path: Path) -> str:
    content = path.read_bytes()
    return f" {hashlib.sha256(content).hexdigest()} {len(content)} {path.name}\n"
