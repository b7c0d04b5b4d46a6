"""Stand-ins for NVIDIA's software: repositories and runfiles in the mirror, a module in a host.

`ensure` writes ``vendor/nvidia`` in the mirror: ``repos/rhel8/x86_64`` with module streams,
``repos/ubuntu2204/x86_64``, and ``runfiles`` with their SHA256SUMS. `install_kernel` gives a
running host modprobe and modinfo that know a module nvidia. No role or module knows of them.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vllm_fleet.lab import labdata, packages, rpm_repo, state
from vllm_fleet.lab.guest import Guest
from vllm_fleet.lab.packages import Package
from vllm_fleet.lab.process import run
from vllm_fleet.lab.settings import Lab

DATA = labdata.DATA / "vendor/nvidia"
SECTION = "vendor/nvidia"
FORMAT = 1
ARCH = "x86_64"
CONTROL = """\
Package: {name}
Version: {version}
Architecture: all
Maintainer: the lab <lab@localhost>
Provides: {group}
Conflicts: {group}
Replaces: {group}
Description: Stand-in for {name}
"""
STREAM = """\
---
document: modulemd
version: 2
data:
  name: nvidia-driver
  stream: {stream}
  version: {number}
  context: lab
  arch: x86_64
  summary: Stand-in for NVIDIA's driver
  description: Stand-in for NVIDIA's driver
  license: {{module: [MIT]}}
  profiles:
    default: {{rpms: [{names}]}}
  artifacts:
    rpms:
{artifacts}
...
"""


def versions() -> dict[str, Any]:
    """Return what the stand-ins offer."""
    return labdata.read("vendor/nvidia/versions")


def folder(lab: Lab) -> Path:
    """Return where the mirror serves the stand-ins."""
    return lab.mirror_root / SECTION


def ensure(lab: Lab) -> Path:
    """Return the folder; it is made where it is missing or out of date."""
    target, stamp = folder(lab), digest()
    with state.locked(lab, "build"):
        if not (target / stamp).exists():
            scratch = lab.cache / ".vendor-nvidia"
            shutil.rmtree(scratch, ignore_errors=True)
            build(scratch)
            (scratch / "made" / stamp).touch()
            shutil.rmtree(target, ignore_errors=True)
            target.parent.mkdir(parents=True, exist_ok=True)
            (scratch / "made").rename(target)
            shutil.rmtree(scratch)
    return target


def digest() -> str:
    """Return what the content depends on."""
    files = sorted(path for path in DATA.rglob("*") if path.is_file())
    texts = [path.read_text(encoding="utf-8") for path in files]
    return f".{labdata.digest(FORMAT, texts, packages.kernel_words())}"


def build(scratch: Path) -> None:
    """Make repositories and runfiles in SCRATCH/made."""
    made = scratch / "made"
    _build_rpm(scratch / "rpm", made / "repos" / versions()["rpm"]["folder"] / ARCH)
    _build_deb(scratch / "deb", made / "repos" / versions()["deb"]["folder"] / ARCH)
    _build_runfiles(made / "runfiles")


# -- files -------------------------------------------------------------------------------------


def text(name: str, version: str) -> str:
    """Return a file of the data with the driver's version in it."""
    return (DATA / name).read_text(encoding="utf-8").replace("@VERSION@", version)


def files(row: dict[str, Any], version: str) -> dict[str, dict[str, str]]:
    """Return what a package of the driver brings, by path."""
    found: dict[str, dict[str, str]] = {}
    units = "/usr/lib/systemd/system"
    programs = {"tools": ["nvidia-smi"], "persistenced": ["nvidia-persistenced"],
                "fabric": ["nv-fabricmanager"]}  # fmt: skip
    services = {"persistenced": "nvidia-persistenced", "fabric": "nvidia-fabricmanager"}
    for part in row["brings"]:
        for name in programs.get(part, []):
            found[f"/usr/bin/{name}"] = {"content": text(f"driver/{name}", version), "mode": "0755"}
        if part in services:
            unit = f"{services[part]}.service"
            found[f"{units}/{unit}"] = {"content": text(f"driver/{unit}", version)}
        if part == "library":
            found[f"{row['libraries']}/libnvidia-ml.so.{version}"] = {"content": "stand-in\n"}
        if part == "module":
            place = f"/lib/modules/{{kernel}}/{row['folder']}/nvidia.ko"
            content = f"version={version}\nlicense={row['license']}\n"
            found[place] = {"content": content}
    filled: dict[str, dict[str, str]] = packages.filled_in(found, packages.kernel_words())
    return filled


def links(row: dict[str, Any], version: str) -> dict[str, str]:
    """Return the links that a package of the driver brings."""
    if "library" not in row["brings"]:
        return {}
    return {f"{row['libraries']}/libnvidia-ml.so.1": f"libnvidia-ml.so.{version}"}


def driver_packages(family: str, version: str) -> Iterator[tuple[Package, str]]:
    """Yield the packages of a driver, each with the name under which it conflicts with others."""
    branch = version.split(".", maxsplit=1)[0]
    for pattern, row in versions()[family]["packages"].items():
        name = pattern.format(branch=branch)
        package = Package(name, version, files=files(row, version), links=links(row, version))
        yield package, row.get("group", name)


def toolkit_packages() -> Iterator[Package]:
    """Yield the packages of the toolkits."""
    for row in versions()["toolkits"]:
        cuda = row["cuda"]
        root = f"/usr/local/cuda-{cuda}"
        record = f'{{"cuda": {{"name": "CUDA SDK", "version": "{cuda}.0"}}}}\n'
        compiler = f'#!/bin/sh\necho "Cuda compilation tools, release {cuda}, V{cuda}.0"\n'
        yield Package(
            f"cuda-toolkit-{cuda.replace('.', '-')}",
            f"{cuda}.0",
            files={
                f"{root}/version.json": {"content": record},
                f"{root}/bin/nvcc": {"content": compiler, "mode": "0755"},
            },
        )


