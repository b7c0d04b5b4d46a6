# SPDX-License-Identifier: GPL-3.0-or-later
"""One total order for every version spelling that this field uses, and the ranges over it.

Python's (``2.10.0.post4``, ``2.7.1.dev20250724``, ``2.9.0.post1+git4c901a4``), Huawei's
(``25.3.RC1``, ``26.0.rc2``, ``25.0.rc1.1``, ``V100R001C21SPC002B220``), NVIDIA's (``550.54.15``),
CUDA's (``12.4 U1``), kernels' (``4.19.90-25.48.v2101.ky10``) and Kylin's ``V10`` all compare here:
dev < alpha < beta < rc < release < anything appended to the release.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from functools import total_ordering

# Ranks of what may follow the release numbers; 0 is "nothing follows".
_RANKS = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "rc": -1, "c": -1, "pre": -1}
_END = (0, 0, "")
_NUMBER, _WORD, _LOCAL = 1, 2, 3
_TOKEN = re.compile(r"(\d+)|([a-z]+)|(\+)|([.\-_~ ]+)|(.)")
_HUAWEI = re.compile(r"v(\d+)r(\d+)c(\d+)((?:spc|sph|b|l|u)\d+)*$")
_SPECIFIER = re.compile(r"\s*(>=|<=|==|!=|~=|>|<)?\s*([^\s,<>=!~]+)\s*$")
_WILDCARD = re.compile(r"(.+?)[.](?:x|\*)$", re.IGNORECASE)
_INTERVAL = re.compile(r"([\[(])\s*([^,\[\]()]+?)\s*(?:,\s*([^,\[\]()]+?)\s*)?([\])])\s*,?\s*")

Part = tuple[int, int, str]


class VersionError(ValueError):
    """A text that is no version, or no range of versions."""


@total_ordering
@dataclass(frozen=True)
class Version:
    """A version: the numbers of its release, and what was appended to them."""

    text: str
    release: tuple[int, ...]
    suffix: tuple[Part, ...]

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key() == other._key()

    def __lt__(self, other: Version) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def is_prerelease(self) -> bool:
        """Say whether this comes before the release with the same numbers."""
        return self.suffix[0] < _END

    @property
    def public(self) -> Version:
        """Return the version without its local part (what follows a plus sign)."""
        return parse(self.text.split("+", 1)[0]) if "+" in self.text else self

    def startswith(self, prefix: tuple[int, ...]) -> bool:
        """Say whether the release numbers begin with ``prefix`` (missing numbers are zeros)."""
        padded = self.release + (0,) * (len(prefix) - len(self.release))
        return padded[: len(prefix)] == prefix

    def _key(self) -> tuple[tuple[int, ...], tuple[Part, ...]]:
        return _strip_zeros(self.release), self.suffix


def _strip_zeros(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``numbers`` without the zeros at their end: 8.5 and 8.5.0 are one version."""
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers


def parse(text: str) -> Version:
    """Return the version that ``text`` spells, or raise VersionError."""
    if not isinstance(text, str):
        raise VersionError(f"a version must be a text, not {text!r}: quote it")
    return _parse(text)


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> Version:
    lowered = text.strip().lower()
    if _HUAWEI.match(lowered):
        return Version(text.strip(), tuple(int(n) for n in re.findall(r"\d+", lowered)), (_END,))
    release, suffix = _split(lowered.removeprefix("v"))
    if not release:
        raise VersionError(f"not a version: {text!r}")
    return Version(text.strip(), release, (*suffix, _END))


def _split(text: str) -> tuple[tuple[int, ...], tuple[Part, ...]]:
    """Split ``text`` into release numbers and suffix parts."""
    release: list[int] = []
    suffix: list[Part] = []
    local = False
    for number, word, plus, _separator, other in _TOKEN.findall(text):
        if other:
            raise VersionError(f"not a version: {text!r}")
        if plus:
            local = True
        elif number and not suffix and not local:
            release.append(int(number))
        elif number and suffix and suffix[-1][1] < 0:
            # The number that belongs to the word before it: rc 1, post 4.
            suffix[-1] = (suffix[-1][0], int(number), suffix[-1][2])
        elif number:
            suffix.append((_LOCAL if local else _NUMBER, int(number), ""))
        elif word and word != "ga":
            suffix.append(_word(word, local))
    return tuple(release), tuple((rank, max(n, 0), w) for rank, n, w in suffix)


