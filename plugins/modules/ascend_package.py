#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one of the vendor's installers, and believe only the vendor's own records afterwards."""

DOCUMENTATION = r"""
module: ascend_package
short_description: Install, upgrade, take back or remove one Ascend package
version_added: 0.1.0
description:
  - Runs the installer (C(.run)) of driver, firmware, CANN toolkit, operators or NNAL, without
    asking anybody, with its output in C(/var/log/vllm-fleet) and a time limit.
  - Compares the checksum of the installer before it runs it, and the version in the vendor's own
    records afterwards. An installer that says success and leaves another version is a failure.
  - Where the records already say what is wanted, no installer runs.
  - Of the installers beside O(src) those of the new version and of the one before are kept; older
    ones of the same part are removed.
  - A driver or firmware whose installer says that a reboot is needed (exit code 2) leaves a record
    in C(/var/lib/vllm-fleet/pending-reboot.d). The module never reboots.
options:
  part:
    description: What the package brings.
    type: str
    choices: [driver, firmware, toolkit, ops, kernels, nnal]
    required: true
  action:
    description:
      - V(install) and V(repair) install, V(upgrade) and V(downgrade) replace, V(remove) removes.
    type: str
    choices: [install, repair, upgrade, downgrade, remove]
    required: true
  version:
    description: Version that is wanted. Not needed to remove.
    type: str
    default: ''
  src:
    description: The installer on the host, or the archive (C(.zip)) that holds it.
    type: path
  sha256:
    description: SHA-256 of O(src).
    type: str
    default: ''
  min_free_mb:
    description: Free megabytes that the place of installation needs.
    type: int
    default: 300
  timeout:
    description: Seconds after which the installer is stopped.
    type: int
    default: 1800
attributes:
  check_mode:
    support: full
    description: Predicts from the vendor's records; starts no installer.
  diff_mode:
    support: full
    description: Shows the version before and after.
  idempotent:
    support: full
    description: Does nothing where the records already say what is wanted.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Install the driver
  vllm_fleet.baremetal.ascend_package:
    part: driver
    action: install
    version: 25.5.1
    src: /var/lib/vllm-fleet/ascend/Ascend-hdk-910b-npu-driver_25.5.1_linux-aarch64.run
    sha256: "{{ ascend_driver_sha256 }}"
"""

RETURN = r"""
version:
  description: Version afterwards by the vendor's records; in check mode the one predicted.
  returned: always
  type: str
  sample: 25.5.1
exit_code:
  description: Exit code of the installer; -1 where none ran.
  returned: always
  type: int
  sample: 2
reboot_needed:
  description: Whether the installer said that a reboot is needed.
  returned: always
  type: bool
log:
  description: Where the installer's output is; empty where none ran.
  returned: always
  type: str
  sample: /var/log/vllm-fleet/ascend-driver.log
"""

import os
import platform
import shutil
import tempfile
import zipfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    ascend_devices,
    ascend_names,
    ascend_pending,
    ascend_records,
    ascend_run,
    pending_reboot,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.hostread import Host
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.safe_files import sha256_of

HDK = ("driver", "firmware")


def look(host, part, version):
    """Return the record of a part: of the generation of CANN that the version belongs to."""
    if part in HDK:
        return ascend_records.hdk(host)[part]
    if part == "nnal":
        return ascend_records.nnal(host)
    number = 1 if part == "kernels" else 2
    if part == "toolkit":
        number = ascend_records.generation(version or "8.5")
    return ascend_records.cann(host, number, platform.machine())[part]


def is_done(seen, action, version):
    """Tell whether the records already say what is wanted."""
    if action == "remove":
        return seen["state"] == ascend_records.ABSENT
    installed = seen["state"] == ascend_records.INSTALLED
    return installed and ascend_names.same_version(seen["version"], version)


