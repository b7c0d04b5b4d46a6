"""Say why a task failed: the message in a result, and what makes two messages the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

LONGEST = 1200
# Messages that only say that something went wrong; the reason is in the error output.
EMPTY_WORDS = ("non-zero return code", "MODULE FAILURE", "Module result deserialization failed")
# What ansible-core 2.19 and later put around a message.
FRAME = re.compile(r"^(?:(?:Task|Action) failed: )+")
NORMAL = (
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"\b[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){3,7}\b"), "ADDRESS"),
    (re.compile(r"/[^\s'\"]*ansible[-_]tmp[^\s'\"]*"), "PATH"),
    (re.compile(r"\b[0-9a-f]{8,}\b"), "HEX"),
    (re.compile(r"\d+"), "N"),
    (re.compile(r"\s+"), " "),
)


def last_line(text: Any) -> str:
    """Return the last line with something on it."""
    lines = [line.strip() for line in str(text or "").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def message_of(result: Any) -> str:
    """Return why a task failed, in words."""
    if not isinstance(result, Mapping) or not result:
        return "no result arrived (it was too large, or it was lost)"
    if "censored" in result:
        return "the result is hidden, since it may hold a secret (no_log)"
    message = (
        FRAME.sub("", _words(result.get("msg")))
        or _words(result.get("reason"))
        or "failed, saying nothing"
    )
    if message.startswith(EMPTY_WORDS):
        detail = next(filter(None, map(last_line, _outputs(result))), "")
        message = f"{message}: {detail}" if detail else message
    # dnf keeps the names of what it lacks beside the message.
    if failures := _words(result.get("failures")):
        message = f"{message}: {failures}"
    return message if len(message) <= LONGEST else f"{message[:LONGEST]}..."


def _outputs(result: Mapping[str, Any]) -> list[Any]:
    return [result.get(key) for key in ("stderr", "module_stderr", "module_stdout", "stdout")]


def _words(message: Any) -> str:
    """Return a message as text (some modules give lists)."""
    if isinstance(message, (list, tuple)):
        return "; ".join(map(str, message))
    return str(message).strip() if message else ""


def cause_of(message: str, hosts: Collection[str]) -> str:
    """Return a message without what differs from host to host."""
    names = sorted((name for name in hosts if name), key=len, reverse=True)
    if names:
        pattern = "|".join(re.escape(name) for name in names)
        message = re.sub(rf"(?<![\w.-])(?:{pattern})(?![\w-])", "HOST", message)
    for pattern_, word in NORMAL:
        message = pattern_.sub(word, message)
    return message.strip()
