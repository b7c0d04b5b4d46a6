# SPDX-License-Identifier: GPL-3.0-or-later
"""Run systemctl and journalctl for a module: C locale, a time limit, text out."""

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.engine_state import (
    PROPERTIES,
    parse_show,
)

C_LOCALE = {"LC_ALL": "C", "LANGUAGE": "C"}
ASK_LIMIT = 30


def run(module, argv, limit=ASK_LIMIT):
    """Run a command under a time limit; return (rc, stdout, stderr)."""
    timed = [module.get_bin_path("timeout", required=True), "-k", "10", str(limit)]
    rc, out, err = module.run_command(timed + argv, environ_update=C_LOCALE)
    if rc == 124:
        err = "no answer within %d seconds" % limit
    return rc, out, err


def show(module, unit):
    """Return what systemd knows about the unit (LoadState=not-found where it is not there)."""
    argv = [_systemctl(module), "show", "--no-pager", "--property", ",".join(PROPERTIES), unit]
    rc, out, err = run(module, argv)
    if rc != 0:
        module.fail_json(msg="systemctl show %s failed: %s" % (unit, (err or out).strip()))
    return parse_show(out)


def change(module, words, limit=ASK_LIMIT, unit=None):
    """Run a systemctl verb that changes something; fail with what it and the unit's journal say."""
    rc, out, err = run(module, [_systemctl(module)] + words, limit)
    if rc != 0:
        said = " ".join((err or out).split())
        lines = journal(module, unit) if unit else []
        module.fail_json(
            msg="systemctl %s failed: %s%s" % (" ".join(words), said, journal_words(lines)),
            journal=lines,
        )


def journal_words(lines):
    """Return the end of a journal as the end of a message."""
    return "; its journal ends with: %s" % " | ".join(lines[-5:]) if lines else ""


def journal(module, unit, lines=20):
    """Return the last lines of the unit's journal; empty where there is none."""
    binary = module.get_bin_path("journalctl")
    if binary is None:
        return []
    argv = [binary, "--no-pager", "--output", "cat", "--lines", str(lines), "--unit", unit]
    rc, out, _err = run(module, argv)
    return out.splitlines() if rc == 0 else []


def _systemctl(module):
    return module.get_bin_path("systemctl", required=True)