def _word(word: str, local: bool) -> Part:
    """Return the suffix part for a word; -1 says that its number may still follow."""
    if local:
        return (_LOCAL, -1, word)
    rank = _RANKS.get(word, _WORD)
    return (rank, -1, "" if rank < 0 else word)


def compare(left: str, right: str) -> int:
    """Return -1, 0 or 1 as ``left`` is older than, equal to or newer than ``right``."""
    one, two = parse(left), parse(right)
    return (one > two) - (one < two)


def newest(texts: list[str]) -> str | None:
    """Return the newest of ``texts``, or None where there are none."""
    return max(texts, key=parse, default=None)


@functools.lru_cache(maxsize=16384)
def matches(version: str, wanted: str) -> bool:
    """Say whether ``version`` lies in ``wanted``.

    ``wanted`` is a list of specifiers that must all hold (``>=3.10,<3.13``), a plain version
    (equal to it), a series (``25.5.X``: every version of it, release candidates included), or
    several of these separated by ``|``.
    """
    seen = parse(version)
    return any(_all_hold(seen, choice) for choice in wanted.split("|"))


def _all_hold(seen: Version, choice: str) -> bool:
    """Say whether each comma-separated specifier of one choice holds."""
    return all(_holds(seen, part) for part in choice.split(","))


def _holds(seen: Version, specifier: str) -> bool:
    """Say whether one specifier holds for ``seen``."""
    found = _SPECIFIER.match(specifier)
    if found is None:
        raise VersionError(f"not a range of versions: {specifier!r}")
    operator, text = found.group(1) or "==", found.group(2)
    series = _WILDCARD.match(text)
    if series:
        return _in_series(seen, parse(series.group(1)).release, operator)
    return _ordered(seen, operator, parse(text))


def _in_series(seen: Version, prefix: tuple[int, ...], operator: str) -> bool:
    """Say whether ``seen`` is in (or, for !=, outside) the series of a wildcard."""
    if operator not in ("==", "!="):
        raise VersionError(f"a series such as 25.5.X cannot follow {operator}")
    return seen.startswith(prefix) is (operator == "==")


def _ordered(seen: Version, operator: str, bound: Version) -> bool:
    """Compare; a local part only counts where the bound has one, and < 3.12 excludes 3.12rc1."""
    if "+" not in bound.text:
        seen = seen.public
    if operator == "<" and seen.is_prerelease and not bound.is_prerelease:
        return seen < bound and _strip_zeros(seen.release) != _strip_zeros(bound.release)
    if operator == "~=":
        return seen >= bound and seen.startswith(bound.release[:-1])
    return {
        ">=": seen >= bound,
        "<=": seen <= bound,
        "==": seen == bound,
        "!=": seen != bound,
        ">": seen > bound,
        "<": seen < bound,
    }[operator]


def in_intervals(version: str, intervals: str) -> bool:
    """Say whether ``version`` lies in one of the intervals of a vendor's version.info file.

    ``[7.0.0,7.7.99]`` is closed, ``(`` and ``)`` exclude their end, ``[V100R001C17]`` is one
    version, and an end with a dot behind it (``[25.0,25.0.]``) stands for everything that begins
    so, release candidates included.
    """
    seen = parse(version)
    found = list(_INTERVAL.finditer(intervals.strip()))
    if not found or "".join(m.group(0) for m in found) != intervals.strip():
        raise VersionError(f"not a list of version intervals: {intervals!r}")
    return any(_in_interval(seen, *m.groups()) for m in found)


def _in_interval(seen: Version, opening: str, low: str, high: str | None, closing: str) -> bool:
    """Say whether ``seen`` lies in one interval."""
    if high is None:
        return seen == parse(low)
    lower = parse(low)
    if high.endswith("."):
        prefix = parse(high.rstrip(".")).release
        return seen.release >= lower.release and seen.release[: len(prefix)] <= prefix
    upper = parse(high)
    above = seen > lower if opening == "(" else seen >= lower
    below = seen < upper if closing == ")" else seen <= upper
    return above and below
