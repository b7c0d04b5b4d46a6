# SPDX-License-Identifier: GPL-3.0-or-later
"""Get a vendor's runfile with a known checksum, run it with a time limit, keep the one before."""

import os
import re
import shutil

from ansible.module_utils.urls import fetch_url
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import logged_run, safe_files

__metaclass__ = type

FOLDER = "/var/lib/vllm-fleet/nvidia"
SHA256 = re.compile(r"^[0-9a-f]{64}$")
LOCALE = {"LC_ALL": "C", "LANGUAGE": "C"}
_CHUNK = 1024 * 1024


def is_url(src):
    """Say whether the runfile must be downloaded."""
    return re.match(r"^https?://", src) is not None


def kept(src):
    """Return where a runfile is kept on the host."""
    return os.path.join(FOLDER, os.path.basename(src.split("?")[0]))


def wanted_sum(module):
    """Return the checksum in lower case, or fail."""
    wanted = module.params["sha256"].lower()
    if not SHA256.match(wanted):
        module.fail_json(msg="sha256 must be 64 hexadecimal digits, not %r" % wanted)
    return wanted


def _open(module, src):
    response, info = fetch_url(module, src, timeout=60)
    if response is None or info["status"] != 200:
        module.fail_json(msg="the runfile cannot be had: %s (%s)" % (src, info["msg"]))
    return response


def ask(module, src):
    """Fail where the runfile is not to be had; its content is not read. For check mode."""
    if os.path.isfile(kept(src)):
        return
    if is_url(src):
        _open(module, src).close()


def obtain(module, src, wanted):
    """Return the runfile on this host with the right checksum; fail before anything is run."""
    target = kept(src)
    if os.path.isfile(target) and safe_files.sha256_of(target) == wanted:
        return target
    if not os.path.isdir(FOLDER):
        os.makedirs(FOLDER, 0o755)
    draft = "%s.new" % target
    try:
        _fetch(module, src, draft)
        seen = safe_files.sha256_of(draft)
        if seen != wanted:
            module.fail_json(
                msg="wrong checksum: %s has SHA-256 %s, wanted %s. It was not run"
                % (src, seen, wanted)
            )
        os.chmod(draft, 0o644)
        module.atomic_move(draft, target)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)
    return target


def _fetch(module, src, draft):
    if not is_url(src) and not os.path.isfile(src):
        module.fail_json(msg="there is no runfile at %s on the host" % src)
    with open(draft, "wb") as stream:
        if is_url(src):
            shutil.copyfileobj(_open(module, src), stream, _CHUNK)
        else:
            with open(src, "rb") as source:
                shutil.copyfileobj(source, stream, _CHUNK)


def prune(pattern, keep):
    """Remove kept runfiles of a kind apart from the newest ``keep``: one is the way back."""
    if not os.path.isdir(FOLDER):
        return
    paths = [os.path.join(FOLDER, name) for name in os.listdir(FOLDER) if re.match(pattern, name)]
    for path in sorted(paths, key=os.path.getmtime, reverse=True)[keep:]:
        os.unlink(path)


def carry_out(module, command, log, timeout, what):
    """Run an installer; fail with what it said where it did not end well."""
    code = logged_run.run_logged(command, log, LOCALE, timeout)
    if code == 0:
        return
    told = " | ".join(logged_run.tail(log, 1500).strip().splitlines()[-8:])
    module.fail_json(
        msg="%s %s; %s ends with: %s" % (what, ending(code, timeout), log, told),
        rc=-1 if code is None else code,
        log=log,
    )


def ending(code, timeout):
    """Return how an installer ended, in words."""
    if code is None:
        return "did not end within %d seconds and was stopped" % timeout
    if code < 0:
        return "was killed by signal %d" % -code
    if code == 137:
        return "was killed (137): out of memory, or by somebody"
    return "ended with %d" % code


def driver_arguments(params, seen, busy):
    """Return the arguments of the driver's installer. Pure.

    The modprobe.d file and the initramfs are not the installer's here. A module that cannot be
    unloaded now is replaced on disk, and the next boot loads it.
    """
    words = ["--silent", "--no-x-check", "--no-nouveau-check", "--no-disable-nouveau"]
    words += ["--no-rebuild-initramfs", "--no-install-compat32-libs"]
    words.append(params["modules_argument"])
    words.append("--dkms" if params["dkms"] else "--no-dkms")
    words.append("--log-file-name=%s" % params["log"])
    if seen["nouveau"]:
        words.append("--skip-module-load")
    elif seen["loaded"] and busy:
        words.append("--allow-installation-with-running-driver")
        words += ["--skip-module-unload", "--skip-module-load"]
    return words + list(params["arguments"])
