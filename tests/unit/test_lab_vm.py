"""The emulated machine's pure parts: disk layout, seed disk, command lines, refusals."""

from __future__ import annotations

import io
import os
import socket
import stat
import struct
import tarfile
import threading
from pathlib import Path

import pytest

from vllm_fleet.lab import vm, vm_image, vm_qemu, vm_seed
from vllm_fleet.lab.errors import LabError, LabRefusal
from vllm_fleet.lab.settings import Lab

WHO = vm_seed.Identity("vm-01", "10.213.0.14", 24, "10.213.0.1", "PRIVATE\n", "ssh-ed25519 A\n")


def lab(base: Path) -> Lab:
    return Lab(home=base / "home", cache=base / "cache", bridge="vfleet0", prefix="10.213.0")


def machine(home: Path) -> vm_qemu.Machine:
    return vm_qemu.Machine("vm-01", home, "vfleet0", vm.MAC)


def test_partition_table_names_one_bootable_linux_partition() -> None:
    table = vm_image.partition_table(2048, 8192)
    assert len(table) == 512
    assert table[510:] == b"\x55\xaa"
    boot, kind, start, count = struct.unpack("<B3xB3xII", table[446:462])
    assert (boot, kind, start, count) == (0x80, 0x83, 2048, 8192 - 2048)
    assert table[462:510] == bytes(48)


def test_seed_disk_is_a_tar_of_whole_sectors_with_safe_modes() -> None:
    data = vm_seed.archive(WHO)
    assert len(data) % 512 == 0
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        modes = {member.name: member.mode for member in tar}
        key = tar.extractfile("etc/ssh/ssh_host_ed25519_key")
        assert key is not None
        assert key.read() == b"PRIVATE\n"
    assert modes["root/.ssh"] == 0o700
    assert modes["root/.ssh/authorized_keys"] == 0o600
    assert modes["etc/ssh/ssh_host_ed25519_key"] == 0o600
    assert "etc/systemd/network/10-lab.network" in modes


def test_seed_disk_on_the_outside_is_for_root_only(tmp_path: Path) -> None:
    vm_seed.write(tmp_path / "seed.tar", WHO)
    assert stat.S_IMODE((tmp_path / "seed.tar").stat().st_mode) == 0o600


def test_every_numa_node_has_its_cpu_and_memory(tmp_path: Path) -> None:
    words = vm_qemu.command_line(machine(tmp_path))
    nodes = [word for word in words if word.startswith("node,nodeid=")]
    assert nodes == [
        "node,nodeid=0,cpus=0,memdev=memory0",
        "node,nodeid=1,cpus=1,memdev=memory1",
    ]
    backends = [word for word in words if word.startswith("memory-backend-ram,")]
    assert len(backends) == 2
    assert words[words.index("-m") + 1] == str(vm_qemu.NODES * vm_qemu.NODE_MB)


def test_the_disk_boots_by_its_own_loader(tmp_path: Path) -> None:
    assert not {"-kernel", "-initrd", "-append"} & set(vm_qemu.command_line(machine(tmp_path)))


def test_a_tap_name_fits_the_kernel_and_is_not_the_bridge(tmp_path: Path) -> None:
    long = vm_qemu.Machine("vm-01", tmp_path, "a-long-bridge-0", vm.MAC)
    assert len(long.tap) <= 15
    assert long.tap != long.bridge


def test_packages_are_valid_names_without_comments() -> None:
    argv = vm_image.mmdebstrap_argv(Path("/x/root"))
    include = next(word for word in argv if word.startswith("--include="))
    assert "#" not in include
    assert {"grub-pc", "openssh-server", "linux-image-cloud-amd64"} <= set(
        include.removeprefix("--include=").split(",")
    )


def test_digest_follows_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    before = vm_image.digest()
    assert before == vm_image.digest()
    monkeypatch.setattr(vm_image, "RECIPE", vm_image.RECIPE + 1)
    assert vm_image.digest() != before


def test_leftovers_of_a_killed_build_go_and_images_stay(tmp_path: Path) -> None:
    (tmp_path / "vm-build-1234" / "root").mkdir(parents=True)
    (tmp_path / "vm-abc.qcow2").touch()
    vm_image.clean_leftovers(tmp_path)
    assert not (tmp_path / "vm-build-1234").exists()
    assert (tmp_path / "vm-abc.qcow2").exists()


def test_status_of_a_machine_that_never_was(tmp_path: Path) -> None:
    assert vm.status(lab(tmp_path))["state"] == "absent"


def test_up_refuses_without_the_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabRefusal, match="qemu-system-x86, qemu-utils"):
        vm.up(lab(tmp_path))
    assert not (tmp_path / "home").exists()


def test_control_passes_over_events_and_raises_refusals(tmp_path: Path) -> None:
    here = machine(tmp_path)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(here.control))
    server.listen(1)
    answers = [
        '{"QMP": {}}\n',
        '{"return": {}}\n',
        '{"event": "STOP"}\n{"return": "done"}\n',
        '{"error": {"desc": "no such snapshot"}}\n',
    ]

    def serve() -> None:
        peer, _address = server.accept()
        with peer:
            for answer in answers:
                peer.sendall(answer.encode())
                peer.recv(4096)

    thread = threading.Thread(target=serve)
    thread.start()
    with vm_qemu.Control(here, limit=5) as control:
        assert control.monitor("loadvm x") == "done"
        with pytest.raises(LabError, match="no such snapshot"):
            control.execute("loadvm")
    thread.join()
    server.close()
