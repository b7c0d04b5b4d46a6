"""The role cann on a lab host with stand-ins of the 910B: both generations and environment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from ascend_lab import Ascend, converges, failed, good, lower, raise_host, refused

from vllm_fleet.lab.vendor_ascend import Installer

pytestmark = pytest.mark.lab

RUN = "Run the installer"
ENVIRONMENT = "Write the environment for units"


def release(version: str, operators: str) -> tuple[Installer, Installer, Installer]:
    parts = ("toolkit", operators, "nnal")
    toolkit, ops, nnal = (Installer(part, version) for part in parts)
    return toolkit, ops, nnal


NEW = release("9.1.0", "ops")
MIDDLE = release("8.5.1", "ops")
OLD = release("8.3.RC2", "kernels")
OTHER_CHIP = Installer("ops", "9.1.0", chip="310p")
FLAGS = "--nox11 --install --quiet --install-for-all"


@pytest.fixture(scope="module")
def asc() -> Iterator[Ascend]:
    """A host without CANN; its role accepts the licence and asks for little room."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    variables = {"cann_accept_eula": True, "cann_min_free_mb": 50}
    yield raise_host("asc-2", "cann", (*NEW, *MIDDLE, *OLD, OTHER_CHIP), variables)
    lower("asc-2")


def environment(asc: Ascend) -> str:
    """Return what a unit with the environment file sees."""
    return asc.told(
        "systemd-run --quiet --pipe --wait -p EnvironmentFile=/etc/vllm-fleet/ascend.env env"
    )


def test_without_packages_nothing_happens(asc: Ascend) -> None:
    assert good(asc.run().apply()).changed == []


def test_check_mode_on_a_blank_host(asc: Ascend) -> None:
    predicted = good(asc.run(*NEW).check())
    assert predicted.changed.count(RUN) == 3
    assert predicted.changed.count("Download the installer") == 3
    assert ENVIRONMENT in predicted.changed


def test_what_does_not_fit_is_refused_before_anything_is_touched(asc: Ascend) -> None:
    message = refused(asc.run(*NEW, cann_accept_eula=False))
    assert "cann_accept_eula is false" in message
    assert "Ascend-cann-nnal_9.1.0" in message
    assert "is for the chip 310p" in refused(asc.run(NEW[0], OTHER_CHIP))
    assert "the toolkit of 9.1.0" in refused(asc.run(NEW[0], MIDDLE[1]))
    assert "names no toolkit" in refused(asc.run(NEW[1]))
    asc.remote.write(
        "/etc/ascend_install.info",
        "Driver_Install_Type=full\nDriver_Install_Path_Param=/usr/local/Ascend\n",
    )
    asc.remote.write("/usr/local/Ascend/driver/version.info", "package_version=25.0.0\n")
    assert "driver 25.0.0 does not work with CANN 9.1.0" in refused(asc.run(*NEW))
    asc.forget()
    assert asc.calls() == []


def test_too_little_room_and_a_wrong_checksum_run_nothing(asc: Ascend) -> None:
    assert "MB free" in failed(asc.run(*NEW, cann_min_free_mb=10**9))
    wrong = [{**asc.package(NEW[0]), "sha256": "0" * 64}]
    assert "checksum" in failed(asc.run(cann_packages=wrong))
    assert asc.calls() == []


def test_the_older_generation(asc: Ascend) -> None:
    assert good(asc.run(*OLD).check()).changed.count(RUN) == 3
    converges(asc.run(*OLD))
    assert asc.calls() == [f"{part} 8.3.RC2 {FLAGS}" for part in ("toolkit", "kernels", "nnal")]
    assert "ASCEND_HOME_PATH=/usr/local/Ascend/ascend-toolkit/latest" in environment(asc)


def test_the_newer_generation_beside_it(asc: Ascend) -> None:
    predicted = good(asc.run(*MIDDLE).check())
    assert predicted.changed.count(RUN) == 3
    converges(asc.run(*MIDDLE))
    seen = environment(asc)
    assert "ASCEND_HOME_PATH=/usr/local/Ascend/cann\n" in seen
    assert "ATB_HOME_PATH=/usr/local/Ascend/nnal/atb/latest" in seen
    paths = next(row for row in seen.splitlines() if row.startswith("LD_LIBRARY_PATH="))
    assert "" not in paths.split("=")[1].split(":")


def test_an_upgrade(asc: Ascend) -> None:
    before = len(asc.calls())
    assert ENVIRONMENT not in converges(asc.run(*NEW)).changed
    upgrade = "--nox11 --upgrade --quiet --install-for-all"
    assert asc.calls()[before:] == [
        f"toolkit 9.1.0 {upgrade}",
        f"ops 9.1.0 {FLAGS}",
        f"nnal 9.1.0 {upgrade}",
    ]
    assert asc.told("readlink -f /usr/local/Ascend/cann") == "/usr/local/Ascend/cann-9.1.0"


def test_an_older_version_needs_removal_first_and_no_network(asc: Ascend) -> None:
    """The installers of the version before were kept, so that the mirror need not have them."""
    before = len(asc.calls())
    gone = asc.run(
        cann_packages=[
            {**asc.package(item), "src": asc.package(item)["src"].replace("ascend/", "gone/")}
            for item in MIDDLE
        ]
    )
    done = good(gone.apply())
    assert done.changed.count(RUN) == 4
    assert asc.calls()[before] == "cann uninstall /usr/local/Ascend/cann-9.1.0"
    assert asc.told("readlink -f /usr/local/Ascend/cann") == "/usr/local/Ascend/cann-8.5.1"
    assert good(gone.apply()).changed == []


def test_an_installer_that_fails(asc: Ascend) -> None:
    asc.fault("diskfull")
    message = failed(asc.run(*NEW))
    assert "the installer of the toolkit failed: the disk is full" in message
    asc.fault("")


def test_engines_stop_before_and_start_after(asc: Ascend) -> None:
    asc.remote.write("/etc/systemd/system/vllm@.service", "[Service]\nExecStart=/bin/sleep 9999\n")
    asc.told("systemctl daemon-reload && systemctl start vllm@r1")
    first = asc.told("systemctl show -p MainPID --value vllm@r1")
    done = good(asc.run(*NEW).apply())
    assert "Stop the engines, which use CANN" in done.changed
    assert "Start the engines that were stopped" in done.changed
    assert asc.told("systemctl show -p MainPID --value vllm@r1") != first
    assert asc.told("systemctl is-active vllm@r1") == "active"


def test_engines_stay_stopped_while_a_reboot_is_pending(asc: Ascend) -> None:
    boot = asc.told("cat /proc/sys/kernel/random/boot_id")
    place = "/var/lib/vllm-fleet/pending-reboot.d/ascend-driver.json"
    asc.remote.write(place, json.dumps({"schema": 1, "reason": "x", "boot_id": boot}))
    good(asc.run(*MIDDLE).apply())
    assert asc.told("systemctl is-active vllm@r1 || true") == "inactive"
    asc.told(f"rm {place}")
    assert good(asc.run(*MIDDLE).apply()).changed == ["Start the engines that were stopped"]
    assert asc.told("systemctl is-active vllm@r1") == "active"


def test_removal(asc: Ascend) -> None:
    run = asc.run(cann_state="absent", cann_accept_eula=False)
    converges(run)
    asc.told(
        "test ! -e /usr/local/Ascend/cann && test ! -e /usr/local/Ascend/nnal"
        " && test ! -e /usr/local/Ascend/ascend-toolkit/latest"
        " && test ! -e /etc/vllm-fleet/ascend.env"
    )
