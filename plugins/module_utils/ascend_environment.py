# SPDX-License-Identifier: GPL-3.0-or-later
"""Make an environment file for systemd from what the vendor's set_env.sh scripts set. Pure."""

import re

__metaclass__ = type

BASE = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C",
    "LANGUAGE": "C",
}
# What the shell itself sets or changes.
_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_LIST = re.compile(r"(PATH|LIBRARY_PATH|CMAKE_PREFIX_PATH)$")


def parse(text):
    """Return the variables of ``env -0``."""
    pairs = [row.partition("=") for row in text.split("\0") if "=" in row]
    return {name: value for name, _equals, value in pairs if _NAME.match(name)}


def wanted(environment, libraries):
    """Return the variables that the scripts added or changed, with clean search paths.

    An empty entry of a search path means the working directory, so none is kept. The driver's
    library folders are added to ``LD_LIBRARY_PATH`` where the scripts left them out.
    """
    found = {
        name: value
        for name, value in environment.items()
        if name not in _SHELL and BASE.get(name) != value
    }
    paths = found.get("LD_LIBRARY_PATH", "").split(":")
    found["LD_LIBRARY_PATH"] = ":".join(paths + [path for path in libraries if path not in paths])
    return {name: _clean(name, value) for name, value in found.items()}


def _clean(name, value):
    if not _LIST.search(name):
        return value
    kept = []
    for entry in value.split(":"):
        if entry and entry not in kept:
            kept.append(entry)
    return ":".join(kept)


def render(variables, sources):
    """Return the text of the environment file."""
    head = [
        "# Written by vllm-fleet, role cann, from what these scripts set:",
        "# " + " ".join(sources),
    ]
    lines = ["%s=%s" % (name, quoted(variables[name])) for name in sorted(variables)]
    return "\n".join(head + lines) + "\n"


def quoted(value):
    """Return a value as systemd reads it back."""
    if re.match(r"^[A-Za-z0-9_./:,+@%=-]*$", value):
        return value
    escaped = re.sub(r'([\\"$`])', r"\\\1", value)
    return '"%s"' % escaped
