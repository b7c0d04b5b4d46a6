#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack a relocatable Python interpreter from an archive with a known checksum."""

DOCUMENTATION = r"""
module: python_archive
short_description: Provide a Python interpreter from a checksummed archive
version_added: 0.1.0
description:
  - Takes an archive of a relocatable interpreter (one top directory with C(bin/python3) in it),
    compares its SHA-256, unpacks it beside its destination, runs it, and only then puts it there.
  - A wrong checksum, an archive that cannot be had, or an interpreter that does not run leaves the
    host as it was.
options:
  src:
    description: The archive, as a URL (C(http) or C(https)) or a path on the host.
    type: str
    required: true
  sha256:
    description: SHA-256 of the archive.
    type: str
    required: true
  dest:
    description: Directory that becomes the interpreter's; C(bin/python3) lies below it.
    type: path
    required: true
  version:
    description: Version that the interpreter must have, as major and minor number. Quote it.
    type: str
    required: true
  timeout:
    description: Seconds without data after which a download fails.
    type: int
    default: 60
attributes:
  check_mode:
    support: full
    description: Asks for the archive without downloading it; a checksum is only compared for real.
  diff_mode:
    support: full
    description: Shows the archive's checksum before and after.
  idempotent:
    support: full
    description: The checksum is kept in C(archive.json) below O(dest).
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Provide the interpreter
  vllm_fleet.baremetal.python_archive:
    src: https://mirror.example/python/cpython-3.11-x86_64-install_only.tar.gz
    sha256: "{{ python_runtime_archive_sha256 }}"
    dest: /opt/vllm/python/3.11
    version: "3.11"
"""

RETURN = r"""
executable:
  description: The interpreter.
  returned: always
  type: str
  sample: /opt/vllm/python/3.11/bin/python3
version:
  description: Full version of the interpreter; empty where only check mode would have put it there.
  returned: always
  type: str
  sample: 3.11.13
"""

import os
import re
import shutil
import tarfile
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.safe_files import (
    ArchiveError,
    read_json,
    sha256_of,
    unpack,
    write_json,
)

MARKER = "archive.json"
PROGRAM = "import ssl, venv, ctypes, sys; print('%d.%d.%d' % sys.version_info[:3])"


def is_url(src):
    """Say whether the source must be downloaded."""
    return re.match(r"^https?://", src) is not None


def run_version(module, executable):
    """Return (full version, problem) of an interpreter."""
    rc, out, err = module.run_command(
        ["timeout", "60", executable, "-I", "-c", PROGRAM],
        environ_update={"LC_ALL": "C", "LANGUAGE": "C"},
    )
    if rc != 0:
        return "", "exit code %s: %s" % (rc, (err or out).strip()[-500:])
    return out.strip(), None


def check(module):
    """Return (recorded checksum, version) of what is there; both empty where nothing usable is."""
    dest = module.params["dest"]
    record = read_json(os.path.join(dest, MARKER)) or {}
    executable = os.path.join(dest, "bin", "python3")
    if not record.get("sha256") or not os.path.exists(executable):
        return "", ""
    version, problem = run_version(module, executable)
    return ("", "") if problem else (record["sha256"], version)


def foreign(dest):
    """Say whether a directory is there that this module did not put there."""
    return (
        os.path.isdir(dest)
        and bool(os.listdir(dest))
        and read_json(os.path.join(dest, MARKER)) is None
    )


def open_source(module):
    """Open the archive's URL, or fail with what the server said."""
    response, info = fetch_url(module, module.params["src"], timeout=module.params["timeout"])
    if response is None or info["status"] != 200:
        module.fail_json(
            msg="the archive cannot be had: %s (%s)" % (module.params["src"], info["msg"])
        )
    return response


def ask(module):
    """Fail where the server does not have the archive; its content is not read.

    This is a GET, since many servers and signed addresses refuse HEAD. A path on the host may be
    one that only a real run copies there.
    """
    if is_url(module.params["src"]):
        open_source(module).close()


def download(module, directory):
    """Return the path of the archive on this host, downloaded where it has to be."""
    src = module.params["src"]
    if not is_url(src):
        if not os.path.isfile(src):
            module.fail_json(msg="there is no archive at %s" % src)
        return src
    path = os.path.join(directory, "archive")
    with open(path, "wb") as stream:
        shutil.copyfileobj(open_source(module), stream, 1024 * 1024)
    return path


def compare(module, archive):
    """Fail where the archive has another checksum."""
    seen = sha256_of(archive)
    if seen != module.params["sha256"].lower():
        module.fail_json(
            msg="wrong checksum: %s has SHA-256 %s, wanted %s. Nothing was changed"
            % (module.params["src"], seen, module.params["sha256"].lower())
        )


def stage(module, archive, directory):
    """Unpack and run the interpreter; return (its directory, full version)."""
    try:
        top = unpack(archive, os.path.join(directory, "unpacked"))
    except (ArchiveError, tarfile.TarError, EOFError, OSError) as error:
        module.fail_json(msg="%s cannot be unpacked: %s" % (module.params["src"], error))
    version, problem = run_version(module, os.path.join(top, "bin", "python3"))
    if problem:
        module.fail_json(msg="the interpreter of the archive does not run: %s" % problem)
    if version.split(".")[:2] != module.params["version"].split(".")[:2]:
        module.fail_json(
            msg="the archive holds Python %s, not %s" % (version, module.params["version"])
        )
    write_json(
        os.path.join(top, MARKER), {"sha256": module.params["sha256"].lower(), "version": version}
    )
    return top, version


def replace(staged, dest):
    """Put the new directory in the place of the old one."""
    old = "%s.old-%s" % (dest, os.getpid())
    if os.path.lexists(dest):
        os.rename(dest, old)
    os.rename(staged, dest)
    shutil.rmtree(old, ignore_errors=True)


def apply(module):
    """Download, compare, unpack, run, put in place; return the full version."""
    dest = module.params["dest"]
    os.umask(0o022)
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as scratch:
        archive = download(module, scratch)
        compare(module, archive)
        parent = os.path.dirname(dest)
        os.makedirs(parent, mode=0o755, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=parent) as beside:
            staged, version = stage(module, archive, beside)
            replace(staged, dest)
    return version


def main():
    module = AnsibleModule(
        argument_spec={
            "src": {"type": "str", "required": True},
            "sha256": {"type": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "version": {"type": "str", "required": True},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    dest, wanted = module.params["dest"], module.params["sha256"].lower()
    if not re.match(r"^[0-9a-f]{64}$", wanted):
        module.fail_json(msg="sha256 must be 64 hexadecimal digits, not %r" % wanted)
    seen, version = check(module)
    changed = seen != wanted
    version = "" if changed else version
    if changed:
        if foreign(dest):
            module.fail_json(msg="%s is in the way: this module did not make it" % dest)
        if module.check_mode:
            ask(module)
        else:
            version = apply(module)
    module.exit_json(
        changed=changed,
        executable=os.path.join(dest, "bin", "python3"),
        version=version,
        diff={
            "before": "sha256 %s\n" % seen if seen else "",
            "after": "sha256 %s\n" % wanted,
            "before_header": dest,
            "after_header": dest,
        },
    )


if __name__ == "__main__":
    main()
