#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set kernel settings, persist them in one file of our own, and read them back."""

DOCUMENTATION = r"""
module: sysctl
short_description: Set kernel settings and read them back
version_added: 0.1.0
description:
  - Writes one drop-in file, which belongs to this module as a whole, and gives the running kernel
    the same values. No other setting is reloaded.
  - Reads every running value again afterwards. A value that the kernel did not take is a failure.
  - A file that is read later and gives another value is named, since it would undo the setting at
    the next boot.
options:
  values:
    description: The settings. An empty mapping removes the file and leaves the running values.
    type: dict
    required: true
  path:
    description: The drop-in file.
    type: path
    default: /etc/sysctl.d/90-vllm-fleet.conf
  header:
    description: First lines of the file, as a comment.
    type: str
    default: Written by vllm-fleet
  readonly:
    description:
      - What to do with a setting that differs and cannot be written on this host, as in a
        container that shares its kernel.
      - V(fail) refuses before anything is changed, V(report) persists it and lists it in
        RV(not_settable).
    type: str
    choices: [fail, report]
    default: fail
  overridden:
    description: What to do when another file undoes a setting at the next boot.
    type: str
    choices: [fail, report]
    default: fail
attributes:
  check_mode:
    support: full
    description: Predicts the file and the running values. The kernel may still refuse a value.
  diff_mode:
    support: full
    description: Shows the file and the running values as two parts.
  idempotent:
    support: full
    description: The file and each running value are compared with what is wanted.
  safe_file_operations:
    support: full
    description: The file is replaced in one step.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Keep the kernel from swapping and allow many mappings
  vllm_fleet.baremetal.sysctl:
    values:
      vm.swappiness: 10
      vm.max_map_count: 262144
"""

RETURN = r"""
path:
  description: The drop-in file.
  returned: always
  type: str
  sample: /etc/sysctl.d/90-vllm-fleet.conf
persisted:
  description: What the file gave each setting before; null where it did not name it.
  returned: always
  type: dict
  sample: {vm.swappiness: "60"}
running:
  description: Value of each setting in the running kernel, read at the end.
  returned: always
  type: dict
  sample: {vm.swappiness: "10"}
running_before:
  description: Value of each setting in the running kernel, read at the start.
  returned: always
  type: dict
  sample: {vm.swappiness: "60"}
not_settable:
  description: Settings that differ and cannot be written on this host.
  returned: always
  type: list
  elements: str
  sample: [vm.swappiness]
overridden:
  description: Settings that another file gives another value at the next boot, with both.
  returned: always
  type: dict
  sample: {vm.swappiness: {value: "60", file: /etc/sysctl.d/99-local.conf}}
"""

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import hostread, sysctl_files

PROC = "/proc/sys/"


def read_running(host, names):
    """Return {name: value} of the running kernel; None where it has no such setting."""
    found = {}
    for name in names:
        text = host.read(PROC + sysctl_files.key_path(name))
        found[name] = text if text is None else " ".join(text.split())
    return found


def read_files(host, ours, text):
    """Return [(file, text)] in the order of the next boot, with our file as it will be."""
    listing = {folder: host.names(folder) for folder in sysctl_files.DIRECTORIES}
    folder, name = os.path.split(ours)
    listing[folder] = sorted(set(listing.get(folder, [])) | {name})
    return [
        (path, text if path == ours else host.read(path) or "")
        for path in sysctl_files.ordered(listing)
    ]


def check(host, params):
    """Return what is, what is wanted, and what stands against it. Changes nothing."""
    values = sysctl_files.checked(params["values"])
    path = params["path"]
    text = sysctl_files.render(params["header"], values) if values else None
    before = host.read(path)
    running = read_running(host, values)
    missing = sorted(name for name in values if running[name] is None)
    differing = [
        name
        for name in sorted(values)
        if name not in missing and not sysctl_files.same_value(values[name], running[name])
    ]
    ours = dict(sysctl_files.parse(before or ""))
    return {
        "values": values,
        "text": text,
        "before": before,
        "running": running,
        "missing": missing,
        "differing": differing,
        "not_settable": [name for name in differing if not settable(host, name)],
        "overridden": sysctl_files.overriding(values, path, read_files(host, path, text or "")),
        "persisted": {name: ours.get(sysctl_files.key_path(name)) for name in values},
    }


