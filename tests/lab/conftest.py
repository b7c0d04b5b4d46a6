"""A lab of the tests' own: other folders and another network than the user's, the same cache."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_fleet.lab import api, settings, state
from vllm_fleet.lab.settings import Lab


@pytest.fixture(scope="session")
def own_lab() -> Iterator[Lab]:
    """Return a lab that is down, and take it down whatever a test did."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    # (Not a folder of pytest's, which a later session may clear away.)
    folder = Path(tempfile.mkdtemp(prefix="vllm-fleet-lab-"))
    lab = Lab(
        home=folder / "home",
        cache=settings.current().cache,
        bridge="vftest0",
        prefix="10.213.99",
    )
    # Two test sessions would use the same bridge and addresses: one waits for the other.
    with state.locked(lab, "tests"):
        api.down(lab=lab)
        yield lab
        api.down(lab=lab)
    folder.rmdir()


@pytest.fixture
def environment(own_lab: Lab) -> dict[str, str]:
    """Return an environment in which the command works on the tests' lab."""
    return {
        **os.environ,
        "VLLM_FLEET_LAB_HOME": str(own_lab.home),
        "VLLM_FLEET_LAB_CACHE": str(own_lab.cache),
        "VLLM_FLEET_LAB_BRIDGE": own_lab.bridge,
        "VLLM_FLEET_LAB_PREFIX": own_lab.prefix,
    }
