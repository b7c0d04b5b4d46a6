"""The lab's parts that need neither root nor a host."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from vllm_fleet.lab import (
    base,
    fleet,
    hardware,
    inventory,
    labdata,
    machine,
    packages,
    rootfs,
    rpm_repo,
    state,
)
from vllm_fleet.lab.errors import LabRefusal
from vllm_fleet.lab.settings import Lab
from vllm_fleet.lab.state import Host


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "home", tmp_path / "cache", "vfleet9", "10.213.9")


def test_mirrors_are_debians_only() -> None:
    sources = (
        "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n"
        "deb http://security.example/debian-security bookworm-security main\n"
        "deb http://mirror.example/ubuntu jammy main\n"
        "deb [signed-by=/x] https://other.example/debian/ bookworm main\n"
    )
    found = base.mirrors_of(sources)
    assert found == ["http://mirror.example/debian", "https://other.example/debian/"]


def test_a_named_mirror_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(base.MIRROR_VARIABLE, "http://inside.example/debian")
    assert base.mirrors() == ["http://inside.example/debian"]


def test_the_lab_refuses_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(LabRefusal, match="needs Linux, and this is Darwin"):
        machine.require()


def test_the_lab_refuses_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabRefusal, match="needs root") as refused:
        machine.require()
    assert refused.value.code == 1


def test_missing_programs_are_named_by_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program: None if program == "ip" else program)
    assert "iproute2" in machine.missing_packages()


@pytest.mark.parametrize("name", labdata.names("personas"))
def test_every_persona_makes_packages_for_the_running_kernel(name: str) -> None:
    persona = labdata.persona(name)
    names = [package.name for package in packages.of(persona)]
    headers = {"rpm": "kernel-devel-", "deb": "linux-headers-"}[persona["family"]]
    assert f"{headers}{platform.release()}" in names
    assert len(names) == len(set(names))


def test_versions_of_a_persona_override() -> None:
    made = {package.name: package for package in packages.of(labdata.persona("el8"))}
    assert made["gcc"].version == "8.5.0"
    assert made["bash"].installed
    assert not made["chrony"].installed


def test_words_are_put_in_everywhere() -> None:
    value = {"a-{kernel}": ["{kernel}", {"x": "{other}"}], "n": 3}
    assert packages.filled_in(value, {"kernel": "6"}) == {"a-6": ["6", {"x": "{other}"}], "n": 3}


def test_spec(tmp_path: Path) -> None:
    package = packages.Package(
        name="demo", version="1.2", provides=("other",), user={"name": "d", "home": "/h"},
        files={
            "/etc/d.conf": {"content": "x"},
            "/usr/lib/systemd/system/d.service": {"content": ""},
        },
    )  # fmt: skip
    package.stage(tmp_path, tmp_path / "stage/demo")
    text = rpm_repo.spec_text({"dist": "oe2203"}, [package], tmp_path / "stage")
    for line in ("Release: 1.oe2203", "Provides: other", "%config(noreplace) /etc/d.conf"):
        assert f"{line}\n" in text
    assert "useradd --system --home-dir /h" in text
    assert "systemctl daemon-reload" in text


def test_a_link_that_leads_nowhere_is_removed(tmp_path: Path) -> None:
    rootfs.link(tmp_path, "/etc/one.service", "/nowhere")
    rootfs.customise(tmp_path, {"removed": ["/etc/one.service"]})
    assert not (tmp_path / "etc/one.service").is_symlink()


def test_a_file_takes_the_place_of_a_link(tmp_path: Path) -> None:
    rootfs.write(tmp_path, "/usr/lib/os-release", "old")
    rootfs.link(tmp_path, "/etc/os-release", "../usr/lib/os-release")
    rootfs.write(tmp_path, "/etc/os-release", "new")
    assert (tmp_path / "usr/lib/os-release").read_text() == "old"


@pytest.mark.parametrize(
    ("cpus", "listed", "mask"),
    [
        (range(32), "0-31", "00000000,00000000,00000000,ffffffff"),
        (range(96, 128), "96-127", "ffffffff,00000000,00000000,00000000"),
        (range(4, 5), "4", "00000000,00000000,00000000,00000010"),
    ],
)
def test_cpu_lists_and_masks(cpus: range, listed: str, mask: str) -> None:
    assert (hardware.cpu_list(cpus), hardware.cpu_map(cpus, 128)) == (listed, mask)


def test_configuration_space() -> None:
    space = hardware.config_space(labdata.read("hardware/two-a100")["device"])
    assert len(space) == 256
    assert space[:4] == bytes.fromhex("de10b220")
    assert space[8:12] == bytes.fromhex("a1000203")
    assert space[0x2C:0x30] == bytes.fromhex("de106314")


@pytest.mark.parametrize("name", labdata.names("hardware"))
def test_hardware_is_consistent(name: str) -> None:
    data = hardware.load(name)
    assert [len(row) for row in data["distances"]] == [data["nodes"]] * data["nodes"]
    assert {row["node"] for row in data["devices"]} <= set(range(data["nodes"]))


def test_the_demo_fleet_is_what_up_means() -> None:
    assert list(fleet.wanted(None, {})) == ["npu-01", "gpu-01", "cpu-01"]


def test_extra_hosts_get_free_addresses() -> None:
    present = {"a": Host("a", "el8", 32)}
    made = fleet.wanted({"bb": "el8", "cc": "el8", "vm-01": ""}, present)
    assert [made[name].number for name in ("bb", "cc", "vm-01")] == [33, 34, 14]


def test_a_host_keeps_its_persona() -> None:
    with pytest.raises(LabRefusal, match=r"npu-01 is openeuler-22\.03-sp1, not el8"):
        fleet.wanted({"npu-01": "el8"}, {})


def test_inventory(lab: Lab) -> None:
    tree = yaml.safe_load(inventory.text(lab, {**fleet.demo(), **fleet.machine()}))["all"]
    assert tree["hosts"]["npu-01"] == {"ansible_host": "10.213.9.11"}
    assert list(tree["children"]["builders"]["hosts"]) == ["npu-01", "cpu-01"]
    serving = tree["children"]["serving"]["children"]
    assert {name: list(group["hosts"]) for name, group in serving.items()} == {
        "ascend": ["npu-01"],
        "nvidia": ["gpu-01"],
        "cpu": ["cpu-01", "vm-01"],
    }
    assert "StrictHostKeyChecking=yes" in tree["vars"]["ansible_ssh_common_args"]


def test_state_comes_back(lab: Lab) -> None:
    hosts = {**fleet.demo(), "x": Host("x", "el8", 40, binds=("/a:/b",))}
    state.save(lab, hosts)
    assert state.load(lab) == hosts


def test_an_unknown_schema_is_left_alone(lab: Lab) -> None:
    state.write_atomic(lab.state_file, '{"schema": 99, "hosts": {}}')
    with pytest.raises(Exception, match="unknown schema 99"):
        state.load(lab)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["up", "--host", "x"], "no persona"),
        (["break", "x"], "no fault is named"),
        (["break", "x", "refuse", "--path", "/x"], "takes no --path"),
        (["down", "x", "--purge"], "takes no host names"),
    ],
)
def test_bad_words_are_refused(words: list[str], message: str) -> None:
    from vllm_fleet.cli.lab import app

    result = CliRunner().invoke(app, words)
    assert message in str(result.exception)
