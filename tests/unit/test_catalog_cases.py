"""Public bug reports about versions, from what a host shows to the resolver's verdict."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import hugepage_plan, osinfo
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog as files
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import os_support
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.resolver import (
    BAD,
    GOOD,
    PARTS,
    UNKNOWN,
    UNSETTLED,
    Host,
    ResolveError,
    Wanted,
    resolve,
)

CATALOG = {name: files.load(name) for name in PARTS}


def release(id: str, version_id: str, version: str) -> str:
    """Return an os-release file; there is no ID_LIKE."""
    name = {"kylin": "Kylin Linux Advanced Server"}.get(id, id)
    return f'NAME="{name}"\nID="{id}"\nVERSION_ID="{version_id}"\nVERSION="{version}"\n'


def cards(key: str) -> set[str]:
    """Return the verdicts on an Atlas A2 with this system."""
    found = resolve(Host(os=key, arch="aarch64", chips=("19e5:d802",)), Wanted(), CATALOG)
    return {v.verdict for v in found.verdicts if v.left.startswith("card")}


@pytest.mark.parametrize(
    ("codename", "key", "verdict"),
    [
        ("Tercel", "kylin-V10-SP1", BAD),
        ("Sword", "kylin-V10-SP2", GOOD),
        ("Lance", "kylin-V10-SP3", GOOD),
        ("Halberd", "kylin-V10-SP3-2403", GOOD),
    ],
)
def test_br_02_a_kylin_is_judged_by_its_service_pack(codename: str, key: str, verdict: str) -> None:
    system = osinfo.identify(release("kylin", "V10", f"V10 ({codename})"))
    assert system["key"] == key
    assert cards(key) == {verdict}


@pytest.mark.parametrize(
    ("version_id", "version", "key", "verdict"),
    [
        ("22.03", "22.03 LTS", "openEuler-22.03", GOOD),
        ("22.03", "22.03 (LTS-SP1)", "openEuler-22.03-SP1", UNKNOWN),
        ("22.03", "22.03 (LTS-SP2)", "openEuler-22.03-SP2", UNKNOWN),
        ("22.03", "22.03 (LTS-SP4)", "openEuler-22.03-SP4", GOOD),
        ("24.03", "24.03 (LTS-SP3)", "openEuler-24.03-SP3", UNKNOWN),
    ],
)
def test_br_03_an_openeuler_is_judged_by_its_service_pack(
    version_id: str, version: str, key: str, verdict: str
) -> None:
    system = osinfo.identify(release("openEuler", version_id, version))
    assert system["key"] == key
    assert cards(key) == {verdict}


def test_br_03_an_innovation_release_is_no_lts() -> None:
    system = osinfo.identify(release("openEuler", "23.09", "23.09"))
    told = os_support.verdict(system, files.load("operating_systems"))
    assert told["verdict"] in (BAD, UNKNOWN)
    assert resolve(Host(os=system["key"], accelerator="cpu"), Wanted(), CATALOG).set["vllm"]


@pytest.mark.parametrize("wish", [{"cann": 9.1}, {"vllm": 0.23}, {"python": 3.1}])
def test_br_04_a_number_is_refused_with_the_component(wish: dict[str, Any]) -> None:
    (name,) = wish
    with pytest.raises(ResolveError, match=f"{name}: .*quote it"):
        Wanted.of(wish)


def test_a_word_that_is_no_version_is_refused_with_the_component() -> None:
    with pytest.raises(ResolveError, match="driver: not a version: 'latest'"):
        resolve(Host(accelerator="ascend"), Wanted(driver="latest"), CATALOG)


def test_a_fact_that_is_no_version_is_unknown() -> None:
    host = Host(os="openEuler-22.03-SP4", chips=("19e5:d802",), driver="n/a")
    found = resolve(host, Wanted(), CATALOG)
    assert found.ok
    assert found.of(UNKNOWN)[0].left == "driver n/a"
    assert any(v.left == "the installed driver" for v in found.of(UNSETTLED))


def test_a_host_is_made_of_what_host_identity_tells() -> None:
    identity = {
        "os": {"key": "kylin-V10-SP2"},
        "arch": "aarch64",
        "glibc": "2.28",
        "page_size": 65536,
        "python": {"executable": "/usr/bin/python3", "version": "3.7.9"},
    }
    host = Host.of_identity(identity, chips=("19e5:d802",))
    assert (host.os, host.glibc, host.python) == ("kylin-V10-SP2", "2.28", "3.7.9")
    assert resolve(host, Wanted(), CATALOG).set["vllm_ascend"] == "0.18.0"


def node(memory_mib: int) -> dict[int, dict[str, Any]]:
    return {0: {"memory": memory_mib * 1024**2, "sizes": [2 * 1024**2]}}


@pytest.mark.parametrize(
    ("memory_mib", "wish", "pages"),
    [
        (32439, {"memory": "50%"}, 8110),
        (32439, {"memory": "99.9%"}, 16204),
        (32439, {"memory": "32439M"}, 16220),
        (2, {"memory": "1%"}, 1),
        (4, {"memory": "50%"}, 1),
    ],
)
def test_br_26_a_share_of_memory_is_a_whole_number_of_pages(
    memory_mib: int, wish: dict[str, str], pages: int
) -> None:
    pool = {"size": "2M", "node": "0", **wish}
    (row,) = hugepage_plan.plan([pool], node(memory_mib))
    assert row["pages"] == pages
    assert isinstance(row["pages"], int)


def test_br_26_pages_are_bounded_by_the_memory_of_their_node() -> None:
    rows = hugepage_plan.plan([{"size": "2M", "node": "0", "count": 16609}], node(32439))
    with pytest.raises(hugepage_plan.BadPool, match="at most 90%"):
        hugepage_plan.check_memory(rows, node(32439), 90)
