"""The role ascend_driver on a lab host with eight stand-ins of the 910B."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from ascend_lab import (
    DRIVER,
    DRIVER_310P,
    DRIVER_OLD,
    FIRMWARE,
    FIRMWARE_OLD,
    FIRMWARE_OTHER,
    HDK,
    STATE,
    Ascend,
    converges,
    failed,
    good,
    lower,
    raise_host,
    refused,
)

pytestmark = pytest.mark.lab

RUN = "Run the installer"
REBOOT = "Reboot the host"
PENDING = "/var/lib/vllm-fleet/pending-reboot.d"


@pytest.fixture(scope="module")
def asc() -> Iterator[Ascend]:
    """A host without Ascend software; its role accepts the licence."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    yield raise_host("asc-1", "ascend_driver", HDK, {"ascend_driver_accept_eula": True})
    lower("asc-1")


def boot(asc: Ascend) -> str:
    return asc.told("cat /proc/sys/kernel/random/boot_id")


def runs(asc: Ascend) -> str:
    return asc.told(f"cat {STATE}/running")


def test_check_mode_on_a_blank_host(asc: Ascend) -> None:
    predicted = good(asc.run(DRIVER, FIRMWARE).check())
    assert predicted.changed.count(RUN) == 2
    assert predicted.changed.count("Download the installer") == 2
    assert asc.calls() == []


def test_what_does_not_fit_is_refused_before_anything_is_touched(asc: Ascend) -> None:
    message = refused(asc.run(DRIVER, FIRMWARE, ascend_driver_accept_eula=False))
    assert "ascend_driver_accept_eula is false" in message
    assert "Host asc-1" in message
    assert "the host has Ascend 910B" in refused(asc.run(DRIVER_310P))
    nameless = [{"src": f"{asc.url}/driver.run", "sha256": "0" * 64}]
    message = refused(asc.run(ascend_driver_packages=nameless))
    assert "no file name of an Ascend package" in message
    unsummed = [{"src": asc.package(DRIVER)["src"]}]
    assert "no published SHA-256" in refused(asc.run(ascend_driver_packages=unsummed))
    assert "names no driver" in refused(asc.run(FIRMWARE))
    assert asc.calls() == []


def test_a_wrong_checksum_runs_nothing(asc: Ascend) -> None:
    wrong = [{**asc.package(DRIVER), "sha256": "0" * 64}]
    assert "checksum" in failed(asc.run(ascend_driver_packages=wrong))
    assert asc.calls() == []


def test_fresh_and_converged(asc: Ascend) -> None:
    asc.told("useradd --system vllm")
    run = asc.run(DRIVER, FIRMWARE)
    assert good(run.check()).changed.count(RUN) == 2
    assert asc.calls() == []
    asc.fault("active")
    first = converges(run)
    assert first.changed.count(RUN) == 2
    fresh = "--nox11 --full --quiet --install-for-all"
    assert asc.calls() == [f"driver 25.5.1 {fresh}", f"firmware 7.8.0.6.201 {fresh}"]
    assert "HwHiAiUser" in asc.told("id -nG vllm").split()
    assert asc.told("stat -c '%U %G %a' /dev/davinci7") == "HwHiAiUser HwHiAiUser 660"
    assert runs(asc) == "driver=25.5.1\nfirmware=7.8.0.6.201"
    asc.fault("")


def test_ranges_in_the_records_are_believed(asc: Ascend) -> None:
    message = refused(asc.run(DRIVER, FIRMWARE_OTHER))
    assert "driver 25.5.1 takes the firmware versions [7.0.0,7.8.99], not 9.0.0.0.205" in message


def test_devices_in_use_stop_the_run(asc: Ascend) -> None:
    asc.told(
        "nohup sh -c 'exec 9</dev/davinci3; exec sleep 600' >/dev/null 2>&1 </dev/null & "
        "echo $! >/run/holder"
    )
    message = failed(asc.run(DRIVER_OLD, FIRMWARE_OLD))
    assert "in use by sleep (pid" in message
    assert "/dev/davinci3" in message
    asc.told("kill $(cat /run/holder)")
    assert len(asc.calls()) == 2


