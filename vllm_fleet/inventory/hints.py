"""Guess what a misspelt name was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """Return the known name that is most like ``word``, or nothing."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return found[0] if found else ""


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the question for a misspelt name, or the names that there are."""
    names = sorted(set(known))
    meant = closest(word, names, cutoff)
    if meant:
        return f"did you mean {meant}?"
    return f"known: {', '.join(names)}" if 0 < len(names) <= 12 else ""