def arguments(part, action, user, seen):
    """Return the installer's flags.

    A driver that was installed for root refuses --full, and takes --upgrade. Operators that are to
    be upgraded are absent where the toolkit's upgrade has begun a new directory.
    """
    if part in HDK:
        whole = action == "install" or (action == "repair" and user != "root")
        return ["--full", "--quiet", "--install-for-all"] if whole else ["--upgrade", "--quiet"]
    there = seen["state"] == ascend_records.INSTALLED
    verb = "--upgrade" if action == "upgrade" and there else "--install"
    return [verb, "--quiet", "--install-for-all"]


def remover(part, seen):
    """Return the vendor's own script that removes a part."""
    if part in HDK:
        return "%s/%s/script/uninstall.sh" % (seen["path"], part)
    name = "nnal_uninstall.sh" if part == "nnal" else "cann_uninstall.sh"
    return "%s/%s" % (seen["path"], name)


def with_toolkit(version, argv):
    """Return a command that runs an installer in the toolkit's environment, which NNAL needs."""
    script = ascend_records.set_env(ascend_records.generation(version))
    program = 'source "$1" >/dev/null 2>&1; shift; exec bash "$@"'
    return ["bash", "-c", program, "nnal", script] + argv


def checked_source(module):
    """Fail where the installer is missing or another file than wanted."""
    src, wanted = module.params["src"], module.params["sha256"].lower()
    if not src or not os.path.isfile(src):
        module.fail_json(msg="there is no installer at %s" % src)
    seen = sha256_of(src)
    if seen != wanted:
        module.fail_json(
            msg="wrong checksum: %s has SHA-256 %s, wanted %s. Nothing was run"
            % (src, seen, wanted)
        )
    return src


def installer(module, src, folder):
    """Return the path of the installer; an archive's is unpacked into the folder."""
    if not src.endswith(".zip"):
        return src
    part = module.params["part"]
    with zipfile.ZipFile(src) as archive:
        names = [name for name in archive.namelist() if _brings(name, part)]
        if len(names) != 1:
            module.fail_json(msg="%s holds %d installers of the %s" % (src, len(names), part))
        path = os.path.join(folder, os.path.basename(names[0]))
        with archive.open(names[0]) as packed, open(path, "wb") as stream:
            shutil.copyfileobj(packed, stream, 1024 * 1024)
    return path


def _brings(name, part):
    row = ascend_names.parse(os.path.basename(name))
    return bool(row) and row["part"] == part and row["kind"] == "run"


def refuse_unready(module):
    """Fail where devices are in use or the disk is short, before the installer starts."""
    part = module.params["part"]
    held = ascend_devices.holders() if part in HDK else []
    if held:
        module.fail_json(
            msg="the NPUs are in use by %s: stop them first. Nothing was run"
            % ascend_devices.in_words(held)
        )
    free, wanted = ascend_run.free_mb(ascend_records.ROOT), module.params["min_free_mb"]
    if module.params["action"] != "remove" and free < wanted:
        module.fail_json(
            msg="the disk of %s has %d MB free, the %s needs %d MB. Nothing was run"
            % (ascend_records.ROOT, free, part, wanted)
        )


def command(module, host, seen, folder):
    """Return the command line that does the action."""
    part, action = module.params["part"], module.params["action"]
    if action == "remove":
        script = remover(part, seen)
        if not os.path.isfile(script):
            module.fail_json(msg="the %s cannot be removed: there is no %s" % (part, script))
        return ["bash", script]
    path = installer(module, checked_source(module), folder)
    user = ascend_records.user_of(host.read(ascend_records.INSTALL_INFO))[0]
    argv = [path, "--nox11"] + arguments(part, action, user, seen)
    return with_toolkit(module.params["version"], argv) if part == "nnal" else ["bash"] + argv


