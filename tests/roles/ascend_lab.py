"""What the tests of the Ascend roles share: a host with eight 910B, and the vendor's stand-ins."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from harness import RoleRun, RunResult
from remote import Remote

from vllm_fleet.lab import api, vendor_ascend
from vllm_fleet.lab.settings import current
from vllm_fleet.lab.vendor_ascend import Installer

MACHINE = os.uname().machine
PERSONA, HARDWARE = "openeuler-22.03-sp1", "kunpeng-920-910b"
STATE = "/var/lib/lab-ascend"

DRIVER = Installer("driver", "25.5.1", fits="[7.0.0,7.8.99]")
DRIVER_OLD = Installer("driver", "25.2.0", fits="[7.0.0,7.8.99]")
FIRMWARE = Installer("firmware", "7.8.0.6.201", fits="[25.0,25.0.],[25.5,25.5.]", release="25.5.1")
FIRMWARE_OLD = Installer("firmware", "7.7.0.6.236", fits="[24.1,25.5.]", release="25.2.0")
FIRMWARE_OTHER = Installer("firmware", "9.0.0.0.205", fits="[26.0,26.0.]", release="26.0.rc1")
DRIVER_310P = Installer("driver", "25.5.1", chip="310p", fits="[7.0.0,7.8.99]")
HDK = (DRIVER, DRIVER_OLD, FIRMWARE, FIRMWARE_OLD, FIRMWARE_OTHER, DRIVER_310P)


@dataclass(frozen=True)
class Ascend:
    """A host, its role run, and the checksums of the installers in the mirror."""

    role: RoleRun
    remote: Remote
    sums: dict[str, str]
    url: str

    def package(self, installer: Installer, **more: str) -> dict[str, str]:
        """Return the option that names one installer."""
        name = installer.name(MACHINE)
        return {"src": f"{self.url}/{name}", "sha256": self.sums[name], **more}

    def packages(self, *installers: Installer) -> dict[str, Any]:
        """Return the role's variable that names installers."""
        rows = [self.package(installer) for installer in installers]
        return {f"{self.role.role}_packages": rows}

    def run(self, *installers: Installer, **variables: Any) -> RoleRun:
        """Return the role's run with these installers."""
        named = self.packages(*installers) if installers else {}
        return replace(self.role, variables={**self.role.variables, **named, **variables})

    def told(self, command: str) -> str:
        return self.remote.told(command)

    def calls(self) -> list[str]:
        """Return part, version and flags of every installer that ran."""
        return self.told(f"cat {STATE}/calls 2>/dev/null || true").splitlines()

    def fault(self, word: str) -> None:
        """Have installers do what the word says; '' heals."""
        if word:
            self.remote.write(f"{STATE}/installer", word)
        else:
            self.told(f"rm -f {STATE}/installer")

    def reset(self) -> None:
        """Make the host a blank one."""
        api.reset([self.remote.name])

    def forget(self) -> None:
        """Remove the vendor's software by its own files, without the role."""
        self.told(
            "rm -rf /usr/local/Ascend /etc/ascend_install.info /usr/local/sbin/npu-smi /etc/Ascend "
            "/var/lib/lab-ascend /dev/davinci* /dev/devmm_svm /dev/hisi_hdc "
            "/etc/systemd/system/lab-ascend.service /var/lib/vllm-fleet /etc/vllm-fleet/ascend.env"
        )


def raise_host(
    name: str, role: str, installers: tuple[Installer, ...], variables: dict[str, Any]
) -> Ascend:
    """Bring up a blank host and put the installers into the mirror."""
    lab = current()
    raised = api.up({name: PERSONA}, hardware=HARDWARE)
    api.reset([name])
    sums = vendor_ascend.publish(lab, installers, MACHINE)
    url = f"{lab.mirror_url}/{vendor_ascend.SECTION}"
    run = RoleRun(name, raised.inventory, role, variables)
    return Ascend(run, Remote(name, raised.inventory), sums, url)


def good(run: RunResult) -> RunResult:
    assert run.ok, run.output
    return run


def refused(run: RoleRun) -> str:
    """Return the message with which the role refuses; nothing may have changed before it."""
    result = run.apply()
    assert not result.ok, result.output
    assert result.changed == []
    return result.failed[0][1]


def failed(run: RoleRun) -> str:
    """Return the message of a run that fails."""
    result = run.apply()
    assert not result.ok, result.output
    return result.failed[0][1]


def converges(run: RoleRun) -> RunResult:
    """Apply; then neither check mode nor a second run may find anything to change."""
    first = good(run.apply())
    assert good(run.check()).changed == []
    assert good(run.apply()).changed == []
    return first


def lower(name: str) -> None:
    """Take the host down, unless it is to be kept."""
    if os.environ.get("VLLM_FLEET_LAB_KEEP") != "1":
        api.down([name])
