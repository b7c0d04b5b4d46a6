"""Ascend packages: names, records, plans, what installers and npu-smi say, the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    ascend_devices,
    ascend_environment,
    ascend_names,
    ascend_pending,
    ascend_records,
    ascend_run,
    ascend_smi,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.hostread import Host
from ansible_collections.vllm_fleet.baremetal.plugins.modules import (
    ascend_info,
    ascend_package,
    ascend_services,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import ascend_plans, catalog
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import PlanError

ASCEND = catalog.load("ascend")
SUMS = catalog.load("artifacts/ascend")
A2 = {"pci": "19e5:d802", "address": "0000:c1:00.0", "subsystem": "19e5:3003"}
STORE = "https://mirror.example/"
SHA = "a" * 64

# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Ascend-hdk-910b-npu-driver_25.5.1_linux-aarch64.run", "driver 910b 25.5.1 aarch64 run"),
        ("Ascend-hdk-910b-npu-firmware_7.8.0.6.201.run", "firmware 910b 7.8.0.6.201 None run"),
        ("Atlas-A3-hdk-npu-driver_26.0.RC1_linux-aarch64.run", "driver A3 26.0.RC1 aarch64 run"),
        ("Atlas-A3-hdk-npu-firmware_9.0.0.0.205.run", "firmware A3 9.0.0.0.205 None run"),
        ("Ascend-hdk-910b-npu_25.5.0_linux-x86-64.zip", "hdk 910b 25.5.0 x86_64 zip"),
        ("Ascend-cann-toolkit_8.2.RC1_linux-aarch64.run", "toolkit None 8.2.RC1 aarch64 run"),
        ("Ascend-cann-kernels-910b_8.3.RC2_linux-aarch64.run", "kernels 910b 8.3.RC2 aarch64 run"),
        ("Atlas-A3-cann-kernels_8.3.RC1_linux-aarch64.run", "kernels A3 8.3.RC1 aarch64 run"),
        ("Ascend-cann-910b-ops_8.5.1_linux-aarch64.run", "ops 910b 8.5.1 aarch64 run"),
        ("Ascend-cann-A3-ops_9.1.0_linux-aarch64.run", "ops A3 9.1.0 aarch64 run"),
        ("Ascend-cann-nnal_9.1.0_linux-x86_64.run", "nnal None 9.1.0 x86_64 run"),
    ],
)
def test_names(name: str, told: str) -> None:
    row = ascend_names.parse(name)
    assert row is not None
    keys = ("part", "chip", "version", "machine", "kind")
    assert " ".join(str(row[key]) for key in keys) == told


def test_published_names_are_understood() -> None:
    kinds = {"hdk", "toolkit", "kernels", "ops"}
    rows = [row for row in SUMS["files"] if row["kind"] in kinds]
    assert len(rows) > 50
    for row in rows:
        parsed = ascend_names.parse(row["name"])
        assert parsed is not None, row["name"]
        assert (parsed["part"], parsed["machine"]) == (row["kind"], row["arch"])


@pytest.mark.parametrize("name", ["driver.run", "Ascend-mindie_3.0.0_linux-aarch64_abi1.run", ""])
def test_other_names_are_not(name: str) -> None:
    assert ascend_names.parse(name) is None


def test_versions_compare_whatever_their_case() -> None:
    assert ascend_names.same_version("26.0.rc1", "26.0.RC1")
    assert ascend_names.same_version("8.5", "8.5.0")
    assert not ascend_names.same_version("25.5.1", "25.5.10")


# -- records -----------------------------------------------------------------------------------

INFO = """UserName=HwHiAiUser
UserGroup=HwHiAiUser
Driver_Install_Type=full
Driver_Install_Path_Param=/usr/local/Ascend
Driver_Install_For_All=yes
Firmware_Install_Type=full
Firmware_Install_Path_Param=/usr/local/Ascend
"""
DRIVER = """Version=7.35.23
ascendhal_version=7.35.23
Innerversion=V100R001C21SPC002B220
compatible_version_fw=[7.0.0,7.7.99]
package_version=25.0.rc1.1
"""
FIRMWARE = """Version=7.7.0.1.231
firmware_version=1.0
package_version=25.0.rc1.1
compatible_version_drv=[23.0.0,23.0.0.],[25.0,25.0.]
"""


def host_with(tmp_path: Path, files: dict[str, str]) -> Host:
    for path, text in files.items():
        place = tmp_path / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return Host(str(tmp_path))


def test_installed_versions_are_those_of_the_vendors_records(tmp_path: Path) -> None:
    files = {
        "/etc/ascend_install.info": INFO,
        "/usr/local/Ascend/driver/version.info": DRIVER,
        "/usr/local/Ascend/firmware/version.info": FIRMWARE,
    }
    found = ascend_records.hdk(host_with(tmp_path, files))
    assert found["driver"]["version"] == "25.0.rc1.1"
    assert found["driver"]["state"] == "installed"
    assert found["firmware"]["version"] == "7.7.0.1.231"
    assert found["firmware"]["fits"].startswith("[23.0.0,23.0.0.]")


@pytest.mark.parametrize(
    ("info", "version", "state"),
    [
        ("", "", "absent"),
        (INFO, DRIVER, "installed"),
        (INFO, "", "half"),
        ("", DRIVER, "half"),
        ("Driver_Install_Path_Param=/usr/local/Ascend\n", DRIVER, "half"),
    ],
)
def test_states(info: str, version: str, state: str) -> None:
    assert ascend_records.driver(info, version)["state"] == state


def test_a_directory_in_the_place_of_a_record_is_told(tmp_path: Path) -> None:
    (tmp_path / "etc/ascend_install.info").mkdir(parents=True)
    assert ascend_records.wrong_kinds(Host(str(tmp_path))) == ["/etc/ascend_install.info"]
    (tmp_path / "etc/ascend_install.info").rmdir()
    host = host_with(tmp_path, {"/etc/ascend_install.info": INFO})
    assert ascend_records.wrong_kinds(host) == []


TOOLKIT = "version={0}\narch=aarch64\npath={1}/aarch64-linux\n"


def test_cann_of_both_generations(tmp_path: Path) -> None:
    old, new = "/usr/local/Ascend/ascend-toolkit/latest", "/usr/local/Ascend/cann"
    old_path = "/usr/local/Ascend/ascend-toolkit/8.3.RC2"
    files = {
        f"{old}/aarch64-linux/ascend_toolkit_install.info": TOOLKIT.format("8.3.RC2", old_path),
        f"{old}/opp_kernel/version.info": "Version=8.3.T5.0.B028\nversion_dir=8.3.RC2\n",
        f"{new}/aarch64-linux/ascend_toolkit_install.info": TOOLKIT.format("9.1.0", new),
        f"{new}/aarch64-linux/ascend_ops_install.info": "version=9.1.0\n",
        "/usr/local/Ascend/nnal/atb/latest/version.info": "    Ascend-cann-atb : 8.2.RC1\n",
    }
    host = host_with(tmp_path, files)
    first = ascend_records.cann(host, 1, "aarch64")
    assert (first["toolkit"]["version"], first["kernels"]["version"]) == ("8.3.RC2", "8.3.RC2")
    assert first["toolkit"]["path"] == old_path
    second = ascend_records.cann(host, 2, "aarch64")
    assert (second["toolkit"]["version"], second["ops"]["version"]) == ("9.1.0", "9.1.0")
    assert ascend_records.nnal(host)["version"] == "8.2.RC1"


def test_a_toolkit_without_its_record_is_half_installed(tmp_path: Path) -> None:
    host = host_with(tmp_path, {"/usr/local/Ascend/cann/set_env.sh": ""})
    assert ascend_records.cann(host, 2, "aarch64")["toolkit"]["state"] == "half"
    assert ascend_records.nnal(host)["state"] == "absent"


@pytest.mark.parametrize(("version", "number"), [("8.3.RC2", 1), ("8.5.0", 2), ("9.1.0", 2)])
def test_generations(version: str, number: int) -> None:
    assert ascend_records.generation(version) == number


def pci(device: str, kind: str = "0x120000") -> dict[str, str]:
    base = f"/sys/bus/pci/devices/0000:{device[-2:]}:00.0"
    rows = {"vendor": "0x19e5", "device": device, "class": kind}
    rows |= {"subsystem_vendor": "0x19e5", "subsystem_device": "0x3003"}
    return {f"{base}/{name}": f"{value}\n" for name, value in rows.items()}


def test_chips_by_vendor_and_class(tmp_path: Path) -> None:
    files = {**pci("0xd802"), **pci("0xa222", "0x020000")}
    chips = ascend_records.chips(host_with(tmp_path, files))
    assert [chip["pci"] for chip in chips] == ["19e5:d802"]
    assert chips[0]["subsystem"] == "19e5:3003"


# -- plans -------------------------------------------------------------------------------------


def part(state: str = "absent", version: str = "", fits: str = "") -> dict[str, str]:
    return {"state": state, "version": version, "fits": fits, "path": "/usr/local/Ascend"}


def installed(version: str, fits: str = "") -> dict[str, str]:
    return part("installed", version, fits)


def found(**more: Any) -> dict[str, Any]:
    cann = {"1": {"toolkit": part(), "kernels": part()}, "2": {"toolkit": part(), "ops": part()}}
    base = {"driver": part(), "firmware": part(), "nnal": part(), "cann": cann}
    return {**base, **more}


def wanted(*names: str, product: str = "driver", chip: str = "19e5:d802") -> dict[str, Any]:
    rows = [{"src": STORE + name, "sha256": SHA} for name in names]
    row = next(r for r in ASCEND["chips"] if r["pci"] == chip)
    return ascend_plans.packages(product, rows, row, "aarch64", SUMS)


HDK = (
    "Ascend-hdk-910b-npu-firmware_7.8.0.6.201.run",
    "Ascend-hdk-910b-npu-driver_25.5.1_linux-aarch64.run",
)


def hdk_steps(**more: Any) -> list[str]:
    steps = ascend_plans.driver_steps(found(**more), wanted(*HDK))
    return [f"{step['action']} {step['part']}" for step in steps]


def test_fresh_is_driver_then_firmware() -> None:
    assert hdk_steps() == ["install driver", "install firmware"]


def test_upgrade_is_firmware_then_driver() -> None:
    seen = {"driver": installed("25.2.0"), "firmware": installed("7.7.0.6.236")}
    assert hdk_steps(**seen) == ["upgrade firmware", "upgrade driver"]


def test_what_is_there_needs_no_step() -> None:
    seen = {"driver": installed("25.5.1"), "firmware": installed("7.8.0.6.201")}
    assert hdk_steps(**seen) == []


def test_newer_goes_back_and_half_is_repaired() -> None:
    seen = {"driver": installed("26.0.rc1"), "firmware": part("half")}
    assert hdk_steps(**seen) == ["repair firmware", "downgrade driver"]
    assert hdk_steps(driver=part("half")) == ["repair driver", "install firmware"]


def test_ranges_of_what_stays_decide() -> None:
    stays = installed("25.5.1", "[7.0.0,7.7.99]")
    with pytest.raises(PlanError, match="takes the firmware versions"):
        hdk_steps(driver=stays)
    # What is about to be replaced has no say.
    assert hdk_steps(driver=installed("25.2.0", "[7.0.0,7.7.99]"))[-1] == "upgrade driver"
    with pytest.raises(PlanError, match="takes the driver versions"):
        hdk_steps(firmware=installed("7.8.0.6.201", "[23.0.0,23.0.0.],[25.0,25.0.]"))
    # A range that cannot be read excludes nothing.
    assert hdk_steps(driver=installed("25.5.1", "[7.0.0")) == ["install firmware"]


@pytest.mark.parametrize(
    ("chip", "words"),
    [("19e5:d801", "first generation"), ("19e5:d105", "edge chip"), ("19e5:ffff", "no Ascend")],
)
def test_chips_that_are_refused(chip: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        ascend_plans.family(ASCEND, [{**A2, "pci": chip}])


def test_no_chip_and_mixed_chips_are_refused() -> None:
    with pytest.raises(PlanError, match="no Ascend NPU"):
        ascend_plans.family(ASCEND, [])
    with pytest.raises(PlanError, match="several families"):
        ascend_plans.family(ASCEND, [A2, {**A2, "pci": "19e5:d500"}])
    assert ascend_plans.family(ASCEND, [A2, A2])["family"] == "a2"


def test_one_package_for_each_family() -> None:
    a3 = "Atlas-A3-hdk-npu-driver_26.0.RC1_linux-aarch64.run"
    assert wanted(a3, chip="19e5:d803")["driver"]["version"] == "26.0.RC1"
    with pytest.raises(PlanError, match="is for the chip A3"):
        wanted(a3)
    with pytest.raises(PlanError, match="is for x86_64, the host is aarch64"):
        wanted("Ascend-hdk-910b-npu-driver_25.5.1_linux-x86-64.run")


def test_an_archive_brings_both_and_has_a_published_sum() -> None:
    name = "Ascend-hdk-910b-npu_25.5.0_linux-aarch64.zip"
    row = {"src": SUMS["base"] + "x/" + name, "firmware_version": "7.8.0.5.216"}
    chip = ascend_plans.family(ASCEND, [A2])
    both = ascend_plans.packages("driver", [row], chip, "aarch64", SUMS)
    assert (both["driver"]["version"], both["firmware"]["version"]) == ("25.5.0", "7.8.0.5.216")
    assert both["driver"]["sha256"].startswith("fccdeb94")
    assert both["driver"]["headers"] == {"Referer": SUMS["referer"]}
    del row["firmware_version"]
    assert list(ascend_plans.packages("driver", [row], chip, "aarch64", SUMS)) == ["driver"]


def cann_names(version: str, *parts: str) -> list[str]:
    patterns = {
        "toolkit": "Ascend-cann-toolkit_{0}_linux-aarch64.run",
        "ops": "Ascend-cann-910b-ops_{0}_linux-aarch64.run",
        "kernels": "Ascend-cann-kernels-910b_{0}_linux-aarch64.run",
        "nnal": "Ascend-cann-nnal_{0}_linux-aarch64.run",
    }
    return [patterns[name].format(version) for name in parts]


def cann_steps(version: str, *parts: str, **more: Any) -> list[str]:
    names = cann_names(version, *parts)
    steps = ascend_plans.cann_steps(found(**more), wanted(*names, product="cann"), ASCEND)
    return [f"{step['action']} {step['part']} {step['version']}".strip() for step in steps]


def second(toolkit: str, ops: str) -> dict[str, Any]:
    empty = found()["cann"]
    return {**empty, "2": {"toolkit": installed(toolkit), "ops": installed(ops)}}


def test_cann_in_its_order() -> None:
    steps = cann_steps("9.1.0", "nnal", "ops", "toolkit")
    assert steps == ["install toolkit 9.1.0", "install ops 9.1.0", "install nnal 9.1.0"]
    assert cann_steps("9.1.0", "toolkit", "ops", cann=second("9.1.0", "9.1.0")) == []
    assert cann_steps("9.1.0", "toolkit", cann=second("8.5.1", "8.5.1")) == [
        "upgrade toolkit 9.1.0"
    ]


def test_an_older_cann_since_8_5_is_removed_first() -> None:
    cann = second("9.1.0", "9.1.0")
    steps = cann_steps("8.5.1", "toolkit", "ops", "nnal", cann=cann, nnal=installed("9.1.0"))
    assert steps == [
        "remove toolkit",
        "install toolkit 8.5.1",
        "install ops 8.5.1",
        "downgrade nnal 8.5.1",
    ]


def test_an_older_cann_up_to_8_3_is_installed_directly() -> None:
    cann = {**found()["cann"], "1": {"toolkit": installed("8.3.RC2"), "kernels": part()}}
    steps = cann_steps("8.2.RC1", "toolkit", "kernels", cann=cann)
    assert steps == ["downgrade toolkit 8.2.RC1", "install kernels 8.2.RC1"]


def test_cann_packages_that_do_not_belong_together() -> None:
    with pytest.raises(PlanError, match="names no toolkit"):
        cann_steps("9.1.0", "ops")
    with pytest.raises(PlanError, match="in the package ops, not kernels"):
        cann_steps("9.1.0", "toolkit", "kernels")
    mixed = cann_names("9.1.0", "toolkit") + cann_names("8.5.1", "ops")
    with pytest.raises(PlanError, match=r"is of CANN 8\.5\.1, the toolkit of 9\.1\.0"):
        ascend_plans.cann_version(wanted(*mixed, product="cann"))
    with pytest.raises(PlanError, match="is no package of cann"):
        wanted(HDK[1], product="cann")


def test_a_driver_that_does_not_work_with_this_cann() -> None:
    with pytest.raises(PlanError, match=r"driver 25\.0\.3 does not work with CANN 9\.1\.0"):
        cann_steps("9.1.0", "toolkit", driver=installed("25.0.3"))
    assert cann_steps("9.1.0", "toolkit", driver=installed("25.5.1"))


def test_removal_of_both_generations() -> None:
    cann = second("9.1.0", "9.1.0") | {"1": {"toolkit": installed("8.3.RC2"), "kernels": part()}}
    steps = list(ascend_plans.cann_removal(found(cann=cann, nnal=installed("9.1.0"))))
    assert [(s["part"], s["version"]) for s in steps] == [
        ("nnal", ""),
        ("toolkit", "9.1.0"),
        ("toolkit", "8.3.RC2"),
    ]


def test_scripts_of_the_environment() -> None:
    both = wanted(*cann_names("9.1.0", "toolkit", "nnal"), product="cann")
    scripts = ["/usr/local/Ascend/cann/set_env.sh", "/usr/local/Ascend/nnal/atb/set_env.sh"]
    assert ascend_plans.set_env(found(), both) == scripts
    assert ascend_plans.set_env(found(cann=second("9.1.0", "")), {}) == scripts[:1]
    assert ascend_plans.set_env(found(), {}) == []


# -- installers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part_name", "action", "user", "flags"),
    [
        ("driver", "install", "", "--full --quiet --install-for-all"),
        ("driver", "repair", "root", "--upgrade --quiet"),
        ("firmware", "downgrade", "HwHiAiUser", "--upgrade --quiet"),
        ("toolkit", "upgrade", "", "--upgrade --quiet --install-for-all"),
        ("toolkit", "downgrade", "", "--install --quiet --install-for-all"),
    ],
)
def test_flags(part_name: str, action: str, user: str, flags: str) -> None:
    seen = installed("25.2.0")
    assert " ".join(ascend_package.arguments(part_name, action, user, seen)) == flags


def test_operators_whose_directory_is_gone_are_installed() -> None:
    flags = ascend_package.arguments("ops", "upgrade", "", part())
    assert flags[0] == "--install"


def test_the_version_before_is_the_way_back() -> None:
    name = "Ascend-hdk-910b-npu-driver_{}_linux-aarch64.run"
    names = [name.format(v) for v in ("25.0.rc1", "25.2.0", "25.5.1")]
    names += [HDK[0], "other.run", "Ascend-hdk-310p-npu-driver_24.1.0_linux-aarch64.run"]
    src = "/x/" + names[2]
    assert ascend_package.outdated(names, src, "25.5.1", "25.2.0") == [names[0]]
    # The newest file comes first.
    assert ascend_package.outdated(names, src, "25.5.1", "") == [names[1]]


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (1, "[ERROR]: ERR_NO:0x0094;ERR_DES: x", "another installation is running (ERR_NO:0x0094)"),
        (1, "tar: write error: No space left on device", "the disk is full"),
        (-9, "", "SIGKILL"),
        (137, "", "SIGKILL"),
        (None, "", "time limit"),
        (1, "The list of missing tools: lspci,ifconfig", "tools are missing: lspci,ifconfig"),
        (7, "something else", "exit code 7"),
    ],
)
def test_reasons(code: int | None, said: str, words: str) -> None:
    assert words in ascend_run.reason(code, said)


def test_room_is_measured_where_the_place_will_be(tmp_path: Path) -> None:
    assert ascend_run.free_mb(str(tmp_path / "not/there/yet")) == ascend_run.free_mb(str(tmp_path))


def test_holders(tmp_path: Path) -> None:
    for pid, command, target in (
        ("12", "python3", "/dev/davinci3"),
        ("13", "bash", "/dev/null"),
        ("14", "slogd", "/dev/davinci_manager"),
    ):
        (tmp_path / pid / "fd").mkdir(parents=True)
        (tmp_path / pid / "comm").write_text(command + "\n")
        (tmp_path / pid / "fd/4").symlink_to(target)
    rows = ascend_devices.holders(str(tmp_path))
    assert rows == [(12, "python3", "/dev/davinci3")]
    assert ascend_devices.in_words(rows) == "python3 (pid 12, /dev/davinci3)"


def test_a_reboot_is_pending_for_the_boot_that_recorded_it(tmp_path: Path) -> None:
    folder = "/var/lib/vllm-fleet/pending-reboot.d"
    files = {
        "/proc/sys/kernel/random/boot_id": "b1\n",
        f"{folder}/ascend-driver.json": '{"boot_id": "b1", "reason": "driver"}',
        f"{folder}/ascend-firmware.json": '{"boot_id": "b0", "reason": "stale"}',
        f"{folder}/ascend.json": "no json",
        f"{folder}/hugepages.json": '{"boot_id": "b1", "reason": "other"}',
    }
    assert ascend_pending.reasons(host_with(tmp_path, files)) == ["driver"]


def test_units() -> None:
    text = "vllm@r2.service loaded active running vLLM\nvllm@r1.service loaded active running x\n"
    assert ascend_services.parse_units(text) == ["vllm@r1.service", "vllm@r2.service"]


# -- npu-smi -----------------------------------------------------------------------------------

NOISE = "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"


def test_npu_ids_need_not_be_contiguous() -> None:
    text = NOISE + "\tTotal Count  : 2\n\n\tNPU ID   : 8\n\tChip Count : 1\n\n\tNPU ID : 32896\n"
    assert ascend_smi.ids(text) == [8, 32896]


def test_board() -> None:
    text = "\x1b[32m  Software Version : 25.5.0\x1b[0m\n  Firmware Version : 7.1.0.4.218\n"
    assert ascend_smi.board(text) == ("25.5.0", "7.1.0.4.218")
    assert ascend_smi.board("Software Version : 25.5.0\nFirmware Version : NA\n") == ("25.5.0", "")


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        (255, NOISE + "dcmi module initialize failed. ret is -8005", "not visible to this user"),
        (255, NOISE + "dcmi model initialized failed, because x. ret is -8020", "in use"),
        (127, "npu-smi: error while loading shared libraries: libc_sec.so: x", "libc_sec.so"),
        (124, "", "no answer within 30 seconds"),
    ],
)
def test_problems_of_npu_smi(code: int, text: str, words: str) -> None:
    problem = ascend_smi.problem(code, text)
    assert words in problem
    assert "install" not in problem


def test_everything_is_read_without_a_host(tmp_path: Path) -> None:
    seen = ascend_info.read(Host(str(tmp_path)), "aarch64")
    assert seen["driver"]["state"] == "absent"
    assert seen["chips"] == []
    assert not seen["module_loaded"]


# -- environment -------------------------------------------------------------------------------


def test_the_environment_is_what_the_scripts_changed() -> None:
    base = {**ascend_environment.BASE, "PWD": "/", "SHLVL": "1", "_": "/usr/bin/env"}
    environment = base | {
        "ASCEND_HOME_PATH": "/usr/local/Ascend/cann",
        "LD_LIBRARY_PATH": "/a::/b:/a:",
        "PYTHONPATH": "/p:",
    }
    seen = ascend_environment.wanted(environment, ["/driver/lib64", "/a"])
    assert seen == {
        "ASCEND_HOME_PATH": "/usr/local/Ascend/cann",
        "LD_LIBRARY_PATH": "/a:/b:/driver/lib64",
        "PYTHONPATH": "/p",
    }


def test_the_environment_is_read_back_by_systemd() -> None:
    text = ascend_environment.render({"B": 'x "y" $z', "A": "/a:/b"}, ["/s.sh"])
    assert text.splitlines()[-2:] == ["A=/a:/b", 'B="x \\"y\\" \\$z"']
    assert ascend_environment.parse("A=1\0B=x=y\nz\0BASH_FUNC_f%%=() {\0") == {
        "A": "1",
        "B": "x=y\nz",
    }
