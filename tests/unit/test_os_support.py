"""The catalog of operating systems, and the verdicts that it gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.filter import os_verdict
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import osinfo
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog, os_support

SAMPLES = Path(__file__).parents[1] / "fixtures" / "os_release"
KNOWN = catalog.load("operating_systems")
ROWS = KNOWN["operating_systems"]
TEXT = {"key", "name", "support", "kernel", "glibc", "package_manager", "source"}
OPTIONAL = {
    "reason": str,
    "gcc": str,
    "python": str,
    "systemd": int,
    "page_size": dict,
    "kernel_headers": str,
    "unconfirmed": list,
}


def judge(sample: str) -> dict[str, Any]:
    text = (SAMPLES / f"{sample}.txt").read_text(encoding="utf-8")
    return os_support.verdict(osinfo.identify(text), KNOWN)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["key"])
def test_row_keeps_the_schema(row: dict[str, Any]) -> None:
    assert set(row) >= TEXT
    assert set(row) <= TEXT | set(OPTIONAL)
    assert all(isinstance(row[name], str) and row[name] for name in TEXT)
    for name in set(row) & set(OPTIONAL):
        assert isinstance(row[name], OPTIONAL[name]), name
    assert row["support"] in ("good", "bad", "unknown")
    assert row["package_manager"] in ("dnf", "yum", "apt")
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?", row["kernel"])
    assert re.fullmatch(r"2\.\d+", row["glibc"])
    assert set(row.get("unconfirmed", [])) <= set(row)
    assert all(size % 4096 == 0 for size in row.get("page_size", {}).values())
    assert row["support"] == "good" or row["reason"]
    assert row["support"] == "bad" or "{release}" in row["kernel_headers"]


def test_keys_are_unique_and_editions_say_why() -> None:
    keys = [row["key"] for row in ROWS]
    assert len(keys) == len(set(keys))
    fields = {"id", "edition", "support", "reason", "source"}
    assert all(set(row) == fields for row in KNOWN["editions"])


@pytest.mark.parametrize(
    ("sample", "expected", "word"),
    [
        ("openeuler-22.03-sp1", "good", "supported"),
        ("openeuler-24.03-sp1", "good", "supported"),
        ("kylin-v10-sp2", "good", "supported"),
        ("kylin-v10-sp3-2403", "good", "supported"),
        ("rocky-8.10", "good", "supported"),
        ("ubuntu-22.04", "good", "supported"),
        ("debian-12", "good", "supported"),
        ("rhel-9.4", "unknown", "not tested"),
        ("kylin-v11", "unknown", "not tested"),
        ("unknown-distribution", "unknown", "no row for example-3"),
        ("openeuler-23.09-innovation", "bad", "not an LTS"),
        ("kylin-desktop-v10", "bad", "desktop edition"),
    ],
)
def test_verdict_on_each_sample(sample: str, expected: str, word: str) -> None:
    found = judge(sample)
    assert found["verdict"] == expected
    assert word in found["reason"]


def test_host_without_release_files_is_unknown() -> None:
    found = os_support.verdict(osinfo.identify(""), KNOWN)
    assert found == {
        "verdict": "unknown",
        "reason": "The catalog has no row for an operating system that its release files do not"
        " name.",
        "row": {},
    }


@pytest.mark.parametrize(
    ("release", "family", "row", "package"),
    [
        ("5.10.0-136.oe2203sp1.aarch64", "rpm", {}, "kernel-devel-5.10.0-136.oe2203sp1.aarch64"),
        ("5.14.0-1.el9.aarch64+64k", "rpm", {}, "kernel-64k-devel-5.14.0-1.el9.aarch64"),
        ("6.1.0-18-amd64", "deb", {}, "linux-headers-6.1.0-18-amd64"),
        (
            "6.1.0",
            "rpm",
            {"kernel_headers": "kernel-uek-devel-{release}"},
            "kernel-uek-devel-6.1.0",
        ),
    ],
)
def test_package_with_the_headers(
    release: str, family: str, row: dict[str, str], package: str
) -> None:
    assert os_support.kernel_headers(release, family, row) == package


def test_filter_adds_what_the_role_needs() -> None:
    text = (SAMPLES / "debian-12.txt").read_text(encoding="utf-8")
    found = os_verdict.os_verdict({"os": osinfo.identify(text), "kernel": "6.1.0-18-amd64"})
    assert found["kernel_headers"] == "linux-headers-6.1.0-18-amd64"
    assert "openEuler-22.03-SP1" in found["supported"]


def test_unknown_part_of_the_catalog_names_the_parts() -> None:
    for name in ("nothing", "../galaxy"):
        with pytest.raises(catalog.CatalogError, match="operating_systems"):
            catalog.load(name)