def settable(host, name):
    """Tell whether this host may write the setting (asks, does not try)."""
    return os.access(host.path(PROC + sysctl_files.key_path(name)), os.W_OK)


def problems(found, params):
    """Return what forbids to go on, one sentence each."""
    told = [
        "%s: the running kernel has no such setting (a module may have to be loaded first)" % name
        for name in found["missing"]
    ]
    if params["readonly"] == "fail":
        told += [
            "%s: is %s, wanted %s, and not settable here: /proc/sys is read-only for it"
            " (a container shares its kernel: set it on the machine below, or only report it, with"
            " readonly: report; option os_baseline_sysctl_readonly of the role)"
            % (name, found["running"][name], found["values"][name])
            for name in found["not_settable"]
        ]
    if params["overridden"] == "fail":
        told += [
            "%s: %s gives it %s after %s and undoes it at the next boot: remove that line"
            % (name, winner["file"], winner["value"], params["path"])
            for name, winner in sorted(found["overridden"].items())
        ]
    return told


def diff(found, path):
    """Return the file and the running values, before and after."""
    changing = [name for name in found["differing"] if name not in found["not_settable"]]
    return [
        {
            "before_header": path,
            "after_header": path,
            "before": found["before"] or "",
            "after": found["text"] or "",
        },
        {
            "before_header": "running kernel",
            "after_header": "running kernel",
            "before": "".join("%s = %s\n" % (n, found["running"][n]) for n in changing),
            "after": "".join("%s = %s\n" % (n, found["values"][n]) for n in changing),
        },
    ]


def write_file(module, path, text):
    """Replace or remove the drop-in file."""
    if text is None:
        os.unlink(path)
        return
    if not os.path.isdir(os.path.dirname(path)):
        os.makedirs(os.path.dirname(path), 0o755)
    handle, draft = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "wb") as stream:
        stream.write(text.encode("utf-8"))
    os.chmod(draft, 0o644)
    module.atomic_move(draft, path)


def apply(module, host, found):
    """Write the file and the running values; return the sentences of what the kernel refused."""
    if found["before"] != found["text"]:
        write_file(module, module.params["path"], found["text"])
    names = [name for name in found["differing"] if name not in found["not_settable"]]
    errors = {name: write_running(host, name, found["values"][name]) for name in names}
    seen = read_running(host, names)
    told = []
    for name in names:
        if errors[name] or not sysctl_files.same_value(found["values"][name], seen[name] or ""):
            reason = errors[name] or "no error"
            told.append(
                "%s: wanted %s, the kernel says %s after the write (%s)"
                % (name, found["values"][name], seen[name], reason)
            )
    return told


def write_running(host, name, value):
    """Give the kernel a value; return its error as text, '' where there was none."""
    try:
        with open(host.path(PROC + sysctl_files.key_path(name)), "wb") as stream:
            stream.write(value.encode("utf-8") + b"\n")
    except (IOError, OSError) as error:
        return str(error)
    return ""


def report(module, host, found, changed):
    """Return the result of the module."""
    running = read_running(host, found["values"])
    result = {
        "changed": changed,
        "path": module.params["path"],
        "persisted": found["persisted"],
        "running": running,
        "running_before": found["running"],
        "not_settable": found["not_settable"],
        "overridden": found["overridden"],
    }
    if changed and module._diff:
        result["diff"] = diff(found, module.params["path"])
    return result


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "values": {"type": "dict", "required": True},
            "path": {"type": "path", "default": "/etc/sysctl.d/90-vllm-fleet.conf"},
            "header": {"type": "str", "default": "Written by vllm-fleet"},
            "readonly": {"type": "str", "choices": ["fail", "report"], "default": "fail"},
            "overridden": {"type": "str", "choices": ["fail", "report"], "default": "fail"},
        },
        supports_check_mode=True,
    )
    host = hostread.Host()
    try:
        found = check(host, module.params)
    except sysctl_files.BadSetting as error:
        module.fail_json(msg="values: %s" % error)
    told = problems(found, module.params)
    if told:
        module.fail_json(msg="; ".join(told), **report(module, host, found, False))
    settled = set(found["differing"]) <= set(found["not_settable"])
    changed = found["before"] != found["text"] or not settled
    refused = apply(module, host, found) if changed and not module.check_mode else []
    for name in found["not_settable"]:
        module.warn("%s is persisted only: not settable on this host" % name)
    result = report(module, host, found, changed)
    if refused:
        module.fail_json(msg="; ".join(refused), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
