"""The role nvidia_driver on lab hosts with stand-in software: by runfile and by packages.

The tests of each host run in order. What is stood in for: vllm_fleet/lab/vendor_nvidia.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from harness import RoleRun, RunResult
from remote import Remote

pytestmark = pytest.mark.lab

MIRROR = "http://10.213.0.1:8213/vendor/nvidia"
OLD, EARLIER, LATER = "535.183.01", "580.65.06", "580.95.05"
PENDING = "/var/lib/vllm-fleet/pending-reboot.d/nvidia-driver.json"
SETTLE = "Have the driver run, and verify it"
FAULT = "/etc/vllm-fleet-lab/nvidia-installer.fault"
DRACUT = """\
#!/bin/sh
# Stand-in: keeps a log of its calls, and makes the image new.
echo "$@" >> /run/dracut.log
touch "$2"
"""
ENGINE = """\
[Service]
ExecStart=/bin/sh -c 'exec sleep infinity 3</dev/nvidia0'
"""
STUCK = "/etc/vllm-fleet-lab/nvidia-module-stuck"


def raised(lab_host: Callable[..., Any], name: str, persona: str) -> Remote:
    """Return a blank host with two A100 and a kernel that knows the stand-in module."""
    from vllm_fleet.lab import api, settings, vendor_nvidia

    api.up({name: persona}, hardware="two-a100")
    host = lab_host(name, persona)
    api.reset([name])
    lab = settings.current()
    vendor_nvidia.ensure(lab)
    vendor_nvidia.install_kernel(lab, name)
    return Remote(name, host.inventory)


@pytest.fixture(scope="module")
def sums() -> dict[str, str]:
    """Return the checksums of the runfiles in the mirror."""
    from vllm_fleet.lab import settings, vendor_nvidia

    text = (vendor_nvidia.ensure(settings.current()) / "runfiles/SHA256SUMS").read_text()
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


@pytest.fixture(scope="module")
def kylin(lab_host: Callable[..., Any]) -> Remote:
    return raised(lab_host, "nv-1", "kylin-v10-sp3")


@pytest.fixture(scope="module")
def el8(lab_host: Callable[..., Any]) -> Remote:
    return raised(lab_host, "nv-2", "el8")


@pytest.fixture(scope="module")
def ubuntu(lab_host: Callable[..., Any]) -> Remote:
    return raised(lab_host, "nv-3", "ubuntu-22.04")


def role(remote: Remote, version: str, **options: Any) -> RoleRun:
    more = {f"nvidia_driver_{name}": value for name, value in options.items()}
    variables = {"nvidia_driver_version": version, "nvidia_driver_accept_eula": True, **more}
    return RoleRun(remote.name, remote.inventory, "nvidia_driver", variables)


def by_runfile(remote: Remote, sums: dict[str, str], version: str, **options: Any) -> RoleRun:
    name = f"NVIDIA-Linux-x86_64-{version}.run"
    given = {"runfile": f"{MIRROR}/runfiles/{name}", "runfile_sha256": sums[name], **options}
    return role(remote, version, **given)


def by_packages(remote: Remote, version: str, **options: Any) -> RoleRun:
    given = {"repository_url": f"{MIRROR}/repos", "repository_gpgcheck": False, **options}
    return role(remote, version, **given)


def good(run: RunResult) -> RunResult:
    assert run.ok, run.output
    return run


def refused(run: RoleRun) -> str:
    """Return the last message of a run that must fail."""
    result = run.apply()
    assert not result.ok, result.output
    return result.failed[-1][1]


def with_variables(run: RoleRun, **options: Any) -> RoleRun:
    more = {f"nvidia_driver_{name}": value for name, value in options.items()}
    return replace(run, variables={**run.variables, **more})


def running(remote: Remote) -> str:
    """Return the version of the module that runs."""
    words = (
        "sed -n 's/.* \\([0-9.]*\\)  Release.*/\\1/p' /proc/driver/nvidia/version 2>/dev/null || :"
    )
    return remote.told(words)


def installed(remote: Remote) -> str:
    return remote.told("modinfo -F version nvidia || :")


def settled(run: RunResult) -> dict[str, Any]:
    return next(task.result for task in reversed(run.tasks) if task.task == SETTLE)


# -- by runfile, on a host without a repository --------------------------------------------------


def test_bad_input_is_refused_on_a_blank_host(kylin: Remote, sums: dict[str, str]) -> None:
    run = by_runfile(kylin, sums, LATER)
    for message, options in {
        "nvidia_driver_accept_eula is false": {"accept_eula": False},
        "quote it": {"version": 580.95},
        "NVIDIA publishes for SP3-2403 only": {"source": "repository"},
        "nvidia_driver_runfile must be the URL or path": {"runfile": ""},
        "lacks nvidia_driver_version 535.183.01": {"version": OLD},
        "64 hexadecimal digits": {"runfile_sha256": "12"},
    }.items():
        result = with_variables(run, **options).apply()
        assert not result.ok, result.output
        assert message in result.failed[-1][1]
        assert result.changed == []
    ended = by_runfile(kylin, sums, OLD, ended_branch="refuse")
    assert "branch 535 ended in 2026-06" in refused(ended)
    assert running(kylin) == ""


def test_missing_headers_are_named(kylin: Remote, sums: dict[str, str]) -> None:
    """BR-21: the package wanted, the kernel that runs, and the headers that there are."""
    kernel = kylin.told("uname -r")
    kylin.write("/usr/src/kernels/4.19.90-1127.ky10.x86_64/Makefile", "")
    kylin.told("mkdir /etc/kept && mv /etc/yum.repos.d/*.repo /etc/kept")
    message = refused(by_runfile(kylin, sums, LATER))
    kylin.told("mv /etc/kept/*.repo /etc/yum.repos.d")
    assert f"needs the package kernel-devel-{kernel}" in message
    assert "4.19.90-1127.ky10.x86_64" in message
    assert installed(kylin) == ""


def test_br_30_check_mode_leaves_the_boot_files(kylin: Remote, sums: dict[str, str]) -> None:
    image = f"/boot/initramfs-{kylin.told('uname -r')}.img"
    kylin.write(image, "image")
    kylin.told(f"touch -d 2020-01-01 {image}")
    kylin.write("/usr/local/sbin/dracut", DRACUT, "0755")
    before = kylin.told(f"stat -c %y {image}; sha256sum {image}")
    assert (
        "Keep the kernel from loading nouveau"
        in good(by_runfile(kylin, sums, LATER).check()).changed
    )
    assert kylin.told(f"stat -c %y {image}; sha256sum {image}") == before
    assert kylin.told("ls /run/dracut.log 2>/dev/null || :") == ""


def test_a_wrong_checksum_changes_nothing(kylin: Remote, sums: dict[str, str]) -> None:
    message = refused(by_runfile(kylin, sums, LATER, runfile_sha256="0" * 64))
    assert "wrong checksum" in message
    assert "no driver is installed" in message
    assert installed(kylin) == ""


def test_failing_installer_is_repaired(kylin: Remote, sums: dict[str, str]) -> None:
    kylin.write(FAULT, "fail")
    message = refused(by_runfile(kylin, sums, LATER))
    assert "the driver's installer ended with 1" in message
    assert "Building kernel modules" in message
    assert "the running kernel has no module" in message
    kylin.write(FAULT, "killed")
    assert "killed by signal 9" in refused(by_runfile(kylin, sums, LATER))
    kylin.write(FAULT, "hang")
    assert "did not end within 3 s" in refused(by_runfile(kylin, sums, LATER, install_timeout=3))
    kylin.told(f"rm {FAULT}")


def test_runfile_converges(kylin: Remote, sums: dict[str, str]) -> None:
    run = by_runfile(kylin, sums, EARLIER)
    checked = good(run.check())
    assert "Run the installer" in checked.changed
    assert "Run the installer" in good(run.apply()).changed
    assert running(kylin) == installed(kylin) == EARLIER
    assert kylin.told("systemctl is-active nvidia-persistenced") == "active"
    assert kylin.told("wc -l < /run/dracut.log") == "1"
    assert "blacklist nouveau" in kylin.told("cat /etc/modprobe.d/vllm-fleet-nouveau.conf")
    assert good(run.check()).changed == []
    assert good(run.apply()).changed == []
    assert good(with_variables(run, accept_eula=False).apply()).changed == []


def test_upgrade_in_place(kylin: Remote, sums: dict[str, str]) -> None:
    assert "Run the installer" in good(by_runfile(kylin, sums, LATER).apply()).changed
    assert running(kylin) == installed(kylin) == LATER


def test_downgrade_really_downgrades(kylin: Remote, sums: dict[str, str]) -> None:
    """BR-23; the runfile is the kept one."""
    gone = by_runfile(kylin, sums, EARLIER)
    good(gone.apply())
    assert running(kylin) == installed(kylin) == EARLIER
    kept = kylin.told("ls /var/lib/vllm-fleet/nvidia")
    assert EARLIER in kept
    assert LATER in kept


def test_work_on_the_devices_is_not_interrupted(kylin: Remote, sums: dict[str, str]) -> None:
    kylin.told(
        "touch /dev/nvidia0 && systemd-run --unit=work sh -c 'exec sleep 600 3</dev/nvidia0'"
    )
    message = refused(by_runfile(kylin, sums, LATER))
    kylin.told("systemctl stop work")
    assert "the driver is in use by" in message
    assert "(sleep)" in message
    assert running(kylin) == EARLIER


def test_old_module_that_stays_is_a_pending_reboot(kylin: Remote, sums: dict[str, str]) -> None:
    """BR-19, BR-31: not absent, not mixed; no reboot that nobody allowed."""
    kylin.write(STUCK, "")
    skip = ["--allow-installation-with-running-driver", "--skip-module-load"]
    run = by_runfile(kylin, sums, LATER, runfile_arguments=skip)
    done = good(run.apply())
    assert settled(done)["state"] == "reboot_pending"
    assert settled(done)["reboot_required"]
    words = f"driver upgraded, reboot pending: {LATER} is installed, module {EARLIER} still runs"
    assert words in kylin.told(f"cat {PENDING}")
    again = good(run.apply())
    assert again.changed == []
    assert settled(again)["reboot_required"]
    assert good(run.check()).changed == []


def test_one_allowed_reboot_brings_the_new_module(kylin: Remote, sums: dict[str, str]) -> None:
    boot = kylin.told("cat /proc/sys/kernel/random/boot_id")
    run = by_runfile(kylin, sums, LATER, reboot_ok=True)
    done = good(run.apply())
    assert "Reboot the host" in done.changed
    assert running(kylin) == LATER
    assert kylin.told("cat /proc/sys/kernel/random/boot_id") != boot
    assert kylin.told(f"ls {PENDING} 2>/dev/null || :") == ""
    kylin.told(f"rm -f {STUCK}")
    assert good(run.apply()).changed == []


def test_removal(kylin: Remote, sums: dict[str, str]) -> None:
    run = by_runfile(kylin, sums, LATER, state="absent")
    assert good(run.check()).changed != []
    good(run.apply())
    assert installed(kylin) == running(kylin) == ""
    assert good(run.apply()).changed == []


def test_loaded_nouveau_takes_one_reboot(kylin: Remote, sums: dict[str, str]) -> None:
    kylin.told("mkdir /run/vllm-fleet-lab-nvidia/module/nouveau")
    run = by_runfile(kylin, sums, EARLIER)
    done = good(run.apply())
    assert settled(done)["state"] == "not_loaded"
    assert settled(done)["why"] == "nouveau is loaded"
    assert "nouveau is loaded" in kylin.told(f"cat {PENDING.replace('driver', 'nouveau')}")
    assert good(run.apply()).changed == []
    done = good(with_variables(run, reboot_ok=True).apply())
    assert done.changed.count("Reboot the host") == 1
    assert running(kylin) == EARLIER
    assert kylin.told("ls /var/lib/vllm-fleet/pending-reboot.d") == ""


# -- by packages ---------------------------------------------------------------------------------


def test_module_stream_on_el8(el8: Remote) -> None:
    run = by_packages(el8, EARLIER)
    checked = good(run.check())
    assert "Install the packages of the driver" in checked.changed
    good(run.apply())
    assert running(el8) == installed(el8) == EARLIER
    assert "stream=580-open" in el8.told("cat /etc/dnf/modules.d/nvidia-driver.module")
    assert good(run.check()).changed == []
    assert good(run.apply()).changed == []


def test_held_packages_on_el8(el8: Remote) -> None:
    """BR-20: an upgrade that nobody asked for leaves the driver alone, and ours does not."""
    el8.told("dnf -q -y upgrade")
    assert installed(el8) == EARLIER
    good(by_packages(el8, LATER).apply())
    assert running(el8) == installed(el8) == LATER


def test_downgrade_to_another_stream_on_el8(el8: Remote) -> None:
    """BR-23."""
    run = by_packages(el8, OLD)
    done = good(run.apply())
    assert running(el8) == installed(el8) == OLD
    assert "branch 535 ended in 2026-06" in done.output
    assert good(run.apply()).changed == []


def test_fabric_manager_has_the_drivers_version(el8: Remote) -> None:
    run = by_packages(el8, OLD, fabric_manager="on")
    good(run.apply())
    assert OLD in el8.told("nv-fabricmanager --version")
    assert el8.told("systemctl is-active nvidia-fabricmanager") == "active"
    assert good(run.apply()).changed == []


def test_removal_on_el8(el8: Remote) -> None:
    run = by_packages(el8, OLD, state="absent")
    good(run.apply())
    assert installed(el8) == running(el8) == ""
    assert good(run.apply()).changed == []


def test_packages_on_ubuntu(ubuntu: Remote) -> None:
    run = by_packages(ubuntu, EARLIER)
    assert "Install the packages of the driver on Debian and Ubuntu" in good(run.check()).changed
    good(run.apply())
    assert running(ubuntu) == installed(ubuntu) == EARLIER
    assert good(run.check()).changed == []
    assert good(run.apply()).changed == []
    held = ubuntu.told("apt-mark showhold").split()
    assert "nvidia-utils-580" in held


def test_stuck_module_on_ubuntu(ubuntu: Remote) -> None:
    """BR-19: packages upgraded under a module that stays."""
    ubuntu.write(STUCK, "")
    done = good(by_packages(ubuntu, LATER).apply())
    assert settled(done)["state"] == "reboot_pending"
    ubuntu.told(f"rm {STUCK}")
    done = good(by_packages(ubuntu, LATER).apply())
    assert settled(done)["state"] == "good"
    assert running(ubuntu) == LATER
    assert ubuntu.told(f"ls {PENDING} 2>/dev/null || :") == ""


def test_downgrade_stops_and_starts_the_engines(ubuntu: Remote) -> None:
    ubuntu.write("/etc/systemd/system/vllm@.service", ENGINE)
    ubuntu.told("touch /dev/nvidia0 && systemctl start vllm@r1")
    kept = by_packages(ubuntu, EARLIER, stop_engines=False)
    assert "the driver is in use by" in refused(kept)
    done = good(by_packages(ubuntu, EARLIER).apply())
    assert "Stop the engines" in done.changed
    assert "Start the engines again" in done.changed
    assert ubuntu.told("systemctl is-active vllm@r1") == "active"
    assert running(ubuntu) == installed(ubuntu) == EARLIER


def test_a_repository_that_does_not_answer(ubuntu: Remote) -> None:
    message = refused(by_packages(ubuntu, LATER, repository_url=f"{MIRROR}/none"))
    assert "got 404" in message
    assert "ubuntu2204/x86_64/Packages.gz" in message
