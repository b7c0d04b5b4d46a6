"""What npu-smi and nvidia-smi print, in every recorded layout: one fixture for each sample."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    hccn,
    npu_smi,
    nvidia_smi,
    terminal_text,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import npu_family, versions

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures"
NPU = sorted((FIXTURES / "npu_smi").glob("*.txt"))
NVIDIA = sorted(path for path in (FIXTURES / "nvidia_smi").glob("*.*") if path.suffix != ".json")
EXIT = {"error-not-found": 127, "error-library": 127}
NVIDIA_EXIT = {"error-mismatch": 18, "error-no-driver": 9, "error-no-devices": 6}
# For people only: nothing reads a banner.
UNREAD = ("h200x2-580.159.04-banner", "h200x2-580.159.04-misc")
READERS = {
    "sub-list": npu_smi.parse_list,
    "sub-map": npu_smi.parse_map,
    "sub-board": npu_smi.parse_board,
    "sub-health": npu_smi.parse_health,
}


def text(kind: str, name: str) -> str:
    return (FIXTURES / kind / name).read_bytes().decode("utf-8", "replace")


def read_npu(path: Path) -> Any:
    said = text("npu_smi", path.name)
    if path.stem.startswith("error-"):
        return npu_smi.failure(EXIT.get(path.stem, 255), said)
    reader = next((fn for name, fn in READERS.items() if path.stem.startswith(name)), None)
    return reader(said) if reader else npu_smi.parse_info(said)


def read_nvidia(path: Path) -> Any:
    said = text("nvidia_smi", path.name)
    if path.suffix == ".xml":
        return nvidia_smi.parse_xml(said)
    if path.stem.startswith("error-"):
        return nvidia_smi.failure(NVIDIA_EXIT.get(path.stem, 2), said)
    return nvidia_smi.parse_topology(said)


def devices(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = npu_smi.parse_info(text("npu_smi", f"{name}.txt"))["devices"]
    return found


@pytest.mark.parametrize("path", NPU, ids=lambda path: path.stem)
def test_npu_smi_sample(path: Path) -> None:
    assert read_npu(path) == json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "path", [path for path in NVIDIA if path.stem not in UNREAD], ids=lambda path: path.stem
)
def test_nvidia_smi_sample(path: Path) -> None:
    assert read_nvidia(path) == json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


def test_br_11_noise_before_a_good_table_changes_nothing() -> None:
    assert devices("noise-before-a-good-table") == devices("a2-910b4-25.0.rc1.1")
    assert devices("ansi-around-rows") == devices("a2-910b4-25.0.rc1.1")


@pytest.mark.parametrize(("name", "code"), [("8005", "-8005"), ("8020", "-8020")])
def test_br_11_noise_is_not_the_reason(name: str, code: str) -> None:
    found = npu_smi.failure(255, text("npu_smi", f"error-dcmi-{name}.txt"))
    assert (found["kind"], found["code"]) == ("dcmi", code)
    assert "DrvMng" not in found["said"]


def test_br_13_two_dies_for_each_card_whatever_the_width() -> None:
    found = devices("a3-eight-cards-two-dies")
    assert len(found) == 16
    assert {(row["npu"], row["chip"]) for row in found} == {
        (n, c) for n in range(8) for c in (0, 1)
    }
    assert [row["phy"] for row in found] == list(range(16))
    assert [row["power_w"] for row in found[:2]] == [178.8, None]
    wide, classic = devices("a3-26.0.rc2-wide"), devices("a3-24.1.rc3.7")[:2]
    assert [row["bus_id"] for row in wide] == [row["bus_id"] for row in classic]
    assert versions.compare("26.0.rc2", "26.0") < 0


def test_br_14_a_910a_calls_itself_910b() -> None:
    catalog = yaml.safe_load((ROOT / "catalog/ascend.yml").read_text(encoding="utf-8"))
    row = devices("910a-24.1.0-named-910b")[0]
    totals = (row["memory_mb"]["total"], row["hbm_mb"]["total"])
    assert row["name"] == "910B"
    assert npu_family.classify(catalog, None, row["name"], *totals) == "910a"


def test_a_process_is_never_an_npu() -> None:
    found = npu_smi.parse_info(text("npu_smi", "unhealthy-warning-25.2.0.txt"))
    assert [(row["npu"], row["health"]) for row in found["devices"]] == [(0, "OK"), (1, "Warning")]
    assert [row["pid"] for row in found["processes"]] == [115133, 115134]


@pytest.mark.parametrize("cut", range(0, 900, 37))
def test_a_table_cut_anywhere_is_no_crash(cut: int) -> None:
    whole = text("npu_smi", "a3-24.1.rc3.7.txt")
    assert len(npu_smi.parse_info(whole[:cut])["devices"]) <= 3


def test_a_tool_that_hangs_and_one_that_prints_nonsense() -> None:
    assert npu_smi.failure(None, "")["kind"] == "timeout"
    assert npu_smi.failure(0, "hello\n") == {"kind": "no-devices", "code": "0", "said": "hello"}
    assert nvidia_smi.failure(None, "")["kind"] == "timeout"
    assert nvidia_smi.parse_xml("no document") is None
    assert nvidia_smi.parse_xml("<nvidia_smi_log><gpu></nvidia_smi_log>") is None


def test_br_19_a_mismatch_is_no_missing_driver() -> None:
    found = nvidia_smi.failure(18, text("nvidia_smi", "error-mismatch.txt"))
    assert (found["kind"], found["code"]) == ("mismatch", "535.161")
    module = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  520.56.06  Thu Oct  6\nGCC version: 12\n"
    )
    assert nvidia_smi.parse_loaded(module) == {"version": "520.56.06", "open": False}
    opened = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.159.04  Release Build\n"
    assert nvidia_smi.parse_loaded(opened) == {"version": "580.159.04", "open": True}
    assert nvidia_smi.parse_loaded("") is None


def test_an_older_document_of_nvidia_smi() -> None:
    old = (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v11.dtd">\n'
        "<nvidia_smi_log><driver_version>470.57.02</driver_version><gpu id='00000000:3B:00.0'>"
        "<product_name>Tesla T4, old</product_name><fb_memory_usage><total>15109 MiB</total>"
        "</fb_memory_usage><clocks_throttle_reasons><clocks_throttle_reason_hw_thermal_slowdown>"
        "Active</clocks_throttle_reason_hw_thermal_slowdown></clocks_throttle_reasons>"
        "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>"
        "<ecc_errors><volatile><sram_uncorrectable>2</sram_uncorrectable><dram_uncorrectable>N/A"
        "</dram_uncorrectable></volatile></ecc_errors></gpu></nvidia_smi_log>"
    )
    gpu = nvidia_smi.parse_xml("noise before\n" + old)["gpus"][0]
    assert (gpu["bus_id"], gpu["name"]) == ("0000:3b:00.0", "Tesla T4, old")
    assert gpu["slowdowns"] == ["hw_thermal_slowdown"]
    assert gpu["remapped_rows"] == {"pending": True, "failure": False}
    assert (gpu["uncorrected_ecc"], gpu["mig"], gpu["fabric"]["state"]) == (2, None, "")


@pytest.mark.parametrize(
    ("said", "tls"),
    [
        ("dev_id:0, tls switch[0](0:disable, 1:enable), tls alarm time threshold[60]days", False),
        ("dev_id:0, tls switch[1](0:disable, 1:enable)", True),
        ("tls switch: enable", True),
        ("Cmd os_hccn_tool execute failed", None),
    ],
)
def test_the_tls_switch(said: str, tls: bool | None) -> None:
    assert hccn.parse_tls(said) is tls


def test_the_network_of_the_npus() -> None:
    assert hccn.parse_link("link status: DOWN\n") == "DOWN"
    assert hccn.parse_health("net health status: Socket fail\n") == "Socket fail"
    assert hccn.parse_address("ipaddr:192.0.2.10\nnetmask:255.255.255.0\n") == "192.0.2.10"
    conf = "address_0=192.0.2.10\nnetmask_0=255.255.255.0\n# x\naddress_11=192.0.2.21\n"
    assert hccn.parse_conf(conf)["11"] == {"address": "192.0.2.21"}
    assert (hccn.parse_link(""), hccn.parse_health(""), hccn.parse_address("")) == ("", "", "")


def test_plain_text() -> None:
    assert terminal_text.plain("\x1b[4mGPU0\x1b[0m\r\n\x07x") == "GPU0\nx"
    assert terminal_text.number("16x") == 16
    assert terminal_text.number("N/A") is None
