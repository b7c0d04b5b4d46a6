# SPDX-License-Identifier: GPL-3.0-or-later
"""Clean what vendors' tools print: terminal codes, carriage returns. Pure: text in, text out."""

import re

__metaclass__ = type

_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]")
_OTHERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def plain(text):
    """Return text without anything that a terminal would act on."""
    return _OTHERS.sub("", _CODES.sub("", text.replace("\r\n", "\n")))


def number(text):
    """Return the number that a text begins with (int, else float); None where there is none."""
    found = re.match(r"\s*(-?\d+)(\.\d+)?", text or "")
    if found is None:
        return None
    return float(found.group(0)) if found.group(2) else int(found.group(1))


def excerpt(text, lines=4, width=300):
    """Return the first lines with something on them, as one line for people."""
    kept = [" ".join(line.split()) for line in plain(text).splitlines() if line.strip()]
    return " | ".join(kept[:lines])[:width]
