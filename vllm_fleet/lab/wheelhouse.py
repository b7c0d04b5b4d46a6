"""Fill the mirror's ``wheels/``, ``locks/`` and ``sources/`` by the base root's own pip."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_fleet.lab import mirror_pip
from vllm_fleet.lab.mirror_files import MirrorError, read_sums, write_sums
from vllm_fleet.lab.mirror_root import Root

LOCKS = Path(__file__).parent / "data/locks"
PIP_CONF = "pip.conf"
NO_CPU_TORCH = """\
no package index of this machine offers %s.
Name a place that has CPU builds of torch, then try again:
  export %s=DIRECTORY-WITH-THE-WHEEL   (or the address of a package index)"""


@dataclass
class Pip:
    """pip inside the base root, in an environment of its own in the work folder."""

    root: Root
    python: str
    options: list[str]

    @property
    def executable(self) -> str:
        """The environment's Python, as it is called inside."""
        return self.root.inside(self.root.work / "venv/bin/python")

    def create(self) -> None:
        """Make the environment."""
        self.root.run(["python" + self.python, "-m", "venv", self.root.inside(self._venv)])

    @property
    def _venv(self) -> Path:
        return self.root.work / "venv"

    def __call__(self, verb: str, *words: str, extra: Mapping[str, str] | None = None) -> str:
        """Run one pip command inside."""
        command = [self.executable, "-m", "pip", "--disable-pip-version-check", verb, "--quiet"]
        return self.root.run([*command, *words], extra=extra)


def open_root(base: Path, work: Path, environment: Mapping[str, str] | None = None) -> Root:
    """The base root, seen with this machine's pip configuration."""
    outside = os.environ if environment is None else environment
    files = mirror_pip.config_files(outside, mirror_pip.home_of(outside))
    merged = mirror_pip.settings(files)
    (work / PIP_CONF).write_text(mirror_pip.as_file(merged))
    root = Root(base, work, {}, mirror_pip.paths_to_show(outside, merged))
    inside = {"PIP_CONFIG_FILE": root.inside(work / PIP_CONF), "PIP_NO_INPUT": "1"}
    root.environment = {**mirror_pip.environment_inside(outside), **inside}
    return root


def open_pip(base: Path, work: Path, python: str) -> Pip:
    """A fresh pip inside the base root, of the version that the build lock names."""
    pip = Pip(open_root(base, work), python, mirror_pip.cpu_torch_options(os.environ))
    pip.create()
    return pip


def lock_file(name: str) -> Path:
    """Where the lock of this name is kept."""
    return LOCKS / (name + ".txt")


def pins(text: str) -> dict[str, str]:
    """Package to version, from the lines ``name==version`` of a lock."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    pairs = (line.split()[0].split("==", 1) for line in lines if line)
    return {normal(name): version for name, version in pairs}


def normal(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel_pin(filename: str) -> tuple[str, str]:
    """Name and version that a wheel's file name tells."""
    name, version = filename.split("-")[:2]
    return normal(name), version


def wanted(locks: Iterable[str]) -> set[tuple[str, str]]:
    """Every package and version that the locks name together."""
    return {pin for name in locks for pin in pins(lock_file(name).read_text()).items()}


def download(pip: Pip, locks: Iterable[str], target: Path, kept: Path) -> None:
    """Bring every wheel of the locks into ``target``; take over what ``kept`` already has."""
    pinned = wanted(locks)
    _keep(kept, target, pinned)
    missing = pinned - {wheel_pin(path.name) for path in target.glob("*.whl")}
    if missing:
        _fetch(pip, missing, target)
    _check(pinned, target)


def _keep(kept: Path, target: Path, pinned: set[tuple[str, str]]) -> None:
    """Link wheels that are still wanted and still are what the sums say (by name only)."""
    listed = read_sums(kept)
    for path in kept.glob("*.whl") if kept.is_dir() else ():
        if path.name in listed and wheel_pin(path.name) in pinned:
            os.link(path, target / path.name)


def _fetch(pip: Pip, missing: set[tuple[str, str]], target: Path) -> None:
    requirements = pip.root.work / "missing.txt"
    requirements.write_text("".join("{}=={}\n".format(*pin) for pin in sorted(missing)))
    words = ["--no-deps", "--only-binary", ":all:", "--dest", pip.root.inside(target)]
    try:
        pip("download", *pip.options, *words, "-r", pip.root.inside(requirements))
    except MirrorError as error:
        raise _explain(error, missing) from error


def _explain(error: MirrorError, missing: set[tuple[str, str]]) -> MirrorError:
    """Say what to do where no CPU build of torch is to be had; otherwise pip's own words."""
    torch = next(("torch==" + version for name, version in missing if name == "torch"), "")
    if torch and torch in str(error):
        return MirrorError(NO_CPU_TORCH % (torch, mirror_pip.CPU_TORCH))
    return error


def _check(pinned: set[tuple[str, str]], target: Path) -> None:
    there = {wheel_pin(path.name) for path in target.glob("*.whl")}
    if lacking := sorted("{}=={}".format(*pin) for pin in pinned - there):
        raise MirrorError("the wheelhouse lacks " + ", ".join(lacking))


def write_index(wheels: Path) -> None:
    """A page of links with sums, so that pip checks every wheel that it takes from here."""
    sums = write_sums(wheels)
    link = '<a href="%s#sha256=%s">%s</a><br>\n'
    rows = [link % (name.replace("+", "%2B"), digest, name) for name, digest in sums.items()]
    page = "<!DOCTYPE html>\n<html><head><title>wheels</title></head><body>\n%s</body></html>\n"
    (wheels / "index.html").write_text(page % "".join(rows))


def write_locks(locks: Iterable[str], sums: Mapping[str, str], target: Path) -> None:
    """The locks again, each pin with the sum of the wheel that this mirror holds."""
    digests = {wheel_pin(name): digest for name, digest in sums.items()}
    for name in locks:
        pinned = pins(lock_file(name).read_text())
        line = "%s==%s --hash=sha256:%s\n"
        rows = [line % (*pin, digests[pin]) for pin in sorted(pinned.items())]
        (target / (name + ".txt")).write_text("".join(rows))


def install(pip: Pip, lock: str, wheels: Path) -> None:
    """Install a lock into pip's own environment from wheels alone."""
    requirements = pip.root.work / "install.txt"
    shutil.copyfile(lock_file(lock), requirements)
    words = ["--no-index", "--find-links", pip.root.inside(wheels), "--no-deps", "--no-compile"]
    pip("install", *words, "-r", pip.root.inside(requirements))


def fetch_source(pip: Pip, source: Mapping[str, Any], target: Path) -> None:
    """Bring one source archive; the build lock must be installed, since pip asks it questions."""
    project, version = source["project"], source["version"]
    words = ["--no-deps", "--no-build-isolation", "--no-binary", project]
    words += ["--dest", pip.root.inside(target), f"{project}=={version}"]
    pip("download", *words, extra=source.get("environment"))
    if not list(target.glob(f"{project}-{version}.tar.gz")):
        raise MirrorError(f"no source archive of {project} {version} came")
