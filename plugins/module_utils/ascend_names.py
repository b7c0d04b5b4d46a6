# SPDX-License-Identifier: GPL-3.0-or-later
"""What the file name of an Ascend package says: part, chip, version, machine. Pure."""

import re

__metaclass__ = type

PRODUCTS = {
    "driver": ("driver", "firmware"),
    "cann": ("toolkit", "ops", "kernels", "nnal"),
}
_VERSION = r"(?P<version>[0-9][0-9A-Za-z.]*?)"
_MACHINE = r"_linux-(?P<machine>aarch64|x86[_-]64)"
_END = r"\.(?P<kind>run|zip)$"
_CHIP = r"(?:Ascend-{0}-(?P<chip>[0-9]+[a-z]?)|Atlas-(?P<atlas>A[0-9])-{0})"
_PATTERNS = (
    r"^%s-npu-(?P<part>driver|firmware)_%s(?:%s)?%s"
    % (_CHIP.format("hdk"), _VERSION, _MACHINE, _END),
    r"^%s-npu_%s%s%s" % (_CHIP.format("hdk"), _VERSION, _MACHINE, _END),
    r"^Ascend-cann-(?P<part>toolkit|nnal)_%s%s%s" % (_VERSION, _MACHINE, _END),
    r"^Ascend-cann-(?P<chip>A?[0-9]+[a-z]?)-(?P<part>ops)_%s%s%s" % (_VERSION, _MACHINE, _END),
    r"^Ascend-cann-(?P<part>kernels)-(?P<chip>[0-9]+[a-z]?)_%s%s%s" % (_VERSION, _MACHINE, _END),
    r"^Atlas-(?P<atlas>A[0-9])-cann-(?P<part>kernels)_%s%s%s" % (_VERSION, _MACHINE, _END),
)
PATTERNS = tuple(re.compile(pattern) for pattern in _PATTERNS)


def parse(name):
    """Return {part, chip, version, machine, kind} of a file name; None where it is no such name.

    The archive that holds both driver and firmware has the part ``hdk``. A part that fits every
    chip has no chip, one that fits every machine no machine.
    """
    for pattern in PATTERNS:
        found = pattern.match(name)
        if found:
            return _row(found.groupdict())
    return None


def _row(groups):
    machine = groups.get("machine")
    return {
        "part": groups.get("part") or "hdk",
        "chip": groups.get("chip") or groups.get("atlas"),
        "version": groups["version"],
        "machine": machine.replace("-", "_") if machine else None,
        "kind": groups["kind"],
    }


def holds(row, part):
    """Tell whether a package of this name brings the part."""
    return row["part"] == part or (row["part"] == "hdk" and part in PRODUCTS["driver"])


def same_version(one, two):
    """Compare two spellings of a version: the case of RC varies, and 8.5 is 8.5.0."""
    return _plain(one) == _plain(two)


def _plain(version):
    words = re.split(r"[.\-_]", version.strip().lower())
    while len(words) > 1 and words[-1] == "0":
        words.pop()
    return words
