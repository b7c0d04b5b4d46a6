# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a vendor's installer, and say what its exit code and its words mean."""

import os
import re

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import logged_run

__metaclass__ = type

LOG_FOLDER = "/var/log/vllm-fleet"
REBOOT_NEEDED = 2
ENVIRONMENT = {"LC_ALL": "C", "LANGUAGE": "C"}
_CODE = re.compile(r"ERR_NO:(0x[0-9A-Fa-f]{4})")
_CODES = {
    "0x0003": "a path is wrong",
    "0x0004": "it was given wrong parameters",
    "0x0080": "it is not installed",
    "0x0091": "the user in /etc/ascend_install.info is missing or not allowed",
    "0x0094": "another installation is running",
    "0x0095": "the user differs from the one of the last installation",
    "0x0096": "user and group do not belong together",
}
_TEXTS = (
    (r"No space left on device", "the disk is full"),
    (r"Read-only file system", "the file system is read-only"),
    (r"list of missing tools: *(\S+)", "tools are missing: {0}"),
    (
        r"Decompression failed|Extraction failed",
        "it could not unpack itself (is tar there, and room?)",
    ),
    (r"(?i)(?:process|device)[^\n]*(?:is|being) (?:used|occupied)", "devices are in use"),
)
KILLED = {
    137: "it was killed (SIGKILL): out of memory, or somebody ended it",
    143: "it was ended (SIGTERM)",
}


def reason(code, said):
    """Return why an installer failed, from its exit code and its last words."""
    if code is None:
        return "it did not end within the time limit and was stopped"
    number = -code + 128 if code < 0 else code
    found = _CODE.search(said)
    if found and found.group(1).lower() in _CODES:
        return "%s (ERR_NO:%s)" % (_CODES[found.group(1).lower()], found.group(1))
    for pattern, words in _TEXTS:
        match = re.search(pattern, said)
        if match:
            return words.format(*match.groups())
    return KILLED.get(number, "exit code %s" % number)


def free_mb(path):
    """Return the free megabytes of the file system that a path is, or will be, on."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    seen = os.statvfs(path)
    return seen.f_bavail * seen.f_frsize // (1024 * 1024)


def run(command, name, timeout):
    """Run a command; return (exit code or None, its last words, its log)."""
    if not os.path.isdir(LOG_FOLDER):
        os.makedirs(LOG_FOLDER, 0o750)
    log = "%s/%s.log" % (LOG_FOLDER, name)
    before = os.path.getsize(log) if os.path.exists(log) else 0
    code = logged_run.run_logged(command, log, ENVIRONMENT, timeout)
    # What earlier installers said stands before it.
    size = min(os.path.getsize(log) - before, logged_run.TAIL)
    return code, logged_run.tail(log, size), log


def last_lines(said, number=4):
    """Return the last lines of a text in one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return " | ".join(lines[-number:])