# -- packages ----------------------------------------------------------------------------------


def _build_rpm(scratch: Path, target: Path) -> None:
    dist = versions()["rpm"]["dist"]
    for version in versions()["drivers"]:
        chosen = [package for package, _ in driver_packages("rpm", version)]
        _rpmbuild(scratch / version, chosen, dist, target)
    _rpmbuild(scratch / "toolkits", list(toolkit_packages()), dist, target)
    run(["createrepo_c", "--quiet", "--general-compress-type=gz", target], limit=120)
    (scratch / "modules.yaml").write_text(modules(dist), encoding="utf-8")
    repodata = target / "repodata"
    run(["modifyrepo_c", "--mdtype=modules", scratch / "modules.yaml", repodata], limit=60)


def _rpmbuild(scratch: Path, chosen: list[Package], dist: str, target: Path) -> None:
    stage = scratch / "stage"
    stage.mkdir(parents=True)
    for package in chosen:
        package.stage(scratch, stage / package.name)
    spec = scratch / "vendor.spec"
    spec.write_text(rpm_repo.spec_text({"dist": dist}, chosen, stage), encoding="utf-8")
    defines = {**rpm_repo.DEFINES, "_topdir": str(scratch / "top"), "_rpmdir": str(target)}
    flags = [part for name, value in defines.items() for part in ("--define", f"{name} {value}")]
    run(["rpmbuild", "-bb", "--quiet", *flags, spec], limit=300)


def modules(dist: str) -> str:
    """Return the module streams of the repository: one per branch and flavour."""
    parts = []
    branches: dict[str, list[str]] = {}
    for version in versions()["drivers"]:
        branches.setdefault(version.split(".", maxsplit=1)[0], []).append(version)
    for branch, known in branches.items():
        for pattern, names in versions()["rpm"]["streams"].items():
            rows = [f"{name}-0:{version}-1.{dist}.{ARCH}" for version in known for name in names]
            artifacts = "\n".join(f"      - {row}" for row in rows)
            stream = f'"{pattern.format(branch=branch)}"'
            parts.append(
                STREAM.format(stream=stream, number=1, names=", ".join(names), artifacts=artifacts)
            )
    return "".join(parts)


def _build_deb(scratch: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for version in versions()["drivers"]:
        for package, group in driver_packages("deb", version):
            _dpkg(scratch / version, package, f"{version}-0ubuntu1", group, target)
    for package in toolkit_packages():
        _dpkg(scratch / "toolkits", package, f"{package.version}-1", package.name, target)
    listing = run(["dpkg-scanpackages", "--multiversion", "."], cwd=target)
    (target / "Packages").write_text(listing, encoding="utf-8")
    with gzip.open(target / "Packages.gz", "wt", encoding="utf-8") as stream:
        stream.write(listing)
    names = ("Packages", "Packages.gz")
    sums = "".join(f" {_sum(target / name)} {_size(target / name)} {name}\n" for name in names)
    codename = versions()["deb"]["codename"]
    release = f"Origin: lab\nSuite: {codename}\nCodename: {codename}\nSHA256:\n{sums}"
    (target / "Release").write_text(release, encoding="utf-8")


def _dpkg(scratch: Path, package: Package, version: str, group: str, target: Path) -> None:
    tree = scratch / package.name
    package.stage(scratch, tree)
    (tree / "DEBIAN").mkdir(parents=True)
    control = CONTROL.format(name=package.name, version=version, group=group)
    (tree / "DEBIAN/control").write_text(control, encoding="utf-8")
    file = target / f"{package.name}_{version}.deb"
    run(["dpkg-deb", "--build", "--root-owner-group", "-Zgzip", "-z1", tree, file])


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size


# -- runfiles ----------------------------------------------------------------------------------


def _build_runfiles(target: Path) -> None:
    target.mkdir(parents=True)
    for version in versions()["drivers"]:
        content = text("driver-runfile", version)
        for name in ("nvidia-smi", "nvidia-persistenced"):
            content = content.replace(f"@{name}@", text(f"driver/{name}", version).rstrip("\n"))
        (target / f"NVIDIA-Linux-{ARCH}-{version}.run").write_text(content, encoding="utf-8")
    for row in versions()["toolkits"]:
        content = (DATA / "cuda-runfile").read_text(encoding="utf-8")
        content = content.replace("@CUDA@", row["cuda"]).replace("@DRIVER@", row["driver"])
        name = f"cuda_{row['cuda']}.0_{row['driver']}_linux.run"
        (target / name).write_text(content, encoding="utf-8")
    made = sorted(target.glob("*.run"))
    sums = "".join(f"{_sum(path)}  {path.name}\n" for path in made)
    (target / "SHA256SUMS").write_text(sums, encoding="utf-8")


# -- hosts -------------------------------------------------------------------------------------


def install_kernel(lab: Lab, name: str) -> None:
    """Give a running host modprobe and modinfo that know the module, and load it at each boot."""
    guest = Guest(lab, name)
    for tool in ("modprobe", "modinfo"):
        place = guest.path(f"/usr/local/sbin/{tool}")
        place.write_text((DATA / "kernel" / tool).read_text(encoding="utf-8"), encoding="utf-8")
        place.chmod(0o755)
    unit = guest.path("/etc/systemd/system/lab-nvidia.service")
    unit.write_text((DATA / "kernel/lab-nvidia.service").read_text(encoding="utf-8"))
    guest.run("systemctl", "enable", "--quiet", "lab-nvidia.service")
