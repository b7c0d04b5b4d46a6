"""The role cuda on lab hosts with stand-in toolkits: by runfile and by packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from harness import RoleRun, RunResult
from remote import Remote

pytestmark = pytest.mark.lab

MIRROR = "http://10.213.0.1:8213/vendor/nvidia"
RUNFILES = {"12.9": "cuda_12.9.0_575.51.03_linux.run", "13.0": "cuda_13.0.0_580.65.06_linux.run"}


def raised(lab_host: Callable[..., Any], name: str, persona: str) -> Remote:
    from vllm_fleet.lab import api, settings, vendor_nvidia

    api.up({name: persona}, hardware="two-a100")
    host = lab_host(name, persona)
    api.reset([name])
    vendor_nvidia.ensure(settings.current())
    return Remote(name, host.inventory)


@pytest.fixture(scope="module")
def kylin(lab_host: Callable[..., Any]) -> Remote:
    return raised(lab_host, "nv-4", "kylin-v10-sp3")


@pytest.fixture(scope="module")
def el8(lab_host: Callable[..., Any]) -> Remote:
    return raised(lab_host, "nv-5", "el8")


def runfile(version: str) -> dict[str, str]:
    from vllm_fleet.lab import settings, vendor_nvidia

    text = (vendor_nvidia.folder(settings.current()) / "runfiles/SHA256SUMS").read_text()
    sums = {name: digest for digest, name in (line.split() for line in text.splitlines())}
    name = RUNFILES[version]
    return {"version": version, "src": f"{MIRROR}/runfiles/{name}", "sha256": sums[name]}


def role(remote: Remote, **options: Any) -> RoleRun:
    given = {"accept_eula": True, "repository_url": f"{MIRROR}/repos",
             "repository_gpgcheck": False, **options}  # fmt: skip
    variables = {f"cuda_{name}": value for name, value in given.items()}
    return RoleRun(remote.name, remote.inventory, "cuda", variables)


def good(run: RunResult) -> RunResult:
    assert run.ok, run.output
    return run


def refused(run: RoleRun) -> str:
    result = run.apply()
    assert not result.ok, result.output
    assert result.changed == []
    return result.failed[-1][1]


def test_bad_input_is_refused_on_a_blank_host(kylin: Remote) -> None:
    one = role(kylin, toolkits=[runfile("12.9")])
    off = replace(one, variables={**one.variables, "cuda_accept_eula": False})
    assert "cuda_accept_eula is false" in refused(off)
    wrong = role(kylin, toolkits=[{**runfile("12.9"), "sha256": "0" * 64}])
    assert "wrong checksum" in refused(wrong)
    assert "quote it" in refused(role(kylin, toolkits=[{"version": 12.9}]))
    assert "NVIDIA publishes for SP3-2403" in refused(role(kylin, toolkits=[{"version": "12.9"}]))
    both = role(kylin, toolkits=[runfile("12.9")], absent=["12.9"])
    assert "cuda_absent is" in refused(both)
    kylin.write("/etc/vllm-fleet-lab/cuda-installer.fault", "fail")
    assert "the toolkit's installer ended with 255" in refused(one)
    kylin.told("rm /etc/vllm-fleet-lab/cuda-installer.fault")


def test_runfiles_side_by_side(kylin: Remote) -> None:
    run = role(kylin, toolkits=[runfile("12.9"), runfile("13.0")], default="12.9")
    assert "Install the toolkits that runfiles bring" in good(run.check()).changed
    good(run.apply())
    for version in RUNFILES:
        assert f"release {version}" in kylin.told(f"/usr/local/cuda-{version}/bin/nvcc --version")
    assert kylin.told("readlink /usr/local/cuda") == "/usr/local/cuda-12.9"
    assert good(run.check()).changed == []
    assert good(run.apply()).changed == []


def test_a_toolkit_goes_alone(kylin: Remote) -> None:
    run = role(kylin, toolkits=[runfile("13.0")], default="13.0", absent=["12.9"])
    good(run.apply())
    assert kylin.told("ls -d /usr/local/cuda-*") == "/usr/local/cuda-13.0"
    assert good(run.apply()).changed == []


def test_packages_side_by_side(el8: Remote) -> None:
    run = role(el8, toolkits=[{"version": "12.9"}, {"version": "13.0"}])
    assert "Install the packages of the toolkits" in good(run.check()).changed
    good(run.apply())
    assert "release 13.0" in el8.told("/usr/local/cuda-13.0/bin/nvcc --version")
    assert good(run.check()).changed == []
    assert good(run.apply()).changed == []
