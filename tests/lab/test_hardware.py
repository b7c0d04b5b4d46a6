"""Hardware that is not there, seen from inside a lab host; and an older target Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vllm_fleet.lab import api, planning
from vllm_fleet.lab.errors import LabRefusal
from vllm_fleet.lab.guest import Guest
from vllm_fleet.lab.settings import Lab

pytestmark = pytest.mark.lab
POOL = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"


@pytest.fixture(scope="module")
def lab(own_lab: Lab) -> Iterator[Lab]:
    yield own_lab
    api.down(lab=own_lab)


@pytest.fixture(scope="module")
def npu(lab: Lab) -> Guest:
    api.up({"t-npu": "openeuler-22.03-sp1"}, hardware="kunpeng-920-910b", lab=lab)
    return Guest(lab, "t-npu")


def test_eight_npus_at_four_nodes(npu: Guest) -> None:
    listed = npu.run("lspci", "-n").splitlines()
    assert len(listed) == 8
    assert all("1200: 19e5:d802" in line for line in listed)
    nodes = npu.run("sh", "-c", "cat /sys/bus/pci/devices/*/numa_node").split()
    assert sorted(nodes) == ["0", "0", "1", "1", "2", "2", "3", "3"]


def test_kunpeng_nodes(npu: Guest) -> None:
    assert npu.run("cat", "/sys/devices/system/node/online") == "0-3\n"
    assert npu.run("cat", "/sys/devices/system/node/node2/cpulist") == "64-95\n"


def test_a_fake_pool_takes_what_is_written(npu: Guest) -> None:
    npu.run("sh", "-c", f"echo 512 > {POOL}")
    assert npu.run("cat", POOL) == "512\n"


def test_hardware_is_there_after_a_reset(lab: Lab, npu: Guest) -> None:
    api.reset(["t-npu"], lab=lab)
    guest = Guest(lab, "t-npu")
    assert guest.run("cat", POOL) == "0\n"


def test_two_gpus(lab: Lab) -> None:
    api.up({"t-gpu": "kylin-v10-sp3"}, hardware="two-a100", lab=lab)
    listed = Guest(lab, "t-gpu").run("lspci", "-n").splitlines()
    assert [line.split()[2] for line in listed] == ["10de:20b2", "10de:20b2"]


def test_a_host_without_hardware_shows_the_real_nodes(lab: Lab) -> None:
    api.up({"t-cpu": "openeuler-24.03-sp1"}, lab=lab)
    guest = Guest(lab, "t-cpu")
    assert guest.run("nproc").strip().isdigit()
    assert "19e5" not in guest.run("lspci", "-n")


@pytest.mark.parametrize("version", ["3.6", "3.7"])
def test_an_older_python(lab: Lab, version: str) -> None:
    if not list(planning.pyenv().glob(f"{version}*/bin/python3")):
        pytest.skip(f"no Python {version} on this machine")
    name = f"t-py{version.replace('.', '')}"
    api.up({name: "kylin-v10-sp2"}, python=version, lab=lab)
    guest = Guest(lab, name)
    assert guest.run("python3", "--version").startswith(f"Python {version}.")
    assert "numactl" in guest.run("dnf", "--quiet", "list", "--available", "numactl")


@pytest.mark.parametrize(
    ("hardware", "python", "bind", "message"),
    [
        ("abacus", "", "/tmp:/srv", "unknown hardware 'abacus'"),
        ("", "1.5", "/tmp:/srv", "there is no Python 1.5"),
        ("", "", "nowhere", "'nowhere' is no bind"),
        ("", "", "/nowhere:/srv", "there is no /nowhere"),
    ],
)
def test_bad_options_are_refused(
    lab: Lab, hardware: str, python: str, bind: str, message: str
) -> None:
    with pytest.raises(LabRefusal, match=message):
        api.up({"t-bad": "el8"}, lab=lab, hardware=hardware, python=python, binds=[bind])
    assert "t-bad" not in [row["name"] for row in api.status(lab=lab)]
