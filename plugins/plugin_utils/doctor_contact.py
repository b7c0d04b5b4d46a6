# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with reaching a host: the login, and the Python that modules run on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import resolver_engine
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.doctor_types import Scene, Seen

MARK = "==vllm-fleet-probe=="
# Plain sh, and nothing but its own words: the host may have no Python and little else.
PROBE = f"""echo '{MARK}'
for name in "$@"; do
path=$(command -v "$name" 2>/dev/null) || continue
said=$("$path" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null </dev/null)
echo "python $name $path $said"
done
echo "kernel $(uname -r 2>/dev/null)"
echo '{MARK}'"""
TOO_OLD = "vllm-fleet: no usable Python"
_LOCALE = re.compile(r"cannot change locale \(([^)]*)\)|Setting locale failed", re.IGNORECASE)
# ssh's own words and sudo's are no noise of a start-up file.
_HARMLESS = re.compile(
    r"^(Warning: Permanently added|Connection to |Shared connection|debug\d|OpenSSH_|BECOME-SUCCESS"
    r"|Authorized uses only|\*\* |mux_client)"
)
# Where the text of a failed login says why; the first that matches counts.
_LOGIN = (
    ("host-key-changed", r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key .* has changed"),
    ("host-key-unknown", r"Host key verification failed|No \S+ host key is known"),
    ("login-refused", r"Permission denied|Too many authentication failures|Authentication failed"),
    ("port-refused", r"Connection refused"),
    ("name-unknown", r"Could not resolve hostname|Name or service not known"),
    ("no-answer", r"timed out|No route to host|Network is unreachable|Host is down"),
)
_BECOME = r"sudo: |[Mm]issing sudo password|Incorrect sudo password|become password|BECOME-SUCCESS"


def unreachable(message: str) -> Seen:
    """Return the finding for a login that failed."""
    for code, pattern in _LOGIN:
        if re.search(pattern, message):
            return Seen(code, message)
    return Seen("host-unreachable", message)


def broken_off(message: str, timed_out: bool = False) -> Seen:
    """Return the finding for an examination that failed on a host that was reached."""
    if timed_out or re.search(r"[Tt]imed out|did not (?:complete|end) (?:with)?in", message):
        return Seen("host-hangs", message)
    if re.search(_BECOME, message):
        return Seen("become-failed", message)
    return Seen("examination-failed", message)


def parse_probe(stdout: str, stderr: str) -> dict[str, Any]:
    """Return {pythons, kernel, noise, errors, complete} of the probe's output."""
    before, _mark, rest = stdout.replace("\r", "").partition(MARK)
    inside, end, after = rest.partition(MARK)
    pythons = [_python(line) for line in inside.splitlines() if line.startswith("python ")]
    kernel = re.search(r"^kernel (\S+)", inside, re.MULTILINE)
    return {
        "pythons": _distinct(pythons),
        "kernel": kernel.group(1) if kernel else "",
        "noise": " ".join(f"{before} {after}".split())[:240],
        "errors": _complaints(stderr),
        "complete": bool(end),
    }


def _python(line: str) -> dict[str, str]:
    _word, name, path, *version = line.split()
    return {"name": name, "path": path, "version": version[0] if version else ""}


def _distinct(pythons: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return those that start, each path once."""
    return list({row["path"]: row for row in reversed(pythons) if row["version"]}.values())[::-1]


def _complaints(stderr: str) -> list[str]:
    lines = [line.strip() for line in stderr.splitlines()]
    return [line for line in lines if line and not _HARMLESS.match(line)][:8]


def usable(probe: Mapping[str, Any], scene: Scene) -> list[str]:
    """Return the interpreters of the host that this ansible-core can use, in its own order."""
    rows = probe["pythons"]
    return [row["path"] for row in rows if _verdict(row["version"], scene).verdict != "bad"]


def _verdict(version: str, scene: Scene) -> Any:
    return resolver_engine.judge_python(scene.catalog or {}, scene.core, version)


def judge(probe: Mapping[str, Any], wanted: str, scene: Scene) -> Iterator[Seen]:
    """Judge the login and the interpreters; wanted: the one that Ansible would take, if known."""
    if probe["noise"]:
        yield Seen("login-noise", f"the login printed: {probe['noise']}")
    for line in probe["errors"]:
        if _LOCALE.search(line):
            yield Seen("locale-missing", line)
            break
    if probe["complete"]:
        yield from _judge_pythons(probe["pythons"], wanted, scene)


def _judge_pythons(rows: Sequence[Mapping[str, str]], wanted: str, scene: Scene) -> Iterator[Seen]:
    taken = next((row for row in rows if wanted in (row["path"], row["name"])), None)
    taken = taken or (rows[0] if rows and not wanted else None)
    good = [row for row in rows if _verdict(row["version"], scene).verdict != "bad"]
    named = ", ".join(f"{row['path']} ({row['version']})" for row in rows)
    if taken is not None and taken in good:
        return
    if good:
        first = f"{wanted or rows[0]['path']}"
        why = f"is {taken['version']}" if taken else "is not there or does not start"
        use = good[0]["path"]
        yield Seen("python-wrong-one", f"{first} {why}; use {use} (the host has {named})")
    elif rows:
        told = _verdict(rows[0]["version"], scene)
        said = f"the host has {named}. {told.reason.rstrip('.')}. {told.remedy}"
        yield Seen("python-too-old", said.strip())
    else:
        where = f"{wanted} is not there, and " if wanted else ""
        yield Seen("python-none", f"{where}none of the names that Ansible tries is in the PATH")
