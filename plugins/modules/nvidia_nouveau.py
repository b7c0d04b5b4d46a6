#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the kernel from loading nouveau, in the running system and in the initramfs."""

DOCUMENTATION = r"""
module: nvidia_nouveau
short_description: Keep the kernel from loading nouveau
version_added: 0.1.0
description:
  - Writes a file for modprobe, and rebuilds the initramfs of the running kernel where it is older
    than that file, so that a run that was cut off between the two is made good by the next one.
  - Nouveau that is loaded goes with the next boot only, which is recorded as a pending reboot.
options:
  state:
    description: V(present) keeps nouveau away. V(absent) removes the file.
    type: str
    choices: [present, absent]
    default: present
  path:
    description: The file for modprobe.
    type: path
    default: /etc/modprobe.d/vllm-fleet-nouveau.conf
  timeout:
    description: Seconds after which the tool that builds the initramfs is stopped.
    type: int
    default: 600
attributes:
  check_mode:
    support: full
    description: Predicts the file and whether the initramfs is built again; starts no tool.
  diff_mode:
    support: full
    description: Shows the file.
  idempotent:
    support: full
    description: The file is compared, and the initramfs by its time.
  safe_file_operations:
    support: full
    description: The file is replaced in one step.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Keep nouveau away
  vllm_fleet.baremetal.nvidia_nouveau:
"""

RETURN = r"""
loaded:
  description: Whether nouveau is loaded now.
  returned: always
  type: bool
  sample: false
initramfs:
  description: The initramfs that was built again, or would be; empty where none was.
  returned: always
  type: str
  sample: /boot/initramfs-5.10.0-136.12.0.86.x86_64.img
reboot_required:
  description: Whether nouveau goes with the next boot only.
  returned: always
  type: bool
  sample: false
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    hostread,
    nvidia_state,
    pending_reboot,
)

PENDING = "nvidia-nouveau"
REASON = "nouveau is loaded; the next boot leaves it out"
TEXT = "# Written by vllm-fleet\nblacklist nouveau\noptions nouveau modeset=0\n"
IMAGES = ("/boot/initramfs-%s.img", "/boot/initrd.img-%s")


def initramfs(release):
    """Return the initramfs of a kernel; '' where it boots without one."""
    return next((form % release for form in IMAGES if os.path.exists(form % release)), "")


def stale(image, path, rewritten):
    """Tell whether an initramfs was built before the file was written."""
    if not image:
        return False
    if rewritten or not os.path.exists(path):
        return rewritten
    return os.path.getmtime(image) < os.path.getmtime(path)


def builder(image, release):
    """Return the command that builds an initramfs again."""
    if "initrd.img" in image:
        return ["update-initramfs", "-u", "-k", release]
    return ["dracut", "--force", image, release]


def put(module, path, text):
    """Replace or remove the file."""
    if text is None:
        os.unlink(path)
        return
    draft = os.path.join(module.tmpdir, "nouveau")
    with open(draft, "wb") as stream:
        stream.write(text.encode("utf-8"))
    os.chmod(draft, 0o644)
    if not os.path.isdir(os.path.dirname(path)):
        os.makedirs(os.path.dirname(path), 0o755)
    module.atomic_move(draft, path)


def build(module, image, release):
    """Build the initramfs again, and read its time back."""
    command = builder(image, release)
    code, out = nvidia_state.runner(module, module.params["timeout"])(command)
    if code != 0:
        module.fail_json(msg="%s ended with %d: %s" % (" ".join(command), code, out.strip()[-500:]))
    if stale(image, module.params["path"], False):
        module.fail_json(msg="%s ended well, and %s is as old as before" % (command[0], image))


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "path": {"type": "path", "default": "/etc/modprobe.d/vllm-fleet-nouveau.conf"},
            "timeout": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    host, path = hostread.Host(), module.params["path"]
    wanted = TEXT if module.params["state"] == "present" else None
    before = host.read(path)
    release = os.uname()[2]
    image = initramfs(release)
    rebuild = stale(image, path, before != wanted)
    loaded = host.exists("/sys/module/nouveau")
    waits = loaded and wanted is not None
    changed = before != wanted or rebuild
    if not module.check_mode:
        if before != wanted:
            put(module, path, wanted)
        if rebuild:
            build(module, image, release)
        reason = REASON if waits else ""
        changed = pending_reboot.settle(module, host, PENDING, reason) or changed
    module.exit_json(
        changed=changed,
        loaded=loaded,
        initramfs=image if rebuild else "",
        reboot_required=waits,
        diff={
            "before_header": path,
            "after_header": path,
            "before": before or "",
            "after": wanted or "",
        },
    )


if __name__ == "__main__":
    main()
