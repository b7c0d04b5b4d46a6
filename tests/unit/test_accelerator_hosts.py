"""Hosts as files in a folder, and tools that answer, hang, or are not there."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    disks,
    doctor_host,
    hardware,
    hostread,
    kernel_build,
    npu_host,
    nvidia_host,
    pci,
    rdma,
    tools,
)

FIXTURES = Path(__file__).parents[1] / "fixtures"
SMI = "/usr/local/sbin/npu-smi"


class Answers:
    """Stands in for the tools: what each command line answers, with and without variables."""

    def __init__(self, answers: dict[str, tuple[int | None, str]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def run(
        self, argv: list[str], limit: float = 0, environment: dict[str, str] | None = None
    ) -> tuple[int | None, str]:
        words = " ".join(argv)
        self.asked.append(words)
        bare = self.answers.get("bare " + words) if not environment else None
        return bare or self.answers.get(words, (1, ""))


def npu(name: str) -> str:
    return (FIXTURES / "npu_smi" / f"{name}.txt").read_text(encoding="utf-8")


def host(root: Path, files: dict[str, str], modes: dict[str, int] | None = None) -> hostread.Host:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, mode in (modes or {}).items():
        (root / name.lstrip("/")).chmod(mode)
    return hostread.Host(str(root))


@pytest.fixture
def smi(tmp_path: Path) -> hostread.Host:
    return host(tmp_path, {SMI: "#!/bin/sh\n"}, {SMI: 0o755})


def test_br_12_absent(tmp_path: Path) -> None:
    found = npu_host.smi(host(tmp_path, {}), Answers({}))
    assert (found["state"], found["path"], found["devices"]) == ("absent", "", [])


def test_br_12_present_and_works_only_with_the_drivers_variables(smi: hostread.Host) -> None:
    answers = {
        f"bare {SMI} info": (127, npu("error-library")),
        f"{SMI} info": (0, npu("a2-910b4-25.0.rc1.1")),
        f"{SMI} info -t board -i 0": (0, npu("sub-board-a2")),
    }
    found = npu_host.smi(smi, Answers(answers))
    assert (found["state"], found["needs_environment"]) == ("good", True)
    assert found["board"]["firmware"] == "7.1.0.4.218"


def test_br_12_present_and_broken_whatever_is_tried(smi: hostread.Host) -> None:
    found = npu_host.smi(smi, Answers({f"{SMI} info": (127, npu("error-library"))}))
    assert (found["state"], found["failure"]["code"]) == ("broken", "libdrvdsmi_host.so")


def test_a_directory_a_dead_link_and_a_plain_file_are_broken(tmp_path: Path) -> None:
    place = tmp_path / SMI.lstrip("/")
    place.mkdir(parents=True)
    said = [npu_host.smi(hostread.Host(str(tmp_path)), Answers({}))["failure"]["said"]]
    place.rmdir()
    place.symlink_to("/nowhere")
    said.append(npu_host.smi(hostread.Host(str(tmp_path)), Answers({}))["failure"]["said"])
    assert said == ["it is a directory", "it is a link to nothing"]


def test_sick_chips_are_asked_one_by_one(smi: hostread.Host) -> None:
    asked = Answers(
        {
            f"{SMI} info": (0, npu("unhealthy-warning-25.2.0")),
            f"{SMI} info -t health -i 1 -c 0": (0, npu("sub-health-alarm")),
        }
    )
    found = npu_host.smi(smi, asked)
    assert found["health"] == {"1.0": ["0x80E01801", "0x80CB8009"]}
    assert found["board"] is None
    assert len([words for words in asked.asked if "health" in words]) == 1


def test_nvidia_smi_and_its_versions(tmp_path: Path) -> None:
    tool = "/usr/bin/nvidia-smi"
    loaded = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release\n"
    files = {
        tool: "", "/usr/sbin/modinfo": "", "/proc/driver/nvidia/version": loaded,
        "/usr/lib64/libnvidia-ml.so.580.95.05": "", "/usr/lib64/libnvidia-ml.so.580.159.04": "",
        "/usr/lib64/libnvidia-ml.so.1": "",
    }  # fmt: skip
    machine = host(tmp_path, files, {tool: 0o755, "/usr/sbin/modinfo": 0o755})
    xml = (FIXTURES / "nvidia_smi/h200x2-580.159.04-query.xml").read_text(encoding="utf-8")
    topology = (FIXTURES / "nvidia_smi/h200x2-580.159.04-topo.txt").read_text(encoding="utf-8")
    answers = {f"{tool} -q -x": (14, xml), f"{tool} topo -m": (0, topology)}
    answers["/usr/sbin/modinfo -F version nvidia"] = (0, "580.159.04\n")
    found = nvidia_host.smi(machine, Answers(answers))
    assert (found["state"], found["rc"], len(found["gpus"])) == ("good", 14, 2)
    assert found["topology"]["devices"]["GPU0"]["links"] == {"GPU1": "NV18"}
    versions = nvidia_host.versions(machine, Answers(answers), "x86_64")
    assert [versions[name] for name in ("loaded", "on_disk", "user_space")] == ["580.159.04"] * 3
    assert versions["open"] is True


def test_accelerators_by_vendor_and_class_with_an_unknown_node(tmp_path: Path) -> None:
    rows = {
        "0000:c1:00.0": ("0x19e5", "0xd802", "0x120000", "-1"),
        "0000:c2:00.0": ("0x19e5", "0x1822", "0x020000", "0"),
        "0000:3b:00.0": ("0x10de", "0x2335", "0x030200", "1"),
        "0000:3b:00.1": ("0x10de", "0x10fa", "0x040300", "1"),
        "0000:b0:00.0": ("0x10de", "0x22a3", "0x068000", "1"),
        "0000:00:1f.0": ("0x8086", "0xa1c1", "0x060100", "0"),
    }
    names = ("vendor", "device", "class", "numa_node")
    files = {
        f"{pci.DEVICES}/{address}/{name}": f"{value}\n"
        for address, values in rows.items()
        for name, value in zip(names, values, strict=True)
    }
    found = {row["address"]: row for row in pci.devices(host(tmp_path, files))}
    kinds = {address: row["kind"] for address, row in found.items()}
    assert kinds == {
        "0000:c1:00.0": "npu", "0000:c2:00.0": "network", "0000:3b:00.0": "gpu",
        "0000:b0:00.0": "nvswitch",
    }  # fmt: skip
    assert found["0000:c1:00.0"]["numa_node"] is None
    assert found["0000:3b:00.0"]["pci"] == "10de:2335"


def test_br_21_headers_of_other_kernels(tmp_path: Path) -> None:
    files = {
        "/usr/src/kernels/5.10.0-153/Makefile": "",
        "/usr/src/linux-headers-6.1.0-18-amd64/Makefile": "",
        "/usr/src/linux-headers-6.1.0-18-common/Makefile": "",
    }
    machine = host(tmp_path, files)
    found = kernel_build.headers(machine, "5.10.0-136.12.0.86")
    assert (found["matching"], found["modules"]) == (False, False)
    assert found["others"] == ["5.10.0-153", "6.1.0-18-amd64"]
    host(tmp_path, {"/lib/modules/5.10.0-136.12.0.86/build/Makefile": ""})
    assert kernel_build.headers(machine, "5.10.0-136.12.0.86")["matching"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Linux version 5.10.0 (abuild@x) (gcc_old (GCC) 10.3.1, GNU ld 2.37) #1 SMP", "10.3.1"),
        ("Linux version 6.1.0-18 (x@y) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld) #1", "12.2.0"),
        ("Linux version 4.19.90 (x@y) (gcc version 7.3.0 (GCC)) #1 SMP", "7.3.0"),
        ("Linux version 6.6 (clang version 17.0.1)", ""),
    ],
)
def test_the_compiler_of_the_kernel(text: str, version: str) -> None:
    assert kernel_build.kernel_compiler(text) == version


def test_links_and_their_nodes(tmp_path: Path) -> None:
    base = "/sys/class/infiniband/mlx5_0"
    files = {
        f"{base}/ports/1/state": "1: DOWN\n", f"{base}/ports/1/phys_state": "3: Disabled\n",
        f"{base}/ports/1/link_layer": "Ethernet\n", f"{base}/ports/1/rate": "100 Gb/sec\n",
        f"{base}/device/numa_node": "-1\n", f"{base}/device/net/eth2/x": "",
        "/sys/class/net/eth2/device/numa_node": "1\n", "/sys/class/net/eth2/operstate": "down\n",
        "/sys/class/net/eth2/speed": "-1\n", "/sys/class/net/eth2/mtu": "1500\n",
        "/sys/class/net/lo/mtu": "65536\n",
    }  # fmt: skip
    machine = host(tmp_path, files)
    (port,) = rdma.links(machine)
    assert (port["state"], port["numa_node"], port["interfaces"]) == ("DOWN", None, ["eth2"])
    (card,) = rdma.interfaces(machine)
    assert (card["name"], card["speed"], card["numa_node"]) == ("eth2", None, 1)


def test_mounts_and_rooms(tmp_path: Path) -> None:
    text = (
        "/dev/sda1 / ext4 rw,relatime 0 0\noverlay /opt overlay ro,x 0 0\n"
        "server:/x /var/lib/vllm nfs4 rw 0 0\ntmpfs /opt tmpfs rw 0 0\n"
        "/dev/b /a\\040b ext4 rw 0 0\n"
    )
    mounts = disks.parse_mounts(text)
    assert disks.mount_of("/opt/vllm", mounts)["type"] == "tmpfs"
    assert disks.mount_of("/usr/local", mounts)["path"] == "/"
    assert mounts[-1]["path"] == "/a b"
    machine = host(tmp_path, {"/proc/self/mounts": text, "/opt/x": "", "/var/log/x": ""})
    rows = {row["mount"]: row for row in disks.rooms(machine)}
    assert sorted(rows) == ["/", "/opt", "/var/lib/vllm"]
    assert rows["/var/lib/vllm"]["size"] is None
    assert rows["/"]["size"] > 0


def test_an_empty_host_is_no_crash(tmp_path: Path) -> None:
    found = hardware.collect(hostread.Host(str(tmp_path)), Answers({}))
    assert json.dumps(found)
    assert found["pci"] == []


def test_a_whole_examination_of_an_empty_host(tmp_path: Path) -> None:
    found = doctor_host.collect(hostread.Host(str(tmp_path)), Answers({}), {})
    assert json.dumps(found)
    assert (found["instances"], found["units"], found["hugepages"]) == ([], [], [])


def test_instances_releases_settings_and_reboots(tmp_path: Path) -> None:
    site = "/opt/vllm/releases/abc/lib/python3.11/site-packages"
    files = {
        "/proc/sys/kernel/random/boot_id": "boot-1\n",
        "/var/lib/vllm-fleet/pending-reboot.d/a.json": '{"reason": "pages", "boot_id": "boot-1"}',
        "/var/lib/vllm-fleet/pending-reboot.d/b.json": '{"reason": "old", "boot_id": "boot-0"}',
        "/var/lib/vllm-fleet/pending-reboot.d/c.json": "{broken",
        "/run/reboot-required.pkgs": "linux-image\nlibc6\n",
        "/run/reboot-required": "",
        doctor_host.HUGEPAGES: "w /sys/kernel/mm/x - - - - 512\n",
        "/sys/kernel/mm/x": "301\n",
        doctor_host.SYSCTL: "vm.swappiness = 0\n",
        "/etc/sysctl.d/99-other.conf": "vm.swappiness=60\n",
        "/proc/sys/vm/swappiness": "0\n",
        f"{doctor_host.INSTANCES}/one.env": "RELEASE=/opt/vllm/releases/abc\n",
        f"{site}/torch-2.9.0.dist-info/METADATA": "",
        f"{site}/vllm_ascend/_build_info.py": "__device_type__ = 'A2'\n",
        "/etc/systemd/system/timers.target.wants/apt-daily-upgrade.timer": "",
        "/etc/systemd/system/timers.target.wants/dnf-automatic.timer": "",
        "/etc/dnf/plugins/versionlock.list": "# held\nnvidia-driver-*\n",
        "/var/lib/dpkg/status": "Package: cuda\nStatus: hold ok installed\n",
    }
    machine = host(tmp_path, files)
    reboot = doctor_host.reboot(machine)
    assert reboot == {"reasons": ["pages"], "system": True, "packages": ["libc6", "linux-image"]}
    (pool,) = doctor_host.hugepages(machine)
    assert (pool["wanted"], pool["seen"]) == (512, 301)
    (setting,) = doctor_host.sysctl(machine)
    assert (setting["running"], setting["persisted"]) == ("0", "60")
    assert setting["file"] == "/etc/sysctl.d/99-other.conf"
    (instance,) = doctor_host.instances(machine)
    assert (instance["release"], instance["ascend_environment"]) == ("abc", False)
    (release,) = doctor_host.releases(machine)
    assert release["packages"] == {"torch": "2.9.0"}
    assert (release["built_for"], release["complete"]) == ("A2", False)
    updates = doctor_host.updates(machine)
    # Debian enables its timer everywhere; only the setting makes it install anything.
    assert updates["timers"] == ["dnf-automatic.timer"]
    assert updates["holds"] == ["cuda", "nvidia-driver-*"]
    host(tmp_path, {"/etc/apt/apt.conf.d/20auto": 'APT::Periodic::Unattended-Upgrade "1";\n'})
    assert "apt-daily-upgrade.timer" in doctor_host.updates(machine)["timers"]


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_tool_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    tool = script(tmp_path / "tool", f"sleep 300 & echo $! > {child}; echo begun; wait")
    began = time.monotonic()
    rc, text = tools.Tools().run([tool], limit=0.5)
    assert (rc, text) == (None, "begun\n")
    assert time.monotonic() - began < 20
    assert not is_alive(int(child.read_text(encoding="utf-8")))


def is_alive(pid: int) -> bool:
    """Say whether a process runs (one that is dead and not yet collected does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_br_09_tools_speak_english_and_know_their_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LANG", "LANGUAGE", "LC_ALL"):
        monkeypatch.setenv(name, "zh_CN.GB18030")
    monkeypatch.setenv("LD_PRELOAD_TEST", "x")
    tool = script(tmp_path / "tool", "/usr/bin/env")
    rc, text = tools.Tools().run([tool], environment={"LD_LIBRARY_PATH": "/x"})
    seen = dict(line.split("=", 1) for line in text.splitlines())
    assert rc == 0
    assert (seen["LC_ALL"], seen["LANGUAGE"], seen["LD_LIBRARY_PATH"]) == ("C", "C", "/x")
    assert "LANG" not in seen
    assert "LD_PRELOAD_TEST" not in seen


def test_tools_that_cannot_be_started_and_a_budget_that_is_spent(tmp_path: Path) -> None:
    runner = tools.Tools()
    assert runner.run([str(tmp_path / "none")])[0] == 127
    plain = tmp_path / "plain"
    plain.write_text("x", encoding="utf-8")
    if os.geteuid() != 0 or not os.access(plain, os.X_OK):
        assert runner.run([str(plain)])[0] == 126
    rc, text = tools.Tools(budget=0).run(["/bin/true"])
    assert rc is None
    assert "not asked" in text


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    tool = script(tmp_path / "tool", r"printf '\377\376ok\n'; exit 3")
    rc, text = tools.Tools().run([tool])
    assert rc == 3
    assert text.endswith("ok\n")
