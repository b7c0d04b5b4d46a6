"""Stand-ins for the vendor's Ascend installers: self-extracting scripts with the real names.

``publish`` lays them into the mirror's section ``vendor/ascend``, where hosts download them. Each
is the same to the byte whenever it is made, so that its checksum is known.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shlex
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vllm_fleet.lab import labdata, mirror_files
from vllm_fleet.lab.settings import Lab

SECTION = "vendor/ascend"
SOURCE = labdata.DATA / "vendor/ascend"
# The first release that has a directory of its own, and `ops` in the place of `kernels`.
OWN_DIRECTORY = (8, 5)


@dataclass(frozen=True)
class Installer:
    """One installer: which part, for which chip, of which version."""

    part: str
    version: str
    chip: str = "910b"
    # Ranges that a driver names for firmware, or a firmware for drivers.
    fits: str = ""
    # The release that a firmware belongs to, or the component number in a driver's `Version`.
    release: str = ""

    def name(self, machine: str) -> str:
        """Return the file's name."""
        head = "Atlas-A3" if self.chip == "A3" else f"Ascend-hdk-{self.chip}"
        hdk = f"{head}-hdk" if self.chip == "A3" else head
        end = f"_{self.version}_linux-{machine}.run"
        names = {
            "driver": f"{hdk}-npu-driver{end}",
            "firmware": f"{hdk}-npu-firmware_{self.version}.run",
            "ops": f"Ascend-cann-{self.chip}-ops{end}",
            "kernels": f"Ascend-cann-kernels-{self.chip}{end}",
        }
        return names.get(self.part, f"Ascend-cann-{self.part}{end}")


def content(installer: Installer, machine: str) -> bytes:
    """Return an installer's file."""
    packed = _pack(_files(installer))
    values = {
        "NAME": installer.name(machine),
        "PART": installer.part,
        "VERSION": installer.version,
        "CHIP": installer.chip,
        "GENERATION": str(_generation(installer.version)),
        "MD5": hashlib.md5(packed, usedforsecurity=False).hexdigest(),
    }
    assigned = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    kind = "hdk" if installer.part in ("driver", "firmware") else "cann"
    script = _text("common/head.sh") + _text(f"{kind}/install.sh")
    # The payload follows: the shell must not read on.
    return f"#!/bin/bash\n{assigned}{script}exit 0\n__PAYLOAD__\n".encode() + packed


def publish(lab: Lab, installers: Iterable[Installer], machine: str) -> dict[str, str]:
    """Write installers into the mirror; return name to SHA-256."""
    folder = lab.mirror_root / SECTION
    folder.mkdir(parents=True, exist_ok=True)
    sums = {}
    for installer in installers:
        path = folder / installer.name(machine)
        data = content(installer, machine)
        if not path.is_file() or path.read_bytes() != data:
            unfinished = path.with_name(path.name + ".new")
            unfinished.write_bytes(data)
            unfinished.replace(path)
        sums[path.name] = mirror_files.sha256(path)
    return sums


def _generation(version: str) -> int:
    major, minor = (int(word) for word in version.split(".")[:2])
    return 2 if (major, minor) >= OWN_DIRECTORY else 1


def _files(installer: Installer) -> dict[str, bytes]:
    """Return what an installer unpacks: path to content."""
    if installer.part == "driver":
        tools = ("npu-smi", "lab-load", "lab-ascend.service")
        files = {f"tools/{name}": _text(f"hdk/{name}") for name in tools}
        files |= {"script/uninstall.sh": _text("hdk/uninstall.sh")}
        files["version.info"] = _driver_info(installer)
    elif installer.part == "firmware":
        files = {"script/uninstall.sh": _text("hdk/uninstall.sh")}
        files["version.info"] = _firmware_info(installer)
    else:
        names = {
            "toolkit": ("set_env.sh", "cann_uninstall.sh"),
            "nnal": ("atb_set_env.sh", "nnal_uninstall.sh"),
        }
        files = {name: _text(f"cann/{name}") for name in names.get(installer.part, ())}
    return {path: text.encode() for path, text in files.items()}


def _driver_info(installer: Installer) -> str:
    return (
        f"Version={installer.release or installer.version}\nascendhal_version=7.35.23\n"
        "aicpu_version=1.0\ntdt_version=1.0\nlog_version=1.0\nprof_version=2.0\n"
        "dvppkernels_version=1.1\ntsfw_version=1.0\nInnerversion=V100R001C21SPC002B220\n"
        "compatible_version=[V100R001C17],[V100R001C18],[V100R001C19],[V100R001C20]\n"
        f"compatible_version_fw={installer.fits}\npackage_version={installer.version}\n"
    )


def _firmware_info(installer: Installer) -> str:
    return (
        f"Version={installer.version}\nfirmware_version=1.0\n"
        f"package_version={installer.release}\ncompatible_version_drv={installer.fits}\n"
    )


def _text(path: str) -> str:
    return (SOURCE / path).read_text(encoding="utf-8")


def _pack(files: Mapping[str, bytes]) -> bytes:
    """Return a compressed archive that depends on the files' paths and contents only."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as tar,
    ):
        for path, data in sorted(files.items()):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o755
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()
