# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a host must reboot before its Ascend software runs as it is installed."""

import json

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import pending_reboot

__metaclass__ = type

# A version that runs although another is installed; the others are what installers asked for.
OWN = "ascend"
PARTS = ("driver", "firmware")


def name_of(part):
    """Return the name of the record of what a part's installer asked for."""
    return "ascend-" + part


def asked(host):
    """Return what installers asked for since the host booted."""
    return _reasons(host, [name_of(part) for part in PARTS])


def reasons(host):
    """Return every reason that still holds."""
    return asked(host) + _reasons(host, [OWN])


def _reasons(host, names):
    found = []
    for name in names:
        record = _record(host.read(pending_reboot.path(name)))
        if record.get("boot_id") == pending_reboot.boot_id(host):
            found.append(record.get("reason", name))
    return found


def _record(text):
    try:
        record = json.loads(text or "{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
