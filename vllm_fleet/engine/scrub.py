"""Take secrets out of whatever we keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "********"
# Shorter values are words: replacing those would garble the log and still give them away.
SHORTEST = 6
SECRET_NAME = re.compile(
    r"(^|_)pass(wd|phrase)?(_|$)|passw|secret|(^|_)token(_|$)|(api|private)_?key", re.IGNORECASE
)
URL_CREDENTIAL = re.compile(r"(?<=://)([^/\s:@'\"]*):([^/\s@'\"]+)(?=@)")


def is_secret_name(name: str) -> bool:
    """Say whether a variable's name tells that its value is a secret."""
    return bool(SECRET_NAME.search(name))


def secret_values(values: Mapping[str, Any]) -> set[str]:
    """Return the values that hide behind secret-looking names, however deep."""
    found: set[str] = set()
    for name, value in values.items():
        if isinstance(value, str) and is_secret_name(str(name)):
            found.add(value)
        elif isinstance(value, Mapping):
            found |= secret_values(value)
        elif isinstance(value, list):
            parts = [item for item in value if isinstance(item, Mapping)]
            found |= set().union(*(secret_values(part) for part in parts))
    return found


class Scrubber:
    """Replaces known secrets and credentials in addresses."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        lines = {line.strip() for secret in secrets for line in str(secret).splitlines()}
        known = sorted((line for line in lines if len(line) >= SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """Return text without secrets."""
        if "://" in text:
            text = URL_CREDENTIAL.sub(rf"\1:{MASK}", text)
        return self._known.sub(MASK, text) if self._known else text

    def data(self, value: Any) -> Any:
        """Return data without secrets, in keys and values."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._entry(key, item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.data(item) for item in value]
        return value

    def _entry(self, key: Any, item: Any) -> Any:
        if isinstance(item, str) and item and is_secret_name(str(key)):
            return MASK
        return self.data(item)
