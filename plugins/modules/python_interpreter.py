#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at a Python interpreter by running it."""

DOCUMENTATION = r"""
module: python_interpreter
short_description: Verify that a Python interpreter can carry an engine
version_added: 0.1.0
description:
  - Runs the interpreter and reads its version and whether it has the parts of the standard library
    that an engine needs.
  - Refuses the interpreter of the system, since a change to it breaks the package manager.
  - Changes nothing.
options:
  executable:
    description: Absolute path of the interpreter.
    type: path
    required: true
  version:
    description: The version that it must have, as major and minor number. Quote it in YAML.
    type: str
    required: true
  required_modules:
    description: Modules of the standard library that must import.
    type: list
    elements: str
    default: [ssl, venv, ensurepip, ctypes, sqlite3, zlib, bz2, lzma]
  system_executables:
    description: Interpreters that belong to the system; the interpreter must not be one of these.
    type: list
    elements: path
    default: [/usr/bin/python3, /usr/libexec/platform-python]
  missing_ok:
    description: Do not fail where the executable is not there; RV(found) tells.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: Reads only.
  diff_mode:
    support: none
    description: Changes nothing.
  idempotent:
    support: full
    description: Changes nothing.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Verify the interpreter
  vllm_fleet.baremetal.python_interpreter:
    executable: /opt/vllm/python/3.11/bin/python3
    version: "3.11"
"""

RETURN = r"""
found:
  description: Whether the executable is there.
  returned: always
  type: bool
  sample: true
executable:
  description: The path that was asked for.
  returned: always
  type: str
  sample: /opt/vllm/python/3.11/bin/python3
realpath:
  description: The file that the path leads to.
  returned: when found
  type: str
  sample: /opt/vllm/python/3.11/bin/python3.11
version:
  description: The full version.
  returned: when found
  type: str
  sample: 3.11.13
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule

PROGRAM = (
    "import importlib, json, sys\n"
    "missing = []\n"
    "for name in sys.argv[1:]:\n"
    "    try:\n"
    "        importlib.import_module(name)\n"
    "    except ImportError as error:\n"
    "        missing.append('%s (%s)' % (name, error))\n"
    "print(json.dumps({'version': '.'.join(map(str, sys.version_info[:3])), 'missing': missing}))\n"
)


def system_file(executable, system_executables):
    """Return the system's interpreter that ``executable`` leads to, or None."""
    real = os.path.realpath(executable)
    for candidate in system_executables:
        if os.path.exists(candidate) and os.path.realpath(candidate) == real:
            return candidate
    return None


def judge(seen, wanted, executable):
    """Return what is wrong with an interpreter, or None."""
    if seen["version"].split(".")[:2] != wanted.split(".")[:2]:
        return "%s is Python %s, not %s" % (executable, seen["version"], wanted)
    if seen["missing"]:
        return "%s lacks modules of the standard library: %s" % (
            executable,
            ", ".join(seen["missing"]),
        )
    return None


def examine(module, executable, names):
    """Run the interpreter and return what it says about itself."""
    rc, out, err = module.run_command(
        ["timeout", "60", executable, "-I", "-c", PROGRAM] + names,
        environ_update={"LC_ALL": "C", "LANGUAGE": "C"},
    )
    try:
        return json.loads(out)
    except ValueError:
        module.fail_json(
            msg="%s does not run (exit code %s): %s" % (executable, rc, (err or out).strip()[-500:])
        )


def check(module):
    """Return the result, or fail with the reason."""
    executable = module.params["executable"]
    if not os.path.exists(executable):
        if module.params["missing_ok"]:
            return {"found": False, "executable": executable}
        module.fail_json(msg="there is no interpreter at %s" % executable)
    system = system_file(executable, module.params["system_executables"])
    if system:
        module.fail_json(
            msg="%s is the system's own interpreter (%s): engines must not be installed into it. "
            "Choose another version, or python_runtime_source: archive" % (executable, system)
        )
    seen = examine(module, executable, module.params["required_modules"])
    problem = judge(seen, module.params["version"], executable)
    if problem:
        module.fail_json(msg=problem)
    return {
        "found": True,
        "executable": executable,
        "realpath": os.path.realpath(executable),
        "version": seen["version"],
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "executable": {"type": "path", "required": True},
            "version": {"type": "str", "required": True},
            "required_modules": {
                "type": "list",
                "elements": "str",
                "default": ["ssl", "venv", "ensurepip", "ctypes", "sqlite3", "zlib", "bz2", "lzma"],
            },
            "system_executables": {
                "type": "list",
                "elements": "path",
                "default": ["/usr/bin/python3", "/usr/libexec/platform-python"],
            },
            "missing_ok": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, **check(module))


if __name__ == "__main__":
    main()
