"""What there is of the NVIDIA driver, what it means, and which driver a host gets."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    hostread,
    nvidia_runfiles,
    nvidia_state,
)
from ansible_collections.vllm_fleet.baremetal.plugins.modules import nvidia_nouveau
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog, nvidia_plans
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import PlanError

PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  520.56.06  Thu Oct  6 21:38:55 UTC 2022\n"
    "GCC version:  gcc version 11.2.0 (Ubuntu 11.2.0-19ubuntu1)\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (d@b)\n"
    "GCC version:  gcc version 12.2.0\n"
)
TODAY = date(2026, 11, 30)


def seen(**values: Any) -> dict[str, Any]:
    """Return what a probe sees on a host without a driver, with some of it different."""
    nothing = dict.fromkeys(
        ("loaded", "loaded_flavour", "on_disk", "on_disk_flavour", "user_space", "runfile"), ""
    )
    return {**nothing, "packages": {}, "nouveau": False, **values}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PROPRIETARY, ("520.56.06", "proprietary")),
        (OPEN, ("580.159.04", "open")),
        (None, ("", "")),
        ("", ("", "")),
        ("NVRM version: something else\n", ("", "")),
    ],
)
def test_module_that_runs(text: str | None, found: tuple[str, str]) -> None:
    assert nvidia_state.parse_proc_version(text) == found


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, "absent"),
        ({"loaded": "535.1.1"}, "reboot_pending"),
        ({"on_disk": "580.1.1", "user_space": "580.1.1"}, "not_loaded"),
        ({"on_disk": "580.1.1", "user_space": "580.1.1", "loaded": "580.1.1"}, "good"),
        ({"on_disk": "525.85.12", "user_space": "525.85.12", "loaded": "520.56.06"},
         "reboot_pending"),
        ({"on_disk": "520.56.06", "user_space": "525.85.12", "loaded": "520.56.06"}, "mixed"),
        ({"user_space": "525.85.12", "loaded": "520.56.06"}, "mixed"),
        ({"user_space": "525.85.12"}, "half_installed"),
        ({"on_disk": "525.85.12"}, "half_installed"),
    ],
)  # fmt: skip
def test_br_19_states(values: dict[str, str], state: str) -> None:
    """Never 'absent' where something is there, and both versions are named."""
    found, words = nvidia_state.judge(seen(**values))
    assert found == state
    assert all(version in words for version in values.values())


@pytest.mark.parametrize(
    ("have", "wanted", "step"),
    [
        ("", "580.95.05", "install"),
        ("580.95.05", "580.95.05", "none"),
        ("580.65.06", "580.95.05", "upgrade"),
        ("580.95.05", "580.105.08", "upgrade"),
        ("580.95.05", "535.183.01", "downgrade"),
    ],
)
def test_steps(have: str, wanted: str, step: str) -> None:
    found = seen(on_disk=have, user_space=have, on_disk_flavour="open")
    assert nvidia_state.step_to(found, wanted, "open") == step


def test_steps_that_repair() -> None:
    half = seen(user_space="580.95.05")
    assert nvidia_state.step_to(half, "580.95.05", "open") == "repair"
    other = seen(on_disk="580.95.05", user_space="580.95.05", on_disk_flavour="proprietary")
    assert nvidia_state.step_to(other, "580.95.05", "open") == "repair"


def test_packages_of_the_driver() -> None:
    listing = (
        "nvidia-utils-580\t580.95.05-0ubuntu1\nlibnvidia-ml\t3:580.95.05\nbash\t5.1\n"
        "nvidia-container-toolkit\t1.17.8-1\n"
    )
    assert nvidia_state.driver_packages(listing) == {
        "nvidia-utils-580": "580.95.05",
        "libnvidia-ml": "580.95.05",
    }


def test_record_of_the_runfile() -> None:
    record = "580.95.05\nNVIDIA Accelerated Graphics Driver for Linux-x86_64 (580.95.05)\n"
    assert nvidia_state.runfile_version(record) == "580.95.05"
    assert nvidia_state.runfile_version(None) == ""


def write(root: Path, path: str, text: str = "") -> None:
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def device(root: Path, address: str, vendor: str, kind: str) -> None:
    base = f"sys/bus/pci/devices/{address}"
    for name, value in {"vendor": vendor, "device": "0x20b2", "class": kind}.items():
        write(root, f"{base}/{name}", f"{value}\n")


def test_probe_of_a_host(tmp_path: Path) -> None:
    device(tmp_path, "0000:3b:00.0", "0x10de", "0x030200")
    device(tmp_path, "0000:01:00.0", "0x10de", "0x068000")
    device(tmp_path, "0000:02:00.0", "0x10de", "0x040300")
    device(tmp_path, "0000:03:00.0", "0x1a03", "0x030000")
    write(tmp_path, "sys/module/nouveau/initstate", "live\n")
    write(tmp_path, "usr/lib64/libnvidia-ml.so.580.95.05")
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.95.05")
    write(tmp_path, "proc/4711/comm", "python3\n")
    (tmp_path / "proc/4711/fd").mkdir()
    (tmp_path / "proc/4711/fd/3").symlink_to("/dev/nvidia0")
    write(tmp_path, "proc/12/comm", "nvidia-persiste\n")
    (tmp_path / "proc/12/fd").mkdir()
    (tmp_path / "proc/12/fd/3").symlink_to("/dev/nvidiactl")
    write(tmp_path, "etc/systemd/system/timers.target.wants/dnf-automatic.timer")
    write(tmp_path, "etc/dnf/dnf.conf", "[main]\nreposdir=/etc/vllm-fleet/repositories\n")
    answers = {"modinfo": (1, "")}
    probe = nvidia_state.Probe(
        hostread.Host(str(tmp_path)), lambda argv: answers.get(argv[0], (127, ""))
    )
    found = probe.seen()
    assert found["user_space"] == "580.95.05"
    assert found["nouveau"]
    assert nvidia_state.judge(found)[0] == "half_installed"
    gpus, switches = probe.devices()
    assert [row["pci"] for row in gpus] == ["10de:20b2"]
    assert [row["address"] for row in switches] == ["0000:01:00.0"]
    assert probe.holders() == [{"pid": 4711, "command": "python3"}]
    assert probe.competitors() == ["dnf-automatic.timer"]
    assert probe.repository_folder() == "/etc/vllm-fleet/repositories"


def test_arguments_of_the_installer() -> None:
    params = {"modules_argument": "--kernel-module-type=open", "dkms": True, "log": "/l",
              "arguments": ["--no-drm"]}  # fmt: skip
    plain = nvidia_runfiles.driver_arguments(params, seen(), False)
    assert {"--silent", "--dkms", "--kernel-module-type=open", "--no-drm"} <= set(plain)
    assert "--skip-module-load" not in plain
    assert "--skip-module-load" in nvidia_runfiles.driver_arguments(
        params, seen(nouveau=True), False
    )
    busy = nvidia_runfiles.driver_arguments(params, seen(loaded="535.1.1"), True)
    assert "--allow-installation-with-running-driver" in busy


@pytest.mark.parametrize(
    ("code", "words"),
    [(None, "did not end within 9 s"), (-9, "signal 9"), (137, "out of memory"), (1, "with 1")],
)
def test_how_an_installer_ends(code: int | None, words: str) -> None:
    assert words in nvidia_runfiles.ending(code, 9)


def test_br_30_initramfs_is_judged_by_its_time(tmp_path: Path) -> None:
    image, file = tmp_path / "image", tmp_path / "file"
    image.touch()
    assert nvidia_nouveau.stale(str(image), str(file), True)
    assert not nvidia_nouveau.stale("", str(file), True)
    assert not nvidia_nouveau.stale(str(image), str(file), False)
    assert nvidia_nouveau.builder("/boot/initrd.img-6", "6")[0] == "update-initramfs"
    assert nvidia_nouveau.builder("/boot/initramfs-6.img", "6")[0] == "dracut"


# -- plans ---------------------------------------------------------------------------------------


def catalogs() -> dict[str, Any]:
    names = ("nvidia", "nvidia_packages", "operating_systems")
    return {name: catalog.load(name) for name in names}


def host(key: str = "el-8", family: str = "rpm", arch: str = "x86_64") -> dict[str, Any]:
    system = {"key": key, "family": family, "id": key.split("-", maxsplit=1)[0], "edition": ""}
    return {"os": system, "arch": arch, "kernel": "4.18.0-553.el8_10.x86_64"}


def looked(pci: str = "10de:20b2", switches: int = 0, **values: Any) -> dict[str, Any]:
    return {
        "gpus": [{"address": "0000:3b:00.0", "pci": pci}],
        "nvswitches": [{}] * switches,
        "seen": seen(**values),
        "installed": values.get("on_disk", ""),
        "competitors": [],
        "fabric_manager": "",
    }


def options(**values: Any) -> dict[str, Any]:
    usual = {"version": "580.95.05", "source": "auto", "answered": 200, "repository_url": None,
             "modules": "auto", "build": "dkms", "runfile": {}, "fabric_manager": "auto",
             "fabric_manager_package": None, "ended_branch": "warn", "hold": True}  # fmt: skip
    return {**usual, **values}


def plan(where: dict[str, Any], found: dict[str, Any], **values: Any) -> dict[str, Any]:
    made: dict[str, Any] = nvidia_plans.driver(catalogs(), where, found, options(**values), TODAY)
    return made


RUNFILE = {"src": "http://m/NVIDIA-Linux-x86_64-580.95.05.run", "sha256": "a" * 64}


def test_module_stream_of_el8() -> None:
    made = plan(host(), looked())
    assert made["stream"] == "580-open"
    assert made["packages"] == ["nvidia-driver-cuda-580.95.05", "kmod-nvidia-open-dkms-580.95.05"]
    assert made["headers"] == "kernel-devel-4.18.0-553.el8_10.x86_64"
    assert made["step"] == "install"
    assert made["fabric_manager"] == {}


def test_servers_with_arm_have_a_folder_of_their_own() -> None:
    assert "/rhel8/sbsa/" in plan(host(arch="aarch64"), looked())["repository"]["index"]


def test_version_lock_of_el10_and_packages_of_ubuntu() -> None:
    made = plan(host("el-10"), looked())
    assert made["stream"] == ""
    made = plan(host("ubuntu-22.04", "deb"), looked())
    assert made["packages"][0] == "nvidia-headless-580-open=580.95.05-*"
    assert made["names"][1] == "nvidia-utils-580"


def test_source_is_probed_not_assumed() -> None:
    assert plan(host(), looked(), answered=None)["source"] == "probe"
    assert plan(host(), looked(), answered=404, runfile=RUNFILE)["source"] == "runfile"
    with pytest.raises(PlanError, match="no answer"):
        plan(host(), looked(), answered=-1)
    kylin = host("kylin-V10-SP3")
    assert plan(kylin, looked(), answered=None, runfile=RUNFILE)["source"] == "runfile"
    with pytest.raises(PlanError, match="NVIDIA publishes for SP3-2403 only"):
        plan(kylin, looked(), answered=None)


@pytest.mark.parametrize(
    ("pci", "version", "asked", "flavour"),
    [
        ("10de:20b2", "580.95.05", "auto", "open"),
        ("10de:20b2", "580.95.05", "proprietary", "proprietary"),
        ("10de:1db1", "580.95.05", "auto", "proprietary"),
        ("10de:ffff", "580.95.05", "auto", "open"),
    ],
)
def test_modules_by_gpu_and_branch(pci: str, version: str, asked: str, flavour: str) -> None:
    assert plan(host(), looked(pci), version=version, modules=asked)["modules"] == flavour


def test_modules_that_cannot_be() -> None:
    with pytest.raises(PlanError, match=r"open kernel modules do not run a V100"):
        plan(host(), looked("10de:1db1"), modules="open")
    with pytest.raises(PlanError, match=r"driver 620\.10\.05 has no proprietary modules"):
        plan(host(), looked("10de:1db1"), version="620.10.05")


def test_branch_past_its_end() -> None:
    made = plan(host(), looked(), version="535.183.01")
    assert "branch 535 ended in 2026-06 (nvidia.yml branches: 535" in made["warnings"][0]
    assert plan(host(), looked())["warnings"] == []
    with pytest.raises(PlanError, match="branch 535 ended"):
        plan(host(), looked(), version="535.183.01", ended_branch="refuse")


def test_br_20_competitors_are_named_where_nothing_holds() -> None:
    found = {**looked(), "competitors": ["dnf-automatic.timer"]}
    assert plan(host(), found)["warnings"] == []
    assert "dnf-automatic.timer may move" in plan(host(), found, hold=False)["warnings"][0]


def test_fabric_manager_in_exactly_the_drivers_version() -> None:
    made = plan(host(), looked(switches=6))
    assert made["fabric_manager"]["package"] == "nvidia-fabric-manager-580.95.05"
    made = plan(host("ubuntu-22.04", "deb"), looked(switches=6))
    assert made["fabric_manager"]["package"] == "nvidia-fabricmanager-580=580.95.05-*"
    with pytest.raises(PlanError, match="6 NVSwitches want Fabric Manager"):
        plan(host("kylin-V10-SP3"), looked(switches=6), answered=None, runfile=RUNFILE)


def test_packages_that_lack_are_a_repair() -> None:
    there = looked(on_disk="580.95.05", user_space="580.95.05", on_disk_flavour="open")
    assert plan(host(), there)["step"] == "repair"
    names = ("nvidia-driver-cuda", "kmod-nvidia-open-dkms")
    there["seen"]["packages"] = dict.fromkeys(names, "580.95.05")
    assert plan(host(), there)["step"] == "none"


def toolkits(**values: Any) -> dict[str, Any]:
    usual = {"toolkits": [{"version": "12.9"}, {"version": "13.0"}], "source": "auto",
             "answered": 200, "repository_url": None, "root": "/usr/local", "driver": "",
             "default": ""}  # fmt: skip
    made: dict[str, Any] = nvidia_plans.toolkits(catalogs(), host(), {**usual, **values})
    return made


def test_toolkits_side_by_side() -> None:
    made = toolkits(default="13.0")
    assert made["packages"] == ["cuda-toolkit-12-9", "cuda-toolkit-13-0"]
    assert [row["path"] for row in made["toolkits"]] == [
        "/usr/local/cuda-12.9",
        "/usr/local/cuda-13.0",
    ]


def test_toolkits_that_cannot_be() -> None:
    with pytest.raises(PlanError, match="quote it"):
        toolkits(toolkits=[{"version": 12.9}])
    with pytest.raises(PlanError, match="twice"):
        toolkits(toolkits=[{"version": "12.9"}, {"version": "12.9"}])
    with pytest.raises(PlanError, match=r"CUDA 13\.0 needs a driver >=580"):
        toolkits(driver="535.183.01")
    assert toolkits(toolkits=[{"version": "12.9"}], driver="535.183.01")["packages"]
    with pytest.raises(PlanError, match=r"cuda_default is '12\.4'"):
        toolkits(default="12.4")
    with pytest.raises(PlanError, match="needs src and sha256"):
        toolkits(source="runfile")