def apply(module, host, seen):
    """Run the installer; return (exit code, log)."""
    part = module.params["part"]
    refuse_unready(module)
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as folder:
        argv = command(module, host, seen, folder)
        code, said, log = ascend_run.run(argv, "ascend-" + part, module.params["timeout"])
    good = (0, ascend_run.REBOOT_NEEDED) if part in HDK else (0,)
    if code not in good:
        module.fail_json(
            msg="the installer of the %s failed: %s. It ended with: %s. Its whole output is in %s"
            % (part, ascend_run.reason(code, said), ascend_run.last_lines(said), log),
            exit_code=-1 if code is None else code,
            log=log,
        )
    return code, log


def verify(module, host, code, log):
    """Return the version on record; fail where it is not the wanted one."""
    part, action, version = [module.params[key] for key in ("part", "action", "version")]
    seen = look(host, part, version)
    if not is_done(seen, action, version):
        wanted = "nothing" if action == "remove" else version
        found = seen["version"] or seen["state"]
        module.fail_json(
            msg="the installer of the %s ended with exit code %s, but the vendor's records say %s, "
            "not %s. Its output is in %s" % (part, code, found, wanted, log),
            exit_code=code,
            log=log,
        )
    return seen["version"]


def outdated(names, src, version, before):
    """Return the installers of the same part that are no way back any more.

    ``names`` has the newest file first. Where the version before is unknown (an upgraded toolkit
    takes the record of the operators with it) that is the newest file.
    """
    mine = ascend_names.parse(os.path.basename(src))
    rows = [(name, ascend_names.parse(name)) for name in names]
    others = [
        (name, row["version"])
        for name, row in rows
        if row and mine and (row["part"], row["chip"]) == (mine["part"], mine["chip"])
        if not ascend_names.same_version(row["version"], version)
    ]
    back = [name for name, seen in others if before and ascend_names.same_version(seen, before)]
    kept = back or [name for name, _seen in others[:1]]
    return [name for name, _seen in others if name not in kept]


def prune(module, before):
    """Remove installers that are no way back any more; archives are left alone."""
    src = module.params["src"]
    if not src or not src.endswith(".run"):
        return
    folder = os.path.dirname(src)
    names = [name for name in os.listdir(folder) if name.endswith(".run")]
    names.sort(key=lambda name: os.path.getmtime(os.path.join(folder, name)), reverse=True)
    for name in outdated(names, src, module.params["version"], before):
        os.unlink(os.path.join(folder, name))


def record_reboot(module, host, code):
    """Record that a reboot is needed, or that none is any more."""
    part, version = module.params["part"], module.params["version"]
    what = "%s %s is installed" % (part, version) if version else "%s is removed" % part
    needed = code == ascend_run.REBOOT_NEEDED
    reason = "the Ascend %s and becomes active with the next boot" % what if needed else ""
    pending_reboot.settle(module, host, ascend_pending.name_of(part), reason)
    return needed


def main():
    module = AnsibleModule(
        argument_spec={
            "part": {
                "type": "str",
                "required": True,
                "choices": ["driver", "firmware", "toolkit", "ops", "kernels", "nnal"],
            },
            "action": {
                "type": "str",
                "required": True,
                "choices": ["install", "repair", "upgrade", "downgrade", "remove"],
            },
            "version": {"type": "str", "default": ""},
            "src": {"type": "path"},
            "sha256": {"type": "str", "default": ""},
            "min_free_mb": {"type": "int", "default": 300},
            "timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    part, action, version = [module.params[key] for key in ("part", "action", "version")]
    host = Host()
    seen = look(host, part, version)
    changed = not is_done(seen, action, version)
    code, log, needed, now = -1, "", False, "" if action == "remove" else version
    if changed and not module.check_mode:
        code, log = apply(module, host, seen)
        now = verify(module, host, code, log)
        prune(module, seen["version"])
        needed = part in HDK and record_reboot(module, host, code)
    module.exit_json(
        changed=changed,
        version=now,
        exit_code=code,
        reboot_needed=needed,
        log=log,
        diff={
            "before": "%s %s\n" % (part, seen["version"] or seen["state"]),
            "after": "%s %s\n" % (part, now or "absent"),
        },
    )


if __name__ == "__main__":
    main()
