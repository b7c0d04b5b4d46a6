#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a file whose content must not appear anywhere else."""

DOCUMENTATION = r"""
module: secret_file
short_description: Write a file whose content is never shown
version_added: 0.1.0
description:
  - Writes a file atomically, with its owner and mode set before the content is at its place.
  - The content appears in no result, log or diff. What leaves the host is a hash with a random
    salt, enough to see later whether the file still is what was written.
options:
  path:
    description: The file.
    type: path
    required: true
  content:
    description: The whole content. Required for O(state=present).
    type: str
  owner:
    description: Owner of the file.
    type: str
    default: root
  group:
    description: Group of the file.
    type: str
    default: root
  mode:
    description: Mode of the file as an octal string. Others never get access.
    type: str
    choices: ['0600', '0640', '0400', '0440']
    default: '0600'
  state:
    description: Whether the file is there.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    support: full
    description: Predicts, also where the directory is not there yet.
  diff_mode:
    support: partial
    description: Shows what differs.
    details: Says whether content, owner or mode differ, and never shows the content.
  idempotent:
    support: full
    description: Content, owner and mode are compared with what is there.
  safe_file_operations:
    support: full
    description: The file is replaced in one step.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Write the key that the engine wants from its callers
  vllm_fleet.baremetal.secret_file:
    path: /etc/vllm-fleet/secrets/r1.env
    content: "{{ {'VLLM_API_KEY': vault_r1_key} | vllm_fleet.baremetal.systemd_environment }}"
"""

RETURN = r"""
path:
  description: The file.
  returned: always
  type: str
  sample: /etc/vllm-fleet/secrets/r1.env
salted_hash:
  description: Random salt and SHA-256 of salt and content, joined by C($). Differs at each run.
  returned: when the file is wanted
  type: str
  sample: 9a0364b9e99bb480dd25e1f0284c8555$5b3d2c0f
"""

import grp
import hashlib
import os
import pwd
import stat
import tempfile

from ansible.module_utils.basic import AnsibleModule


def salted_hash(data, salt=None):
    """Return 'salt$sha256(salt + data)' with a random salt where none is given."""
    salt = os.urandom(16) if salt is None else salt
    return "%s$%s" % (salt.hex(), hashlib.sha256(salt + data).hexdigest())


def owner_id(name):
    """Return the user id of a name; None where this host does not have it (yet)."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def group_id(name):
    """Return the group id of a name; None where this host does not have it (yet)."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def wanted(params):
    """Return the attributes that the file should have."""
    return {
        "content": params["content"].encode("utf-8"),
        "owner": owner_id(params["owner"]),
        "group": group_id(params["group"]),
        "mode": int(params["mode"], 8),
    }


def present(path):
    """Return the attributes that the file has; None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return {"content": None, "owner": None, "group": None, "mode": None}
    with open(path, "rb") as stream:
        content = stream.read()
    mode = stat.S_IMODE(found.st_mode)
    return {"content": content, "owner": found.st_uid, "group": found.st_gid, "mode": mode}


def differences(before, after):
    """Return the names of the attributes that differ, in a fixed order."""
    if before is None or after is None:
        return [] if before is after else ["state"]
    return [name for name in ("content", "owner", "group", "mode") if before[name] != after[name]]


def write(module, path, want):
    """Replace the file in one step.

    Not by module.atomic_move(): that gives the new content the mode of the old file first.
    """
    handle, draft = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".secret-")
    module.add_cleanup_file(draft)
    with os.fdopen(handle, "wb") as stream:
        stream.write(want["content"])
    os.chown(draft, want["owner"], want["group"])
    os.chmod(draft, want["mode"])
    os.replace(draft, path)
    module.set_default_selinux_context(path, False)


def refuse_unknown_names(module, want):
    """Fail where the owner or the group is not on the host; check mode cannot know yet."""
    for name in ("owner", "group"):
        if want[name] is None and not module.check_mode:
            module.fail_json(msg="%s %s is not on this host" % (name, module.params[name]))


def diff_words(attributes, changed):
    """Return one side of the diff: which attributes differ, no content."""
    if attributes is None:
        return "absent\n"
    lines = ["present"]
    if attributes["mode"] is not None:
        lines.append("mode: %04o" % attributes["mode"])
    return "\n".join(lines + (["content: " + changed] if changed else [])) + "\n"


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "content": {"type": "str", "no_log": True},
            "owner": {"type": "str", "default": "root"},
            "group": {"type": "str", "default": "root"},
            "mode": {
                "type": "str",
                "choices": ["0600", "0640", "0400", "0440"],
                "default": "0600",
            },
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ["content"])],
        supports_check_mode=True,
    )
    path = module.params["path"]
    want = wanted(module.params) if module.params["state"] == "present" else None
    before = present(path)
    changed = differences(before, want)
    if want is not None:
        refuse_unknown_names(module, want)
    if changed and not module.check_mode:
        if want is None:
            os.unlink(path)
        else:
            write(module, path, want)
    hidden = "content" in changed
    result = {
        "changed": bool(changed),
        "path": path,
        "diff": {
            "before": diff_words(before, "hidden (old)" if hidden else ""),
            "after": diff_words(want, "hidden (new)" if hidden else ""),
        },
    }
    if want is not None:
        result["salted_hash"] = salted_hash(want["content"])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
