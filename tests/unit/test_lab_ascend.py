"""The lab's stand-ins for Ascend installers: names, archives that are always the same, flags."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import ascend_names, npu_smi

from vllm_fleet.lab import vendor_ascend
from vllm_fleet.lab.vendor_ascend import Installer

ALL = [
    Installer("driver", "25.5.1"),
    Installer("driver", "26.0.RC1", chip="A3"),
    Installer("firmware", "7.8.0.6.201"),
    Installer("firmware", "9.0.0.0.205", chip="A3"),
    Installer("toolkit", "9.1.0"),
    Installer("ops", "9.1.0", chip="A3"),
    Installer("kernels", "8.3.RC2"),
    Installer("nnal", "9.1.0"),
]


@pytest.mark.parametrize("installer", ALL, ids=lambda row: f"{row.part}-{row.chip}")
def test_names_are_the_vendors(installer: Installer) -> None:
    row = ascend_names.parse(installer.name("aarch64"))
    assert row is not None
    assert (row["part"], row["version"]) == (installer.part, installer.version)
    assert row["chip"] in (None, installer.chip)


@pytest.mark.parametrize("installer", ALL, ids=lambda row: f"{row.part}-{row.chip}")
def test_the_same_bytes_whenever_it_is_made(installer: Installer, tmp_path: Path) -> None:
    data = vendor_ascend.content(installer, "aarch64")
    assert data == vendor_ascend.content(installer, "aarch64")
    path = tmp_path / "x.run"
    path.write_bytes(data.split(b"\n__PAYLOAD__\n")[0])
    subprocess.run(["bash", "-n", path], check=True, capture_output=True)


def smi(tmp_path: Path, device: str, version: str, *arguments: str) -> str:
    """Run npu-smi's stand-in with two chips of a kind."""
    for address in ("0000:01:00.0", "0000:c1:00.0"):
        folder = tmp_path / "pci" / address
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vendor").write_text("0x19e5\n")
        (folder / "device").write_text(f"{device}\n")
    (tmp_path / "running").write_text(f"driver={version}\nfirmware=7.8.0.6.201\n")
    text = (vendor_ascend.SOURCE / "hdk/npu-smi").read_text(encoding="utf-8")
    text = text.replace("/var/lib/lab-ascend", str(tmp_path))
    text = text.replace("/sys/bus/pci/devices", str(tmp_path / "pci"))
    done = subprocess.run(
        ["bash", "-c", text, "npu-smi", "info", *arguments],
        env={"LD_LIBRARY_PATH": "/usr/local/Ascend/driver/lib64", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("device", "version", "width", "rows"),
    [
        ("0xd802", "25.5.1", 98, 2),
        ("0xd802", "26.0.rc1", 116, 2),
        ("0xd803", "25.5.1", 98, 4),
        ("0xd500", "25.5.1", 106, 2),
    ],
)
def test_tables_have_the_recorded_widths(
    tmp_path: Path, device: str, version: str, width: int, rows: int
) -> None:
    text = smi(tmp_path, device, version)
    assert {len(line) for line in text.splitlines()} == {width}
    told = npu_smi.parse_info(text)
    assert told["version"] == version
    assert [row["health"] for row in told["devices"]] == ["OK"] * rows


def test_board_names_what_runs(tmp_path: Path) -> None:
    text = smi(tmp_path, "0xd803", "26.0.RC1", "-t", "board", "-i", "1")
    assert "Software Version               : 26.0.RC1" in text
    assert "PCI Device ID                  : 0xD803" in text
