"""The role python_runtime on lab hosts: from the distribution, from an archive, and refused."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness import RoleRun, RunResult

pytestmark = pytest.mark.lab

MIRROR = "http://10.213.0.1:8213"
UNPACK = "Unpack the interpreter"


def offline_archive() -> dict[str, Any]:
    """Return the role's variables for the archive that the lab's mirror serves."""
    with urllib.request.urlopen(f"{MIRROR}/python/SHA256SUMS", timeout=20) as answer:
        sha256, name = answer.read().decode().split()[:2]
    return {
        "python_runtime_source": "archive",
        "python_runtime_version": "3.11",
        "python_runtime_archive": f"{MIRROR}/python/{name}",
        "python_runtime_archive_sha256": sha256,
    }


@pytest.fixture(scope="module")
def blank(lab_host: Callable[..., Any]) -> RoleRun:
    """A host without interpreter beside its own; the role takes the archive."""
    from vllm_fleet.lab import api

    host = lab_host("py-1", "openeuler-24.03-sp1")
    api.reset([host.name])
    return RoleRun(host.name, host.inventory, "python_runtime", offline_archive())


@pytest.fixture(scope="module")
def el8(lab_host: Callable[..., Any]) -> RoleRun:
    """A host whose distribution has an interpreter beside its own."""
    from vllm_fleet.lab import api

    host = lab_host("py-2", "el8")
    api.reset([host.name])
    variables = {"python_runtime_version": "3.11"}
    return RoleRun(host.name, host.inventory, "python_runtime", variables)


def good(run: RunResult) -> RunResult:
    assert run.ok, run.output
    return run


def refused(run: RoleRun, **variables: Any) -> str:
    """Return the message with which the role refuses; nothing may have changed before it."""
    result = replace(run, variables={**run.variables, **variables}).apply()
    assert not result.ok, result.output
    assert result.changed == []
    return result.failed[0][1]


def test_bad_input_is_refused_on_a_blank_host(blank: RoleRun, tmp_path: Path) -> None:
    assert "quote it" in refused(blank, python_runtime_version=3.1)
    message = refused(blank, python_runtime_source="distribution")
    assert "host py-1" in message
    assert "system's own on openEuler-24.03-SP1" in message
    assert "python_runtime_source: archive" in message
    message = refused(blank, python_runtime_source="internet")
    assert "must be one of: distribution, archive" in message
    gone = refused(blank, python_runtime_archive=f"{MIRROR}/python/none.tar.gz")
    assert "cannot be had" in gone
    assert "wrong checksum" in refused(blank, python_runtime_archive_sha256="0" * 64)
    local = tmp_path / "python.tar.gz"
    local.write_bytes(b"no archive")
    assert "on the controller" in refused(blank, python_runtime_archive=str(tmp_path / "none"))
    assert "wrong checksum" in refused(blank, python_runtime_archive=str(local))


def test_archive(blank: RoleRun) -> None:
    assert UNPACK in good(blank.check()).changed
    assert UNPACK in good(blank.apply()).changed
    assert good(blank.check()).changed == []
    again = good(blank.apply())
    assert again.changed == []
    seen = next(t for t in again.tasks if t.task.endswith("look at its standard library"))
    assert seen.result["version"].startswith("3.11.")
    assert seen.result["realpath"].startswith("/opt/vllm/python/3.11/")


def test_packages_of_the_distribution(el8: RoleRun) -> None:
    assert good(el8.check()).changed != []
    assert good(el8.apply()).changed != []
    assert good(el8.check()).changed == []
    assert good(el8.apply()).changed == []
    message = refused(el8, python_runtime_version="3.13")
    assert "offers 3.11, 3.12" in message
