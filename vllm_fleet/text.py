"""Text for people: nothing in it that a terminal would act on."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Everything a terminal would act on, apart from line breaks and tabs; and what turns text round.
CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
MAX_NAMES = 8


def clean(text: str) -> str:
    """Return text with nothing in it that a terminal would act on."""
    return CONTROL.sub("", text.replace("\r\n", "\n"))


def some(names: Iterable[str], limit: int = MAX_NAMES) -> str:
    """Return names in one line, shortened where there are many."""
    every = list(names)
    shown = ", ".join(every[:limit])
    return shown if len(every) <= limit else f"{shown} and {len(every) - limit} more"


def duration(seconds: float) -> str:
    """Return a time span in minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
