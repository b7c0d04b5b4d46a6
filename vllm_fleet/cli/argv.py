"""Global options may stand before or after the verb: bring them behind it."""

from __future__ import annotations

from collections.abc import Sequence

# Options that every verb takes; True where a value follows.
GLOBAL_OPTIONS = {
    "-i": True,
    "--inventory": True,
    "-l": True,
    "--limit": True,
    "--json": False,
    "-v": False,
    "-vv": False,
    "-vvv": False,
    "--verbose": False,
    "--forks": True,
    "-f": True,
    "-u": True,
    "--user": True,
    "--vault-id": True,
    "--vault-password-file": True,
    "--become-password-file": True,
    "-e": True,
    "--extra-vars": True,
    "--events": True,
}
SHORT_WITH_VALUE = tuple(
    name for name, value in GLOBAL_OPTIONS.items() if value and not name.startswith("--")
)
# Verbs whose first argument is a verb of its own.
GROUPS = ("lab",)


def width(args: Sequence[str], at: int) -> int:
    """Return how many words the global option at ``at`` takes; 0 where it is none."""
    word = args[at]
    if word in GLOBAL_OPTIONS:
        return min(1 + GLOBAL_OPTIONS[word], len(args) - at)
    name, equals, _ = word.partition("=")
    if equals and GLOBAL_OPTIONS.get(name) and name.startswith("--"):
        return 1
    glued = word.startswith(SHORT_WITH_VALUE) and not word.startswith("--")
    return 1 if glued else 0


def split_leading(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off the global options that stand before the verb."""
    leading: list[str] = []
    at = 0
    while at < len(args) and (taken := width(args, at)):
        leading += args[at : at + taken]
        at += taken
    return leading, list(args[at:])


def normalise(args: Sequence[str]) -> list[str]:
    """Return the arguments with every leading global option behind the verb.

    Without a verb they mean nothing; left in place they would be called unknown.
    """
    leading, rest = split_leading(args)
    if not rest or rest[0].startswith("-"):
        return rest
    is_group = rest[0] in GROUPS and len(rest) > 1 and not rest[1].startswith("-")
    verbs = 2 if is_group else 1
    return [*rest[:verbs], *leading, *rest[verbs:]]
