# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks of Python environments: read, filter, merge and write them. Pure: text in, data out.

A lock is the text that ``pip install --require-hashes`` reads: one ``name==version`` per line with
the SHA-256 of every file that may be installed for it.
"""

import hashlib
import json
import re

__metaclass__ = type

_NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==\s*([A-Za-z0-9.!+_-]+)$")
_HASH = re.compile(r"--hash=sha256:([0-9a-fA-F]{64})$")
_EXTRA = re.compile(r"\bextra\s*==")


class LockError(ValueError):
    """A lock, report or wheel that does not say what is needed."""


def normalise(name):
    """Return the one spelling under which an index knows a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_name(line):
    """Return the normalised name that a requirement line is about."""
    found = _NAME.match(line)
    if not found:
        raise LockError("not a requirement: %r" % line)
    return normalise(found.group(1))


def parse_lock(text):
    """Return {normalised name: {name, version, hashes}} of a lock."""
    pins = {}
    for line in _logical_lines(text):
        pin = _parse_line(line)
        if normalise(pin["name"]) in pins:
            raise LockError("the lock names %s twice" % pin["name"])
        pins[normalise(pin["name"])] = pin
    return pins


def _logical_lines(text):
    """Yield the lines of a lock: continued ones joined, comments and blank ones left out."""
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).strip()
        if line:
            yield line


def _parse_line(line):
    """Return the pin that one line of a lock holds."""
    words = line.split(";", 1)[0].split()
    hashes = [_HASH.match(word) for word in line.split() if word.startswith("--")]
    requirement = " ".join(word for word in words if not word.startswith("--"))
    pin = _PIN.match(requirement)
    if not pin:
        raise LockError("not pinned to one version: %r" % line)
    if not hashes or not all(hashes):
        raise LockError("no SHA-256 for %s: every line needs --hash=sha256:..." % requirement)
    return {
        "name": pin.group(1),
        "version": pin.group(2),
        "hashes": sorted(found.group(1).lower() for found in hashes),
    }


def render_lock(pins, comment=""):
    """Return the text of a lock: sorted, so that equal sets give equal text."""
    lines = ["# " + line for line in comment.splitlines()]
    for name in sorted(pins):
        hashes = " ".join("--hash=sha256:" + value for value in pins[name]["hashes"])
        lines.append("%s==%s %s" % (name, pins[name]["version"], hashes))
    return "\n".join(lines) + "\n"


def pins_from_report(report):
    """Return the pins of a report that ``pip install --dry-run --report`` wrote."""
    if str(report.get("version")) != "1":
        raise LockError("pip's report has version %r; 1 is known" % report.get("version"))
    pins = {}
    for item in report["install"]:
        metadata, archive = item["metadata"], item["download_info"].get("archive_info", {})
        sha256 = _report_hash(archive)
        if sha256 is None:
            raise LockError("pip's report has no SHA-256 for %s" % metadata["name"])
        pins[normalise(metadata["name"])] = {
            "name": metadata["name"],
            "version": metadata["version"],
            "hashes": [sha256],
        }
    return pins


def _report_hash(archive):
    """Return the SHA-256 that one entry of a report holds, or None."""
    found = archive.get("hashes", {}).get("sha256")
    if found is None and archive.get("hash", "").startswith("sha256="):
        found = archive["hash"].split("=", 1)[1]
    return found


def merge(pins, wheel, exclude):
    """Return ``pins`` without the excluded names, and with exactly this wheel for its name."""
    dropped = {requirement_name(item) for item in exclude}
    kept = {name: pin for name, pin in pins.items() if name not in dropped}
    kept[normalise(wheel["name"])] = {
        "name": wheel["name"],
        "version": wheel["version"],
        "hashes": [wheel["sha256"]],
    }
    return kept


def wheel_requirements(metadata, exclude):
    """Return the requirements in a wheel's METADATA: no extras, none of the excluded names."""
    dropped = {requirement_name(item) for item in exclude}
    wanted = []
    for line in metadata_fields(metadata).get("requires-dist", []):
        if _EXTRA.search(line) or requirement_name(line) in dropped:
            continue
        wanted.append(line)
    return wanted


def metadata_fields(metadata):
    """Return {lower-case field: [values]} of the header of a METADATA text."""
    fields = {}
    for line in metadata.split("\n\n", 1)[0].splitlines():
        name, colon, value = line.partition(": ")
        if colon and not name.startswith((" ", "\t")):
            fields.setdefault(name.lower(), []).append(value.strip())
    return fields


def stub_of(exclusion):
    """Return (name, version) of the stub that stands in for an excluded name.

    NAME stands for version 0, which satisfies requirements without a version; for others it has to
    be given as NAME==VERSION.
    """
    pin = _PIN.match(exclusion.strip())
    if pin:
        return normalise(pin.group(1)), pin.group(2)
    return requirement_name(exclusion), "0"


def digest(data):
    """Return the SHA-256 of a text, or of any data as canonical JSON."""
    if not isinstance(data, str):
        data = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(data.encode("utf-8")).hexdigest()
