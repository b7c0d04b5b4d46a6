"""BR-07: an ansible-core and a Python that do not go together are named, with the ways out."""

from __future__ import annotations

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog as files
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.resolver_engine import (
    judge_python,
)

CATALOG = {"ansible": files.load("ansible")}


# The table was executed: ping, setup, stat and lineinfile against each interpreter.
@pytest.mark.parametrize(
    ("core", "python", "expected"),
    [
        ("2.15.13", "3.5", "good"),
        ("2.16.19", "3.6.8", "good"),
        ("2.16.19", "3.7", "good"),
        ("2.16.19", "2.7.18", "good"),
        ("2.17.14", "3.6.8", "bad"),
        ("2.17.14", "3.7.9", "good"),
        ("2.18.19", "3.7.9", "bad"),
        ("2.19.14", "3.7", "bad"),
        ("2.19.14", "3.8", "good"),
        ("2.19.14", "3.9.9", "good"),
        ("2.20.10", "3.8", "bad"),
        ("2.21.5", "3.9", "good"),
        ("2.21.5", "3.6", "bad"),
        ("2.21.5", "3.14", "good"),
        ("2.16.19", "3.13", "bad"),
        ("2.99", "3.11", "unknown"),
    ],
)
def test_br_07_python_of_a_host(core: str, python: str, expected: str) -> None:
    assert judge_python(CATALOG, core, python).verdict == expected


def test_br_07_the_verdict_names_symptom_and_ways_out() -> None:
    verdict = judge_python(CATALOG, "2.19.14", "3.6.8")
    assert "needs Python >=3.8,<3.14 on hosts" in verdict.reason
    assert "future feature annotations is not defined" in verdict.reason
    assert "use ansible-core 2.16" in verdict.remedy
    assert "bring Python >=3.9,<3.15 to the host and use ansible-core 2.21" in verdict.remedy


def test_python_of_the_controller() -> None:
    assert judge_python(CATALOG, "2.21.5", "3.11", "controller_python").verdict == "bad"
    assert judge_python(CATALOG, "2.19.14", "3.11", "controller_python").verdict == "good"
    assert judge_python(CATALOG, "2.16.19", "3.10", "controller_python").verdict == "good"
