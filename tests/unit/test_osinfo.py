"""What the release files of the supported and some unsupported systems say."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import hostread, osinfo

FIXTURES = Path(__file__).parents[1] / "fixtures"
MIB = 1024 * 1024


def identify(sample: str, product: str = "") -> dict[str, str]:
    text = (FIXTURES / "os_release" / f"{sample}.txt").read_text(encoding="utf-8")
    productinfo = ""
    if product:
        productinfo = (FIXTURES / "productinfo" / f"{product}.txt").read_text(encoding="utf-8")
    return osinfo.identify(text, productinfo)


@pytest.mark.parametrize(
    ("sample", "key", "family", "edition"),
    [
        ("openeuler-20.03-sp3", "openEuler-20.03-SP3", "rpm", "lts"),
        ("openeuler-22.03", "openEuler-22.03", "rpm", "lts"),
        ("openeuler-22.03-sp1", "openEuler-22.03-SP1", "rpm", "lts"),
        ("openeuler-22.03-sp2", "openEuler-22.03-SP2", "rpm", "lts"),
        ("openeuler-22.03-sp3", "openEuler-22.03-SP3", "rpm", "lts"),
        ("openeuler-22.03-sp4", "openEuler-22.03-SP4", "rpm", "lts"),
        ("openeuler-24.03", "openEuler-24.03", "rpm", "lts"),
        ("openeuler-24.03-sp1", "openEuler-24.03-SP1", "rpm", "lts"),
        ("openeuler-24.03-sp3", "openEuler-24.03-SP3", "rpm", "lts"),
        ("openeuler-23.09-innovation", "openEuler-23.09", "rpm", "innovation"),
        ("kylin-v10-sp1", "kylin-V10-SP1", "rpm", "server"),
        ("kylin-v10-sp2", "kylin-V10-SP2", "rpm", "server"),
        ("kylin-v10-sp3", "kylin-V10-SP3", "rpm", "server"),
        ("kylin-v10-sp3-2403", "kylin-V10-SP3-2403", "rpm", "server"),
        ("kylin-v10-host-edition", "kylin-V10-SP3", "rpm", "server"),
        ("kylin-v11", "kylin-V11", "rpm", "server"),
        ("kylin-desktop-v10", "kylin-desktop-v10", "deb", "desktop"),
        ("rocky-8.10", "el-8", "rpm", ""),
        ("rhel-9.4", "el-9", "rpm", ""),
        ("ubuntu-22.04", "ubuntu-22.04", "deb", ""),
        ("debian-12", "debian-12", "deb", ""),
        ("unknown-distribution", "example-3", "rpm", ""),
    ],
)
def test_key_of_each_sample(sample: str, key: str, family: str, edition: str) -> None:
    found = identify(sample)
    assert (found["key"], found["family"], found["edition"]) == (key, family, edition)


@pytest.mark.parametrize(
    "name", ["kylin-v10-sp1", "kylin-v10-sp2", "kylin-v10-sp3", "kylin-v10-sp3-2403"]
)
def test_productinfo_and_codename_agree(name: str) -> None:
    assert identify(name, name) == identify(name)


def test_productinfo_wins_over_a_codename_that_says_otherwise() -> None:
    assert identify("kylin-v10-sp3", "kylin-v10-sp1")["key"] == "kylin-V10-SP1"


def test_empty_files_give_an_empty_identity() -> None:
    found = osinfo.identify("", "no release line")
    assert (found["key"], found["family"], found["service_pack"]) == ("", "", "")


def test_quotes_and_escapes_of_os_release() -> None:
    values = osinfo.parse_os_release('A="x \\"y\\""\nB=\'z\'\n#C=1\nnothing\n')
    assert values == {"A": 'x "y"', "B": "z"}


@pytest.mark.parametrize(
    ("family", "present", "chosen"),
    [
        ("rpm", ["dnf", "yum"], "dnf"),
        ("rpm", ["yum"], "yum"),
        ("rpm", ["apt-get", "dnf"], "dnf"),
        ("rpm", ["dnf", "dnf5"], "dnf5"),
        ("deb", ["apt-get", "dnf"], "apt"),
        ("deb", [], ""),
        ("", ["dnf"], "dnf"),
    ],
)
def test_package_manager_comes_from_the_host(family: str, present: list[str], chosen: str) -> None:
    """ansible/ansible#81332: Ansible's own fact says "unknown" on Kylin."""
    assert osinfo.package_manager(family, present) == chosen


def test_sizes_meminfo_and_systemd() -> None:
    names = ["hugepages-1048576kB", "hugepages-2048kB", "other"]
    assert osinfo.parse_size_list(names) == [2 * MIB, 1024 * MIB]
    meminfo = "Node 1 MemTotal:       524288 kB\nNode 1 Active(anon):  12 kB\n"
    assert osinfo.parse_meminfo(meminfo) == {"MemTotal": 524288, "Active(anon)": 12}
    assert osinfo.systemd_version(["libsystemd-shared-252-32.el9_4.so", "x"]) == 252
    assert osinfo.systemd_version([]) is None


def test_host_is_read_below_its_root(tmp_path: Path) -> None:
    for name, text in {
        "etc/os-release": 'ID="kylin"\nNAME="Kylin Linux Advanced Server"\nVERSION_ID="V10"\n',
        "etc/.productinfo": "x\nrelease V10 (SP2) /(Sword)-aarch64-Build09/20210524\n",
        "usr/bin/dnf": "",
        "usr/lib/systemd/libsystemd-shared-243.so": "",
        "sys/fs/cgroup/unified/cgroup.controllers": "cpu",
        "sys/devices/system/node/node0/cpulist": "0-31\n",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 4096 kB\n",
        "sys/devices/system/node/node10/cpulist": "32-63\n",
        "sys/devices/system/node/has_cpu": "0",
        "sys/kernel/mm/hugepages/hugepages-524288kB/nr_hugepages": "0",
        "run/systemd/container": "systemd-nspawn\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    host = hostread.Host(str(tmp_path))
    assert hostread.operating_system(host)["key"] == "kylin-V10-SP2"
    assert hostread.package_manager(host, "rpm") == "dnf"
    assert hostread.systemd_version(host) == 243
    assert hostread.cgroup_mode(host) == "hybrid"
    assert hostread.hugepage_sizes(host) == [512 * MIB]
    assert hostread.is_container(host)
    assert hostread.numa_nodes(host) == [
        {"id": 0, "cpus": "0-31", "mem_kb": 4096},
        {"id": 10, "cpus": "32-63", "mem_kb": 0},
    ]


def test_empty_root_is_no_crash(tmp_path: Path) -> None:
    host = hostread.Host(str(tmp_path))
    assert hostread.operating_system(host)["key"] == ""
    assert hostread.package_manager(host, "") == ""
    assert hostread.cgroup_mode(host) == ""
    assert hostread.numa_nodes(host) == []
    assert not hostread.is_container(host)
