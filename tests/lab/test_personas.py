"""What Ansible sees of each persona, and what its package manager brings."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import environment

from vllm_fleet.lab import api
from vllm_fleet.lab.guest import Guest
from vllm_fleet.lab.settings import Lab

pytestmark = pytest.mark.lab

# Distribution, version, major version, release, family, package manager: as on the real ones.
FACTS = {
    "openeuler-22.03-sp1": ("openEuler", "22.03", "22", "LTS-SP1", "RedHat", "dnf"),
    "openeuler-24.03-sp1": ("openEuler", "24.03", "24", "LTS-SP1", "RedHat", "dnf"),
    "kylin-v10-sp2": ("Kylin Linux Advanced Server", "V10", "V10", "Sword", "RedHat", "dnf"),
    "kylin-v10-sp3": ("Kylin Linux Advanced Server", "V10", "V10", "Lance", "RedHat", "dnf"),
    "el8": ("Rocky", "8.10", "8", "Green Obsidian", "RedHat", "dnf"),
    "ubuntu-22.04": ("Ubuntu", "22.04", "22", "jammy", "Debian", "apt"),
}
KEYS = ("distribution", "distribution_version", "distribution_major_version")
KEYS += ("distribution_release", "os_family", "pkg_mgr")
HOSTS = {persona: f"t-p{number}" for number, persona in enumerate(FACTS)}
RPM = [persona for persona in FACTS if persona != "ubuntu-22.04"]


@pytest.fixture(scope="module")
def lab(own_lab: Lab) -> Iterator[Lab]:
    """Return a lab with one host of each persona."""
    api.up({name: persona for persona, name in HOSTS.items()}, lab=own_lab)
    yield own_lab
    api.down(lab=own_lab)


@pytest.fixture(scope="module")
def facts(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the facts of every host, gathered by Ansible."""
    tree = tmp_path_factory.mktemp("facts")
    ansible(lab, "all", "setup", "gather_subset=!all,min,pkg_mgr", "--tree", str(tree))
    return {name: json.loads((tree / name).read_text())["ansible_facts"] for name in HOSTS.values()}


def ansible(lab: Lab, hosts: str, module: str, arguments: str, *options: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible"), "-i", lab.inventory_file, hosts,
         "-m", module, "-a", arguments, *options],
        env=environment(), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("persona", FACTS)
def test_facts(facts: dict[str, dict[str, Any]], persona: str) -> None:
    seen = facts[HOSTS[persona]]
    assert tuple(seen[f"ansible_{key}"] for key in KEYS) == FACTS[persona]


@pytest.mark.parametrize("persona", FACTS)
def test_tools_of_the_other_family_are_not_there(lab: Lab, persona: str) -> None:
    guest = Guest(lab, HOSTS[persona])
    other = ("apt-get", "dpkg") if persona in RPM else ("dnf", "rpm", "yum")
    for tool in other:
        assert not guest.path(f"/usr/bin/{tool}").exists()


@pytest.mark.parametrize("persona", FACTS)
def test_a_blank_host_lacks_what_roles_install(lab: Lab, persona: str) -> None:
    guest = Guest(lab, HOSTS[persona])
    for path in ("/usr/bin/numactl", "/usr/sbin/chronyd", "/usr/bin/rsync"):
        assert not guest.path(path).exists()


@pytest.mark.parametrize("persona", RPM)
def test_python_of_the_system(lab: Lab, persona: str) -> None:
    """Only openEuler 24.03 has a /usr/bin/python3.11 of its own."""
    guest = Guest(lab, HOSTS[persona])
    own = guest.path("/usr/bin/python3.11").exists()
    assert own == (persona == "openeuler-24.03-sp1")
    assert guest.run("python3", "-c", "print('runs')") == "runs\n"


@pytest.mark.parametrize("persona", RPM)
def test_dnf_installs_the_headers_of_the_running_kernel(lab: Lab, persona: str) -> None:
    name, kernel = HOSTS[persona], platform.release()
    ansible(lab, name, "dnf", f"name=kernel-devel-{kernel},chrony,numactl")
    guest = Guest(lab, name)
    assert guest.run("cat", f"/lib/modules/{kernel}/build/Makefile").endswith(f"{kernel}\n")
    assert "nodebind" in guest.run("numactl", "--show")
    ansible(lab, name, "service", "name=chronyd state=started enabled=true")
    assert "Leap status" in guest.run("chronyc", "tracking")


def test_apt_installs_the_headers_of_the_running_kernel(lab: Lab) -> None:
    name, kernel = HOSTS["ubuntu-22.04"], platform.release()
    packages = f"linux-headers-{kernel},chrony,numactl,python3.11,python3.11-venv"
    ansible(lab, name, "apt", f"update_cache=true name={packages}")
    guest = Guest(lab, name)
    assert guest.run("cat", f"/lib/modules/{kernel}/build/Makefile").endswith(f"{kernel}\n")
    assert "Leap status" in guest.run("chronyc", "tracking")
    assert guest.run("python3.11", "-c", "import venv; print('runs')") == "runs\n"


def test_el8_offers_another_python(lab: Lab) -> None:
    name = HOSTS["el8"]
    ansible(lab, name, "dnf", "name=python3.11")
    guest = Guest(lab, name)
    assert guest.run("python3.11", "-m", "venv", "--help").startswith("usage: venv")
    assert guest.run("readlink", "-f", "/usr/bin/python3") == "/usr/libexec/platform-python\n"


def test_the_service_pack_of_kylin(lab: Lab) -> None:
    second = {
        sp: Guest(lab, HOSTS[f"kylin-v10-{sp}"]).run("sed", "-n", "2p", "/etc/.productinfo")
        for sp in ("sp2", "sp3")
    }
    assert second["sp2"] == "release V10 (SP2) /(Sword)-x86_64-Build09/20210524\n"
    assert second["sp3"] == "release V10 (SP3) /(Lance)-x86_64-Build23/20230324\n"
