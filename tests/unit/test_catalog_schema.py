"""The catalog's data: every file keeps its schema, every row has a source, the rows agree."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog_schema, versions

CATALOG = Path(__file__).resolve().parents[2] / "catalog"


def load(name: str) -> dict[str, Any]:
    document = yaml.safe_load((CATALOG / f"{name}.yml").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("name", sorted(catalog_schema.SCHEMAS))
def test_each_file_keeps_its_schema(name: str) -> None:
    assert catalog_schema.problems(name, load(name)) == []


@pytest.mark.parametrize(
    ("name", "path", "value", "expected"),
    [
        ("ascend", ("releases", 0, "cann"), 9.1, "quote it"),
        ("ascend", ("releases", 0, "cann"), "newest", "not a version"),
        ("ascend", ("releases", 0, "colour"), "red", "colour: is not a key"),
        ("ascend", ("releases", 0, "source"), "", "source: must be a text"),
        ("ascend", ("chips", 0, "pci"), "19e5-d802", "PCI id"),
        ("ascend", ("cann_hdk", 0, "good"), ">=", "not a range"),
        ("ascend", ("os_cards", 0, "os"), ["openEuler 22.03"], "operating system's key"),
        ("nvidia", ("branches", 0, "eol"), "June 2026", "a month"),
        ("ansible", ("cores", 0, "dnf"), "perhaps", "must be one of"),
        ("release_sets", ("sets", 0, "wanted"), {"cheese": "1"}, "cheese"),
        ("artifacts/ascend", ("files", 0, "sha256"), "abc", "SHA-256"),
    ],
)
def test_a_wrong_row_is_named(name: str, path: tuple[Any, ...], value: Any, expected: str) -> None:
    document = copy.deepcopy(load(name))
    row = document[path[0]][path[1]]
    row[path[2]] = value
    found = catalog_schema.problems(name, document)
    assert len(found) == 1
    assert f"{name}.yml {path[0]}[{path[1]}]" in found[0]
    assert expected in found[0]


def test_a_missing_source_and_a_double_row_are_named() -> None:
    document = copy.deepcopy(load("ascend"))
    del document["releases"][0]["source"]
    document["chips"].append(document["chips"][0])
    found = catalog_schema.problems("ascend", document)
    assert any("releases[0]: source is missing" in line for line in found)
    assert any("stands in row 0 too" in line for line in found)


def test_sources_are_not_cut_off_by_a_comment_sign() -> None:
    for path in CATALOG.rglob("*.yml"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = line.strip()
            assert code.startswith("#") or " #" not in code, f"{path.name}:{number}"


def test_every_ascend_release_has_a_row_for_its_cann() -> None:
    ascend = load("ascend")
    missing = {
        row["cann"]
        for row in ascend["releases"]
        if not any(versions.matches(row["cann"], pair["cann"]) for pair in ascend["cann_hdk"])
    }
    # The facts have no driver for this one; its release is long out of support.
    assert missing == {"8.0.0"}


def test_a_torch_npu_belongs_to_the_torch_of_its_release() -> None:
    for row in load("ascend")["releases"]:
        assert versions.parse(row["torch_npu"]).release == versions.parse(row["torch"]).release


def test_pairs_of_cann_and_driver_are_good_by_their_own_range() -> None:
    for row in load("ascend")["cann_hdk"]:
        assert versions.matches(row["paired"], row["good"]), row
        assert "bad" not in row or not versions.matches(row["paired"], row["bad"]), row


def test_published_sums_known_by_hand() -> None:
    files = {row["name"]: row for row in load("artifacts/ascend")["files"]}
    assert len(files) == 106
    hdk = files["Ascend-hdk-910b-npu_25.5.0_linux-aarch64.zip"]
    assert hdk["sha256"] == "fccdeb94591fd0e241ccbc679a3b6a84b386228c6f31a87b264d63dba6becb9d"
    assert (hdk["kind"], hdk["chip"], hdk["version"]) == ("hdk", "910b", "25.5.0")
    toolbox = [row for row in files.values() if row["kind"] == "toolbox"]
    assert {row["version"] for row in toolbox} >= {"7.0.RC1", "26.0.1"}


def test_ansible_table_covers_what_setup_allows() -> None:
    ansible = load("ansible")
    cores = {row["core"] for row in ansible["cores"]}
    assert set(ansible["supported"]) <= cores
    assert ansible["supported"] == ["2.16", "2.19", "2.21"]
