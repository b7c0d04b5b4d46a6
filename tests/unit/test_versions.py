"""Versions: one total order, and ranges in every spelling that vendors use."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.versions import VersionError

# Each row is written from old to new.
ORDERED = [
    ["0.22.1rc1", "0.22.1", "0.23.0rc1", "0.23.0", "0.23.0.post1", "0.27.1"],
    ["0.7.3", "0.7.3.post1", "0.8.4rc2", "0.8.5.post1", "0.10.2", "0.11.0rc0"],
    ["8.0.0", "8.1.RC1.alpha001", "8.1.RC1", "8.1.0", "8.3.RC1", "8.3.RC2", "8.5.0", "9.0.1"],
    ["24.1.rc2", "24.1.rc2.2", "24.1.rc3", "24.1.RC3.7", "24.1.0", "25.0.rc1", "25.0.RC1.1"],
    ["25.0.rc1.1", "25.2.0", "25.3.RC1", "25.5.0", "25.5.1", "25.7.RC1", "26.0.rc1", "26.0.RC2"],
    ["2.7.1.dev20250724", "2.7.1rc1", "2.7.1", "2.7.1.post1.dev1", "2.7.1.post1", "2.7.1.post2"],
    ["2.9.0", "2.9.0.post1", "2.9.0.post1+git4c901a4", "2.9.0.post2", "2.10.0"],
    ["3.2.0.dev20260322", "3.2.0", "3.2.1", "3.2.2"],
    ["535.54.03", "535.104.05", "550.54.14", "550.54.15", "575.51.03", "580.159.04"],
    ["12.2 GA", "12.2 U1", "12.2 U2", "12.3", "12.8U1", "13.0"],
    ["4.19.90-24.4.v2101.ky10", "4.19.90-25.48.v2101.ky10", "4.19.90-52.22.v2207.ky10"],
    ["5.10.0-60.18.0.50.oe2203", "5.10.0-60.70.0.94.oe2203", "5.10.0-216.0.0.115.oe2203sp4"],
    ["V10", "V11"],
    ["V100R001C17", "V100R001C21", "V100R001C21SPC002B220", "V100R001C22SPC001B231"],
    ["7.5.0.2.220", "7.7.0.1.231", "7.7.0.6.236", "7.8.0.2.212", "9.0.0.0.205"],
]


@pytest.mark.parametrize("row", ORDERED, ids=lambda row: row[0])
def test_versions_are_in_order(row: list[str]) -> None:
    for older, newer in itertools.combinations(row, 2):
        assert versions.compare(older, newer) == -1, (older, newer)
        assert versions.compare(newer, older) == 1, (older, newer)


def test_the_order_is_total() -> None:
    every = sorted({v for row in ORDERED for v in row}, key=versions.parse)
    for older, newer in itertools.pairwise(every):
        assert versions.parse(older) <= versions.parse(newer)
        assert not versions.parse(newer) < versions.parse(older)


@pytest.mark.parametrize(
    ("one", "two"),
    [("25.3.RC1", "25.3.rc1"), ("8.5", "8.5.0"), ("V10", "10"), ("12.2 GA", "12.2"),
     ("0.11.0rc1", "0.11.0.rc1"), ("v0.23.0", "0.23.0"), ("1.0-post1", "1.0.post1")],
)  # fmt: skip
def test_spellings_of_one_version_are_equal(one: str, two: str) -> None:
    assert versions.compare(one, two) == 0
    assert hash(versions.parse(one)) == hash(versions.parse(two))


@pytest.mark.parametrize("text", ["", "latest", "V", "1.0/2", "∞", "main"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(VersionError):
        versions.parse(text)


def test_br_04_a_number_is_no_version() -> None:
    with pytest.raises(VersionError, match="quote it"):
        versions.parse(22.03)  # type: ignore[arg-type]


def test_br_02_a_kylin_version_compares_without_becoming_a_number() -> None:
    assert versions.parse("V10").text == "V10"
    assert versions.compare("V10", "V11") == -1


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("3.12", ">=3.10,<3.13", True),
        ("3.13", ">=3.10,<3.13", False),
        ("3.13rc1", ">=3.10,<3.13", False),
        ("3.9.9", ">=3.9,<3.12", True),
        ("25.5.1", "25.5.X", True),
        ("25.3.RC1", "25.3.X", True),
        ("25.30.0", "25.3.X", False),
        ("25.2.2", "25.5.X|25.3.X|25.2.X", True),
        ("25.0.rc1.1", "25.5.X|25.3.X|25.2.X", False),
        ("26.0.rc1", "26.0.RC1", True),
        ("26.0.0", "26.0.RC1", False),
        ("0.23.0+empty", "==0.23.0", True),
        ("2.9.0.post1", "2.9.0", False),
        ("12.4", "~=12.2", True),
        ("13.0", "~=12.2", False),
        ("24.1.rc3", ">=24.1", False),
        ("24.1.rc3", "!=24.1.rc2", True),
    ],
)
def test_ranges(version: str, wanted: str, expected: bool) -> None:
    assert versions.matches(version, wanted) is expected


@pytest.mark.parametrize("wanted", [">=", "", ">=25.5.X", "a b", ">=1 <2"])
def test_what_is_no_range_is_refused(wanted: str) -> None:
    with pytest.raises(VersionError):
        versions.matches("1.0", wanted)


@pytest.mark.parametrize(
    ("version", "intervals", "expected"),
    [
        ("7.7.0.1.231", "[6.4.0,6.4.99],[7.0.0,7.7.99]", True),
        ("7.8.0", "[6.4.0,6.4.99],[7.0.0,7.7.99]", False),
        ("6.4.12.1", "[6.4.0,6.4.99],[7.0.0,7.7.99]", True),
        ("6.5.0", "[6.4.0,6.4.99],[7.0.0,7.7.99]", False),
        ("25.0.rc1.1", "[23.0.0,23.0.0.],[25.0,25.0.]", True),
        ("25.0.3", "[23.0.0,23.0.0.],[25.0,25.0.]", True),
        ("25.2.0", "[23.0.0,23.0.0.],[25.0,25.0.]", False),
        ("23.0.0", "[23.0.0,23.0.0.],[24.0,24.0.]", True),
        ("23.0.1", "[23.0.0,23.0.0.],[24.0,24.0.]", False),
        ("V100R001C19", "[V100R001C17],[V100R001C18],[V100R001C19]", True),
        ("V100R001C22", "[V100R001C17],[V100R001C18],[V100R001C19]", False),
        ("8.0", "[7.0,8.0)", False),
        ("7.0", "(7.0,8.0)", False),
    ],
)
def test_br_17_intervals_of_version_info(version: str, intervals: str, expected: bool) -> None:
    assert versions.in_intervals(version, intervals) is expected


@pytest.mark.parametrize("intervals", ["", "7.0.0,7.7.99", "[7.0.0,7.7.99", "[,]", "[a,b]", "[1]x"])
def test_br_17_malformed_intervals_are_an_error(intervals: str) -> None:
    with pytest.raises(VersionError):
        versions.in_intervals("7.0.0", intervals)


def test_newest() -> None:
    assert versions.newest(["26.0.rc1", "25.5.1", "26.0.RC2"]) == "26.0.RC2"
    assert versions.newest([]) is None
