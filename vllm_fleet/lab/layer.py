"""Build a persona's layer: `python -m vllm_fleet.lab.layer PERSONA BASE REPOSITORY SCRATCH`.

It runs in namespaces of its own (see ``process.contained``); SCRATCH/upper is the layer.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_fleet.lab import deb_repo, labdata, packages, rootfs, rpm_repo
from vllm_fleet.lab.packages import Package
from vllm_fleet.lab.process import run

PLATFORM_PYTHON = "/usr/libexec/platform-python"


def main() -> None:
    """Mount the overlay and make the persona in it."""
    name = sys.argv[1]
    base, repository, scratch = map(Path, sys.argv[2:])
    root = mount(base, scratch)
    make(root, labdata.persona(name), repository)
    run(["umount", root])


def mount(base: Path, scratch: Path) -> Path:
    """Mount an overlay whose changes come to lie in SCRATCH/upper."""
    root, upper, work = (scratch / part for part in ("root", "upper", "work"))
    for folder in (root, upper, work):
        folder.mkdir(parents=True)
    options = f"lowerdir={base},upperdir={upper},workdir={work}"
    run(["mount", "-t", "overlay", "overlay", "-o", options, root])
    return root


def make(root: Path, persona: Mapping[str, Any], repository: Path) -> None:
    """Turn the base root into the persona."""
    family = labdata.read(f"families/{persona['family']}")
    offered = packages.of(persona)
    if persona["family"] == "deb":
        purge(root, persona)
    rootfs.customise(root, family)
    if persona["family"] == "rpm":
        record(root, offered, repository)
    rootfs.customise(root, persona)
    if persona["system_python"] == "hidden":
        hide_python(root)
    for package in offered:
        for pattern in package.from_base:
            rootfs.remove(root, pattern)


def record(root: Path, offered: list[Package], repository: Path) -> None:
    """Enter what a blank host has installed into the rpm database."""
    place = root / "packages"
    place.mkdir()
    for file in rpm_repo.files_of(repository, offered):
        shutil.copy2(file, place)
    files = sorted(f"/{place.name}/{file.name}" for file in place.iterdir())
    run(["chroot", root, "rpm", "--install", "--force-debian", "--nodeps", *files])
    shutil.rmtree(place)


def purge(root: Path, persona: Mapping[str, Any]) -> None:
    """Purge what is installed in the base root but not on a blank host of this persona."""
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["chroot", root, "dpkg", "--purge", *deb_repo.repacked(persona)], env=quiet)
    rename_python(root / deb_repo.DPKG, str(persona["python"]))


def rename_python(database: Path, version: str) -> None:
    """Give Debian's Python the distribution's version in dpkg's database.

    The distribution's own repository may then offer a package python3.11 beside it.
    """
    status = database / "status"
    text = status.read_text(encoding="utf-8").replace("python3.11", f"python{version}")
    status.write_text(text, encoding="utf-8")
    for path in sorted((database / "info").glob("*python3.11*")):
        path.rename(path.with_name(path.name.replace("python3.11", f"python{version}")))
    for path in (database / "info").glob(f"*python{version}*.list"):
        text = path.read_text(encoding="utf-8").replace("/usr/bin/python3.11\n", "")
        path.write_text(text, encoding="utf-8")


def hide_python(root: Path) -> None:
    """Move the system's Python where EL8 has it: /usr/bin/python3.11 is then free."""
    source = root / "usr/bin/python3.11"
    target = rootfs.below(root, PLATFORM_PYTHON)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
    target.chmod(0o755)
    source.unlink()
    rootfs.link(root, "/usr/bin/python3", PLATFORM_PYTHON)
    for tool in sorted((root / "usr/bin").glob("dnf-3")):
        text = tool.read_text(encoding="utf-8")
        tool.write_text(text.replace("#!/usr/bin/python3", f"#!{PLATFORM_PYTHON}", 1))


if __name__ == "__main__":
    main()
