"""The resolver: complete sets, a verdict for each pair, and the nearest set that works."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog as files
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import npu_family
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.resolver import (
    BAD,
    GOOD,
    PARTS,
    UNKNOWN,
    UNSETTLED,
    Host,
    Resolution,
    ResolveError,
    Resolver,
    Wanted,
    resolve,
)

CATALOG = {name: files.load(name) for name in PARTS}
A2 = Host(
    os="openEuler-22.03-SP4",
    arch="aarch64",
    glibc="2.34",
    gcc="10.3.1",
    chips=("19e5:d802",),
    driver="25.5.1",
    firmware="7.8.0.6.201",
)
H200 = Host(
    os="ubuntu-22.04", arch="x86_64", glibc="2.35", chips=("10de:2335",), driver="580.159.04"
)


def pair(resolution: Resolution, left: str, right: str) -> list[str]:
    """Return the verdicts of the pairs whose names begin so."""
    return [
        v.verdict
        for v in resolution.verdicts
        if v.left.startswith(left) and v.right.startswith(right)
    ]


def changed(host: Host, **facts: Any) -> Host:
    import dataclasses

    return dataclasses.replace(host, **facts)


def test_one_word_gives_the_whole_set() -> None:
    found = resolve(changed(A2, driver=None), Wanted(release_set="ascend-2026.08"), CATALOG)
    assert found.ok, [str(v) for v in found.bad]
    assert found.set == {
        "vllm_ascend": "0.23.0",
        "vllm": "0.23.0",
        "cann": "9.1.0",
        "torch": "2.10.0",
        "torch_npu": "2.10.0.post4",
        "triton_ascend": "3.2.2",
        "mooncake": "0.3.11.post1",
        "python": "3.11",
        "driver": "26.0.RC1",
    }
    assert found.release_set == "ascend-2026.08"


@pytest.mark.parametrize("row", CATALOG["release_sets"]["sets"], ids=lambda row: row["name"])
def test_every_release_set_resolves_on_a_host_of_its_kind(row: dict[str, Any]) -> None:
    host = {"ascend": changed(A2, driver=None, firmware=None), "nvidia": H200}.get(
        row["accelerator"], Host(os="ubuntu-22.04", accelerator="cpu")
    )
    found = resolve(host, Wanted(release_set=row["name"]), CATALOG)
    assert found.ok, [str(v) for v in found.bad]
    assert found.release_set == row["name"]
    assert found.set["vllm"]
    assert found.set["python"]


def test_nothing_wanted_gives_the_newest_stable_release_that_works() -> None:
    found = resolve(A2, Wanted(), CATALOG)
    assert found.set["vllm_ascend"] == "0.23.0"
    kylin = changed(A2, os="kylin-V10-SP2", glibc="2.28", gcc="7.3.0")
    assert resolve(kylin, Wanted(), CATALOG).set["vllm_ascend"] == "0.18.0"


def test_a_set_of_another_kind_is_bad() -> None:
    found = resolve(H200, Wanted(release_set="ascend-2026.08"), CATALOG)
    assert pair(found, "release set ascend-2026.08", "accelerator nvidia") == [BAD]
    assert found.nearest is not None
    assert found.nearest.release_set == "nvidia-2026.11"


def test_a_wish_for_npus_is_left_aside_on_other_hosts() -> None:
    found = resolve(H200, Wanted(vllm="0.33.0", cann="9.1.0"), CATALOG)
    assert "cann" not in found.set
    assert pair(found, "cann", "accelerator nvidia") == [UNKNOWN]


def test_the_set_tells_the_kind_of_a_host_of_which_nothing_is_known() -> None:
    found = resolve(Host(), Wanted(release_set="ascend-2026.04"), CATALOG)
    assert found.set["cann"] == "8.5.1"


def test_firmware_comes_with_the_driver_where_a_pair_is_known() -> None:
    wanted = Wanted(vllm_ascend="0.23.0", driver="25.5.1")
    found = resolve(changed(A2, driver=None, firmware=None), wanted, CATALOG)
    assert found.set["firmware"] == "7.8.0.6.201"


def test_an_unknown_release_set_names_a_near_one() -> None:
    with pytest.raises(ResolveError, match=r"did you mean ascend-2026\.08"):
        resolve(A2, Wanted(release_set="ascend-2026-08"), CATALOG)


def test_an_unknown_component_names_a_near_one() -> None:
    with pytest.raises(ResolveError, match="did you mean vllm_ascend"):
        Wanted.of({"vllm_ascent": "0.23.0"})


# -- BR-16: triples of driver, CANN and the rest --------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "cann", "expected"),
    [
        ("24.1.rc3", "8.0.RC3", UNKNOWN),
        ("24.1.rc2", "8.0.RC3", GOOD),
        ("24.1.0", "8.3.RC2", BAD),
        ("24.1.rc3", "8.3.RC2", BAD),
        ("25.3.rc1", "8.3.RC2", GOOD),
        ("25.2.2", "9.1.0", GOOD),
        ("25.2.2", "9.0.0", GOOD),
        ("25.0.rc1.1", "9.1.0", BAD),
        ("25.0.rc1.1", "9.0.0", GOOD),
        ("26.1.1", "9.1.0", UNKNOWN),
        ("26.1.0", "9.1.0", GOOD),
        ("26.0.rc2", "9.1.0", UNKNOWN),
        ("24.1.0", "8.2.RC1", GOOD),
        ("25.5.1", "8.5.1", GOOD),
    ],
)
def test_br_16_driver_and_cann(driver: str, cann: str, expected: str) -> None:
    found = resolve(changed(A2, driver=driver, firmware=None), Wanted(cann=cann), CATALOG)
    assert pair(found, f"driver {driver}", f"CANN {cann}") == [expected]


def test_br_16_a_verdict_names_its_row_and_the_way_out() -> None:
    found = resolve(changed(A2, driver="24.1.0"), Wanted(cann="8.3.RC2"), CATALOG)
    (bad,) = [v for v in found.bad if v.right == "CANN 8.3.RC2"]
    assert bad.row == "ascend.yml cann_hdk: 8.3.RC2"
    assert "issues 5468" in bad.source
    assert "25.3.RC1" in bad.remedy
    assert found.nearest is not None
    assert found.nearest.set["cann"] == "8.3.RC2"
    assert found.nearest.set["driver"] == "25.3.RC1"
    assert "driver: 24.1.0 -> 25.3.RC1" in found.nearest.changes


@pytest.mark.parametrize(
    ("wanted", "left", "right", "expected"),
    [
        ({"torch_npu": "2.10.0.post4", "cann": "9.1.0"}, "torch_npu", "CANN", []),
        ({"torch_npu": "2.9.0.post6", "cann": "9.1.0"}, "torch_npu", "CANN", [GOOD]),
        ({"torch_npu": "2.9.0.post6", "cann": "8.5.0"}, "torch_npu", "CANN", [UNKNOWN]),
        ({"torch_npu": "2.9.0", "torch": "2.10.0"}, "torch_npu", "torch", [BAD]),
        ({"vllm_ascend": "0.23.0", "vllm": "0.24.0"}, "vllm-ascend", "vllm", [BAD]),
        ({"vllm_ascend": "0.23.0", "cann": "9.0.0"}, "vllm-ascend", "cann", [UNKNOWN]),
        ({"vllm_ascend": "0.23.0", "torch": "2.9.0"}, "vllm-ascend", "torch", [BAD]),
        (
            {"vllm_ascend": "0.18.0", "torch_npu": "2.9.0.post1+gitee7ba04"},
            "vllm-ascend",
            "torch_npu",
            [GOOD],
        ),
    ],
)
def test_br_16_parts_of_one_row(
    wanted: dict[str, str], left: str, right: str, expected: list[str]
) -> None:
    found = resolve(A2, Wanted(**wanted), CATALOG)
    seen = [
        v.verdict
        for v in found.verdicts
        if v.left.split()[0] == left and v.right.split()[0] == right
    ]
    assert seen == expected, [str(v) for v in found.verdicts]


def test_no_stable_plugin_for_a_newer_vllm() -> None:
    found = resolve(A2, Wanted(vllm="0.33.0"), CATALOG)
    assert not found.ok
    assert any("newest stable one is for 0.23.0" in v.reason for v in found.bad)
    assert found.nearest is not None
    assert found.nearest.set["vllm_ascend"] == "0.23.0"
    assert found.nearest.release_set == "ascend-2026.08"


# -- BR-17: the host's own ranges -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("firmware", "ranges", "expected"),
    [
        ("7.7.0.1.231", "[6.4.0,6.4.99],[7.0.0,7.7.99]", GOOD),
        ("7.8.0", "[6.4.0,6.4.99],[7.0.0,7.7.99]", BAD),
        ("7.8.0", "[6.4.0,", UNKNOWN),
    ],
)
def test_br_17_firmware_by_version_info(firmware: str, ranges: str, expected: str) -> None:
    host = changed(A2, driver="25.2.0", firmware=firmware, compatible_firmware=ranges)
    found = resolve(host, Wanted(cann="9.0.0"), CATALOG)
    assert pair(found, "driver 25.2.0", f"firmware {firmware}") == [expected]


def test_br_17_driver_by_the_firmwares_version_info() -> None:
    ranges = "[23.0.0,23.0.0.],[25.0,25.0.]"
    host = changed(A2, driver="25.0.rc1.1", firmware="7.7.0.1.231", compatible_driver=ranges)
    found = resolve(host, Wanted(cann="9.0.0"), CATALOG)
    assert pair(found, "driver", "firmware") == [GOOD]
    newer = resolve(changed(host, driver="25.2.0"), Wanted(cann="9.0.0"), CATALOG)
    assert pair(newer, "driver", "firmware") == [BAD]


def test_br_17_ranges_of_an_old_package_say_nothing_about_a_new_one() -> None:
    host = changed(A2, driver="25.2.0", compatible_firmware="[7.0.0,7.7.99]")
    wanted = Wanted(cann="9.1.0", driver="25.5.1", firmware="7.8.0.6.201")
    assert pair(resolve(host, wanted, CATALOG), "driver 25.5.1", "firmware") == [GOOD]


# -- BR-14: chips ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "family"),
    [
        ({"name": "910B", "memory_mb": 15038, "hbm_mb": 32768}, "910a"),
        ({"name": "910B", "memory_mb": 0, "hbm_mb": 65536}, "a2"),
        ({"name": "910B"}, None),
        ({"name": "910B4", "memory_mb": 0, "hbm_mb": 32768}, "a2"),
        ({"name": "910B2C", "memory_mb": 0, "hbm_mb": 65536}, "a2"),
        ({"name": "Ascend910", "memory_mb": 0, "hbm_mb": 65536}, "a3"),
        ({"name": "Ascend 910B3"}, "a2"),
        ({"name": "310P3"}, "310p"),
        ({"name": "Ascend950DT"}, "a5"),
        ({"name": "910B", "pci": "19E5:D801"}, "910a"),
        ({"name": "910B", "pci": "19e5:d802"}, "a2"),
        ({"name": "Mcu"}, None),
    ],
)
def test_br_14_family_by_memory_and_id_not_by_name(
    shown: dict[str, Any], family: str | None
) -> None:
    assert npu_family.classify(CATALOG["ascend"], **shown) == family


def test_br_14_a_first_generation_card_is_refused() -> None:
    found = resolve(changed(A2, chips=("19e5:d801",)), Wanted(vllm_ascend="0.23.0"), CATALOG)
    (bad,) = [v for v in found.bad if "vllm-ascend does not support" in v.reason]
    assert "shows it as 910B" in bad.reason
    assert found.nearest is None


def test_an_unknown_chip_is_unknown() -> None:
    found = resolve(changed(A2, chips=("19e5:d999",)), Wanted(vllm_ascend="0.23.0"), CATALOG)
    assert pair(found, "chip 19e5:d999", "vllm-ascend") == [UNKNOWN]
    assert found.ok


# -- systems, C library, compiler -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("os", "chip", "expected"),
    [
        ("openEuler-22.03-SP4", "19e5:d802", GOOD),
        ("openEuler-22.03-SP1", "19e5:d803", GOOD),
        ("openEuler-22.03-SP1", "19e5:d802", UNKNOWN),
        ("openEuler-22.03-SP2", "19e5:d802", UNKNOWN),
        ("kylin-V10-SP1", "19e5:d802", BAD),
        ("kylin-V10-SP3-2403", "19e5:d803", GOOD),
        ("kylin-V11", "19e5:d802", GOOD),
    ],
)
def test_br_02_br_03_rows_belong_to_one_service_pack(os: str, chip: str, expected: str) -> None:
    found = resolve(Host(os=os, arch="aarch64", chips=(chip,)), Wanted(), CATALOG)
    assert pair(found, "card", f"system {os}") == [expected]


def test_a_card_may_need_a_newer_driver_on_a_newer_system() -> None:
    host = changed(A2, os="openEuler-24.03-SP1", driver="25.0.rc1.1", firmware=None)
    found = resolve(host, Wanted(vllm_ascend="0.18.0"), CATALOG)
    assert pair(found, "driver 25.0.rc1.1", "system") == [BAD]


def test_kylin_v10_is_too_old_for_the_newest_wheel_and_gets_the_nearest_set() -> None:
    kylin = Host(
        os="kylin-V10-SP2", arch="aarch64", chips=("19e5:d802",), driver="25.5.1"
    )  # glibc and gcc come from the catalog's row of the system
    found = resolve(kylin, Wanted(release_set="ascend-2026.08"), CATALOG)
    (bad,) = found.bad
    assert "glibc 2.34" in bad.reason
    assert "gcc" in bad.reason
    assert found.nearest is not None
    assert found.nearest.set["vllm_ascend"] == "0.18.0"
    assert found.nearest.release_set == "ascend-2026.04"
    assert found.nearest.set["driver"] == "25.5.1"  # the one that is there


@pytest.mark.parametrize(
    ("arch", "glibc", "fits"),
    [("aarch64", "2.28", False), ("x86_64", "2.28", True), (None, "2.28", False)],
)
def test_a_wheel_may_need_another_glibc_on_another_architecture(
    arch: str | None, glibc: str, fits: bool
) -> None:
    host = changed(A2, arch=arch, glibc=glibc)
    found = resolve(host, Wanted(vllm_ascend="0.13.0rc3"), CATALOG)
    assert pair(found, f"glibc {glibc}", "vllm-ascend 0.13.0rc3") == ([GOOD] if fits else [])


def test_an_a3_needs_a_build_since_the_wheel_is_for_a2() -> None:
    host = changed(A2, chips=("19e5:d803",), gcc="10.3.1")
    found = resolve(host, Wanted(vllm_ascend="0.23.0"), CATALOG)
    build = next(v for v in found.verdicts if v.right.endswith("from source"))
    assert build.verdict == GOOD
    assert "compiled for a2 only" in build.reason


def test_python_outside_of_the_release_is_bad() -> None:
    found = resolve(A2, Wanted(vllm_ascend="0.18.0", python="3.12"), CATALOG)
    assert any(v.left == "Python 3.12" and v.verdict == BAD for v in found.verdicts)
    assert found.nearest is not None
    assert found.nearest.set["python"] == "3.11"


# -- what only the host can settle ----------------------------------------------------------------


def test_without_facts_the_pairs_are_unsettled_not_bad() -> None:
    found = resolve(Host(accelerator="ascend"), Wanted(release_set="ascend-2026.08"), CATALOG)
    assert found.ok
    unsettled = {v.left for v in found.of(UNSETTLED)}
    assert {"the NPU", "the operating system", "glibc"} <= unsettled
    assert found.set["cann"] == "9.1.0"


def test_an_installed_driver_that_nobody_named_is_unsettled() -> None:
    found = resolve(changed(A2, driver=None), Wanted(vllm_ascend="0.23.0"), CATALOG)
    assert pair(found, "the installed driver", "CANN 9.1.0") == [UNSETTLED]
    assert found.set["driver"] == "26.0.RC1"


def test_features_have_floors() -> None:
    host = changed(A2, driver="25.3.RC1")
    wanted = Wanted(vllm_ascend="0.23.0", features=("full_and_piecewise_graphs", "flying"))
    found = resolve(host, wanted, CATALOG)
    assert pair(found, "feature full_and_piecewise_graphs", "driver") == [BAD]
    assert pair(found, "feature full_and_piecewise_graphs", "cann") == [GOOD]
    assert pair(found, "feature flying", "the catalog") == [UNKNOWN]


# -- NVIDIA ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "vllm", "expected"),
    [
        ("580.159.04", "0.33.0", GOOD),
        ("575.51.03", "0.33.0", BAD),
        ("535.54.03", "0.33.0", UNKNOWN),
        ("570.124.06", "0.33.0", UNKNOWN),
        ("535.54.03", "0.19.1", GOOD),
        ("525.60.13", "0.19.1", GOOD),
        ("520.61.05", "0.19.1", BAD),
    ],
)
def test_driver_and_cuda(driver: str, vllm: str, expected: str) -> None:
    found = resolve(changed(H200, driver=driver), Wanted(vllm=vllm), CATALOG)
    assert pair(found, f"driver {driver}", "CUDA") == [expected]


def test_a_broken_pair_of_driver_and_cuda_has_a_way_out() -> None:
    found = resolve(changed(H200, driver="560.35.03"), Wanted(vllm="0.33.0"), CATALOG)
    assert not found.ok
    assert found.nearest is not None
    assert found.nearest.set["vllm"] == "0.33.0"
    assert found.nearest.set["driver"] == "580.159.04"


def test_an_old_gpu_gets_the_newest_release_that_still_knows_it() -> None:
    found = resolve(changed(H200, chips=("10de:1db5",)), Wanted(vllm="0.33.0"), CATALOG)
    assert not found.ok
    assert found.nearest is not None
    assert found.nearest.set["vllm"] == "0.14.1"


@pytest.mark.parametrize(
    ("facts", "wanted", "left", "right", "expected"),
    [
        ({"chips": ("10de:1db5",)}, {"vllm": "0.33.0"}, "V100", "vllm", BAD),
        ({"chips": ("10de:1db5",)}, {"vllm": "0.11.0"}, "V100", "vllm", GOOD),
        ({"chips": ("10de:1db5",), "driver": "620.10"}, {}, "V100", "driver", BAD),
        ({"chips": ("10de:1eb8",)}, {"vllm": "0.33.0"}, "T4", "vllm", GOOD),
        ({"kernel_modules": "proprietary", "driver": "620.10"}, {}, "proprietary", "driver", BAD),
        ({"kernel_modules": "open"}, {}, "H200", "open", GOOD),
        ({"fabric_manager": "580.159.04"}, {}, "Fabric", "driver", GOOD),
        ({"fabric_manager": "580.126.09"}, {}, "Fabric", "driver", BAD),
        ({}, {}, "Fabric", "driver", UNSETTLED),
        ({"driver": "535.54.03"}, {"month": "2026-11"}, "driver", "branch 535", UNKNOWN),
        ({"driver": "535.54.03"}, {"month": "2026-05"}, "driver", "branch 535", GOOD),
        ({"os": "openEuler-22.03-SP4"}, {}, "system", "NVIDIA's", UNKNOWN),
        ({"os": "kylin-V10-SP3-2403"}, {}, "system", "NVIDIA's", GOOD),
        ({"os": "kylin-V10-SP3-2403", "driver": "615.1"}, {}, "system", "driver", BAD),
        ({"arch": "aarch64", "glibc": "2.28"}, {"vllm": "0.18.0"}, "glibc", "vllm", BAD),
        ({"arch": "aarch64", "glibc": "2.28"}, {"vllm": "0.33.0"}, "glibc", "vllm", GOOD),
        ({"arch": "aarch64", "glibc": "2.28"}, {"vllm": "0.33.0"}, "glibc", "tilelang", BAD),
        ({"gcc": "12.3.1"}, {"vllm": "0.33.0", "method": "source"}, "gcc", "vllm", BAD),
        ({"gcc": "12.3.1"}, {"vllm": "0.24.0", "method": "source"}, "gcc", "vllm", GOOD),
        ({}, {"vllm": "0.33.0", "python": "3.10"}, "Python", "vllm", BAD),
        ({}, {"vllm": "0.33.0", "torch": "2.13.0"}, "torch", "vllm", BAD),
    ],
)
def test_nvidia_pairs(
    facts: dict[str, Any], wanted: dict[str, Any], left: str, right: str, expected: str
) -> None:
    found = resolve(changed(H200, **facts), Wanted(**wanted), CATALOG)
    assert pair(found, left, right) == [expected], [str(v) for v in found.verdicts]


# -- data only ------------------------------------------------------------------------------------


def test_a_new_version_is_a_new_row_and_nothing_else() -> None:
    grown: dict[str, Any] = copy.deepcopy(CATALOG)
    grown["ascend"]["releases"].insert(
        0,
        {
            "vllm_ascend": "0.35.0",
            "vllm": "0.35.0",
            "python": ">=3.11,<3.14",
            "cann": "9.3.0",
            "torch": "2.15.0",
            "torch_npu": "2.15.0",
            "stable": True,
            "source": "a row of tomorrow",
        },
    )
    grown["ascend"]["cann_hdk"].insert(
        0, {"cann": "9.3.X", "paired": "27.0.0", "good": "26.X|27.0.X", "source": "tomorrow"}
    )
    grown["release_sets"]["sets"].insert(
        0,
        {"name": "ascend-2027.02", "accelerator": "ascend", "wanted": {"vllm_ascend": "0.35.0"}},
    )
    found = resolve(changed(A2, driver="26.1.0"), Wanted(release_set="ascend-2027.02"), grown)
    assert found.set["torch_npu"] == "2.15.0"
    assert pair(found, "driver 26.1.0", "CANN 9.3.0") == [GOOD]
    assert pair(found, "vllm-ascend 0.35.0", "cann") == [GOOD]
    with pytest.raises(ResolveError):
        resolve(A2, Wanted(release_set="ascend-2027.02"), CATALOG)


def test_the_result_is_a_json_document() -> None:
    import json

    found = resolve(changed(A2, driver="24.1.0"), Wanted(release_set="ascend-2025.12"), CATALOG)
    again = json.loads(json.dumps(found.as_dict()))
    assert again["verdict"] in (BAD, UNKNOWN, GOOD, UNSETTLED)
    assert again["set"]["cann"] == "8.3.RC2"


def test_a_thousand_hosts_are_quick() -> None:
    resolver = Resolver(CATALOG)
    begin = time.perf_counter()
    for number in range(1000):
        driver = ("24.1.0", "25.2.0", "25.5.1", "26.0.RC1")[number % 4]
        resolver.resolve(changed(A2, driver=driver), Wanted(release_set="ascend-2026.08"))
    assert time.perf_counter() - begin < 2
