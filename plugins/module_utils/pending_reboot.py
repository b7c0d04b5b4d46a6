# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of what waits for a reboot: one file per reason, valid for the boot that wrote it."""

import json
import os

__metaclass__ = type

FOLDER = "/var/lib/vllm-fleet/pending-reboot.d"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def boot_id(host):
    """Return the id of the current boot."""
    return (host.read(_BOOT_ID) or "").strip()


def path(name):
    """Return the file of a reason."""
    return "%s/%s.json" % (FOLDER, name)


def wanted(host, reason):
    """Return the text of a record that is valid until the next boot."""
    record = {"schema": 1, "reason": reason, "boot_id": boot_id(host)}
    return json.dumps(record, indent=2, sort_keys=True) + "\n"


def waits(host, name, reason):
    """Tell whether the record says this reason and is of the current boot."""
    return bool(reason) and host.read(path(name)) == wanted(host, reason)


def settle(module, host, name, reason):
    """Make the record say the reason, or remove it where the reason is ''; return if changed."""
    before = host.read(path(name))
    text = wanted(host, reason) if reason else None
    if before == text:
        return False
    if text is None:
        os.unlink(path(name))
        return True
    if not os.path.isdir(FOLDER):
        os.makedirs(FOLDER, 0o755)
    draft = os.path.join(module.tmpdir, "pending-reboot")
    with open(draft, "wb") as stream:
        stream.write(text.encode("utf-8"))
    os.chmod(draft, 0o644)
    module.atomic_move(draft, path(name))
    return True
