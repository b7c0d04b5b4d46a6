# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings and the drop-in files that persist them. Pure: text in, data out."""

import fnmatch
import os
import re

__metaclass__ = type

# The directories of sysctl.d(5), the strongest first: a file hides those of its name further down.
DIRECTORIES = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)
_KEY = re.compile(r"^[a-z0-9_]+([./][A-Za-z0-9_:.@*-]+)+$")
_INTEGER = re.compile(r"^-?(0x[0-9a-fA-F]+|\d+)$")


class BadSetting(ValueError):
    """A setting that no kernel can take as written."""


def checked(values):
    """Return {name: text} of wanted settings; raise BadSetting where one cannot be meant."""
    return {_checked_name(name): _checked_value(name, value) for name, value in values.items()}


def _checked_name(name):
    text = str(name)
    if not _KEY.match(text) or ".." in text or "*" in text:
        raise BadSetting("%r is no name of a kernel setting, such as vm.swappiness" % text)
    return text


def _checked_value(name, value):
    if isinstance(value, bool):
        raise BadSetting("%s: %r is no value of a kernel setting: write 1 or 0" % (name, value))
    if isinstance(value, float):
        raise BadSetting("%s: %r is not a whole number, and the kernel wants one" % (name, value))
    if not isinstance(value, (int, str)):
        raise BadSetting("%s: %r is neither a number nor a text" % (name, value))
    text = str(value).strip()
    if not text or "\n" in text:
        raise BadSetting("%s: the value is empty or has several lines" % name)
    return text


def key_path(name):
    """Return the path below /proc/sys of a setting, in either notation of sysctl.d(5)."""
    if re.match(r"^[^./]*/", name):
        return name
    return name.translate({ord("."): "/", ord("/"): "."})


def same_value(wanted, seen):
    """Tell whether two texts are the same value for the kernel."""
    left, right = wanted.split(), seen.split()
    if len(left) != len(right):
        return False
    return all(_same_word(left[place], right[place]) for place in range(len(left)))


def _same_word(one, other):
    if one == other:
        return True
    if _INTEGER.match(one) and _INTEGER.match(other):
        return _number(one) == _number(other)
    return False


def _number(text):
    return int(text, 16 if "0x" in text else 10)


def render(header, values):
    """Return the text of a drop-in file."""
    lines = ["# %s" % line for line in header.splitlines()]
    lines += ["%s = %s" % (name, values[name]) for name in sorted(values)]
    return "\n".join(lines) + "\n"


def parse(text):
    """Return [(path or pattern below /proc/sys, value)] of a drop-in file, in its order."""
    found = []
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        name, separator, value = line.partition("=")
        if separator:
            found.append((key_path(name.strip().lstrip("-").strip()), value.strip()))
    return found


def ordered(listing):
    """Return the paths that systemd-sysctl reads, in its order.

    listing: {directory: [file names]}. A name found in a stronger directory hides the others.
    """
    chosen = {}
    for directory in DIRECTORIES:
        for name in listing.get(directory, []):
            if name.endswith(".conf"):
                chosen.setdefault(name, os.path.join(directory, name))
    return [chosen[name] for name in sorted(chosen)]


def persisted(path, files):
    """Return {value, file} that the next boot gives a setting; None where no file names it.

    files: [(file, its text)] in the order of reading. As in systemd-sysctl the last file wins, and
    a full name wins over a pattern.
    """
    exact, pattern = None, None
    for name, text in files:
        for key, value in parse(text):
            if key == path:
                exact = {"value": value, "file": name}
            elif "*" in key and fnmatch.fnmatchcase(path, key):
                pattern = {"value": value, "file": name}
    return exact or pattern


def overriding(values, ours, files):
    """Return {name: {value, file}} of the settings that another file gives another value."""
    found = {}
    for name, wanted in values.items():
        winner = persisted(key_path(name), files)
        if winner and winner["file"] != ours and not same_value(wanted, winner["value"]):
            found[name] = winner
    return found