def test_the_way_back_and_a_reboot_that_nobody_allowed(asc: Ascend) -> None:
    asc.remote.write(
        "/etc/systemd/system/vllm@.service",
        "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
    )
    asc.told("systemctl daemon-reload && systemctl enable --now vllm@r1")
    before = boot(asc)
    first = good(asc.run(DRIVER_OLD, FIRMWARE_OLD).apply())
    assert "must reboot: the Ascend driver 25.2.0 is installed" in first.output
    upgrade = "--nox11 --upgrade --quiet"
    assert asc.calls()[2:] == [f"firmware 7.7.0.6.236 {upgrade}", f"driver 25.2.0 {upgrade}"]
    assert boot(asc) == before
    record = json.loads(asc.told(f"cat {PENDING}/ascend-driver.json"))
    assert record["boot_id"] == before
    assert asc.told("systemctl is-active vllm@r1 || true") == "inactive"
    again = good(asc.run(DRIVER_OLD, FIRMWARE_OLD).apply())
    assert again.changed == []
    assert "must reboot" in again.output
    assert len(asc.calls()) == 4


def test_one_reboot_where_it_is_allowed(asc: Ascend) -> None:
    before = boot(asc)
    run = asc.run(DRIVER_OLD, FIRMWARE_OLD, ascend_driver_reboot_ok=True)
    first = good(run.apply())
    assert first.changed.count(REBOOT) == 1
    assert boot(asc) != before
    assert runs(asc) == "driver=25.2.0\nfirmware=7.7.0.6.236"
    assert asc.told("systemctl is-active vllm@r1") == "active"
    assert asc.told(f"ls {PENDING}") == ""
    assert good(run.apply()).changed == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("exit1", "it was given wrong parameters (ERR_NO:0x0004)"),
        ("killed", "it was killed (SIGKILL)"),
        ("diskfull", "the disk is full"),
        ("running", "another installation is running"),
        ("silent", "the vendor's records say 25.2.0, not 25.5.1"),
        ("hang", "did not end within the time limit"),
    ],
)
def test_an_installer_that_fails_is_told_by_its_cause(asc: Ascend, fault: str, words: str) -> None:
    asc.fault(fault)
    message = failed(asc.run(DRIVER, ascend_driver_timeout=5))
    assert words in message
    assert "/var/log/vllm-fleet/ascend-driver.log" in message
    asc.fault("")


def test_an_upgrade_ends_with_what_really_runs(asc: Ascend) -> None:
    run = asc.run(DRIVER, FIRMWARE, ascend_driver_reboot_ok=True)
    done = good(run.apply())
    assert done.changed.count(REBOOT) == 1
    assert runs(asc) == "driver=25.5.1\nfirmware=7.8.0.6.201"
    assert asc.told("systemctl is-active vllm@r1") == "active"


def test_module_and_user_space_apart(asc: Ascend) -> None:
    """An older version runs than the one installed, and no reboot helps."""
    asc.told(f"sed -i s/25.5.1/25.2.0/ {STATE}/running; echo old >{STATE}/boot")
    first = good(asc.run(DRIVER, FIRMWARE).apply())
    assert "driver 25.5.1 is installed and 25.2.0 runs" in first.output
    assert asc.told(f"ls {PENDING}") == "ascend.json"
    message = failed(asc.run(DRIVER, FIRMWARE, ascend_driver_reboot_ok=True))
    assert message == "after the reboot: driver 25.5.1 is installed and 25.2.0 runs"
    asc.told(f"rm {STATE}/boot; /usr/local/Ascend/driver/tools/lab-load")


def test_npus_that_do_not_answer_are_a_failure(asc: Ascend) -> None:
    asc.told(f"echo -8020 >{STATE}/devices")
    message = failed(asc.run(DRIVER, FIRMWARE))
    assert "the devices are in use by somebody else (-8020)" in message
    asc.told(f"echo noise >{STATE}/devices")
    good(asc.run(DRIVER, FIRMWARE).apply())
    assert good(asc.run(DRIVER, FIRMWARE).apply()).changed == []


def test_a_half_installed_driver_is_repaired(asc: Ascend) -> None:
    asc.forget()
    asc.fault("half")
    assert "Driver_ko_install failed" in failed(asc.run(DRIVER))
    asc.told("test -f /etc/ascend_install.info")
    asc.fault("")
    converges(asc.run(DRIVER))
    assert asc.calls()[-1].startswith("driver 25.5.1 --nox11 --full")


def test_removal(asc: Ascend) -> None:
    asc.fault("active")
    good(asc.run(DRIVER, FIRMWARE).apply())
    run = asc.run(ascend_driver_state="absent", ascend_driver_accept_eula=False)
    assert good(run.check()).changed != []
    converges(run)
    asc.told("test ! -e /etc/ascend_install.info && test ! -e /usr/local/Ascend/driver")
