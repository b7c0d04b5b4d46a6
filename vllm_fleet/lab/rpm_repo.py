"""Build an rpm persona's repository: one spec with a subpackage per stand-in package."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vllm_fleet.lab.packages import Package
from vllm_fleet.lab.process import run

LICENSE = "GPL-3.0-or-later"
PREAMBLE = """\
Name: vllm-fleet-lab
Version: 1
Release: 1
Summary: Stand-in packages of the lab
License: {license}
%description
Stand-in packages of the lab; this one is never built.
%install
mkdir -p %{{buildroot}}
for stage in {stage}/*/; do cp -a "$stage." %{{buildroot}}/; done
"""
SUBPACKAGE = """\
%package -n {name}
Version: {version}
Release: {release}
Summary: Stand-in for {name}
AutoReqProv: no
{provides}
%description -n {name}
A stand-in of the lab: it brings what the lab needs of {name}, and a record.
{scripts}
%files -n {name}
{files}
"""
# No debug packages, no byte-compiling, no build ids: the files stay as they are staged.
DEFINES = {
    "__os_install_post": "%{nil}",
    "debug_package": "%{nil}",
    "_build_id_links": "none",
    "__brp_mangle_shebangs": "%{nil}",
}


def build(base: Path, persona: Mapping[str, Any], packages: list[Package], scratch: Path) -> Path:
    """Build packages and repository in a scratch folder; return the repository."""
    stage, repository = scratch / "stage", scratch / "repository"
    stage.mkdir(parents=True)
    for package in packages:
        package.stage(base, stage / package.name)
    spec = scratch / "lab.spec"
    spec.write_text(spec_text(persona, packages, stage), encoding="utf-8")
    defines = {**DEFINES, "_topdir": str(scratch / "top"), "_rpmdir": str(repository)}
    flags = [part for name, value in defines.items() for part in ("--define", f"{name} {value}")]
    run(["rpmbuild", "-bb", "--quiet", *flags, spec], limit=300)
    run(["createrepo_c", "--quiet", "--general-compress-type=gz", repository], limit=120)
    shutil.copy2(spec, repository / "lab.spec")
    return repository


def spec_text(persona: Mapping[str, Any], packages: list[Package], stage: Path) -> str:
    """Return the spec with every package."""
    parts = [PREAMBLE.format(license=LICENSE, stage=stage)]
    parts += [_subpackage(package, str(persona["dist"]), stage) for package in packages]
    return "".join(parts)


def _subpackage(package: Package, dist: str, stage: Path) -> str:
    return SUBPACKAGE.format(
        name=package.name,
        version=package.version,
        release=f"1.{dist}",
        provides="\n".join(f"Provides: {name}" for name in package.provides),
        scripts=f"{_user(package)}{_units(package)}",
        files="\n".join(_files(stage / package.name)),
    )


def _user(package: Package) -> str:
    if not package.user:
        return ""
    name, home = package.user["name"], package.user["home"]
    add = f"useradd --system --home-dir {home} --no-create-home --shell /sbin/nologin {name}"
    return f"%pre -n {package.name}\ngetent passwd {name} >/dev/null || {add}\n"


def _units(package: Package) -> str:
    """Return what systemd's own package does elsewhere: have systemd read new units."""
    if not any("/systemd/system/" in path for path in package.files):
        return ""
    return f"%post -n {package.name}\nsystemctl daemon-reload || :\n"


def _files(stage: Path) -> list[str]:
    found = [path for path in sorted(stage.rglob("*")) if path.is_symlink() or path.is_file()]
    lines = [f"/{path.relative_to(stage)}" for path in found]
    return [f"%config(noreplace) {line}" if line.startswith("/etc/") else line for line in lines]


def files_of(repository: Path, packages: list[Package]) -> list[Path]:
    """Return the package files of those packages that a blank host has installed."""
    names = {f"{package.name}-{package.version}-1." for package in packages if package.installed}
    return [
        path
        for path in sorted(repository.rglob("*.rpm"))
        if any(path.name.startswith(name) for name in names)
    ]
