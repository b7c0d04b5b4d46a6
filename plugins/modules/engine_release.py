#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install an engine from a hashed lock into a release directory of its own."""

DOCUMENTATION = r"""
module: engine_release
short_description: Install an engine as a release
version_added: 0.1.0
description:
  - A release is a virtual environment at C(ROOT/ID), made from a lock with checksums and nothing
    else. C(release.json) in it is written last, so a directory without it is not a release and is
    made anew.
  - A release that is there stays as it is. Where distributions of it are gone or were replaced,
    only those are installed again. Where more were added, a warning names them.
options:
  id:
    description: Name of the release, the digest of its lock and interpreter. Empty in check mode
      where the lock is not made yet.
    type: str
    required: true
  root:
    description: Directory of all releases.
    type: path
    default: /opt/vllm/releases
  key:
    description: Name of the build that it comes from.
    type: str
    required: true
  python:
    description: Interpreter of the environment.
    type: path
    required: true
  distribution:
    description: Distribution of the engine.
    type: str
    default: vllm
  version:
    description: Version of the engine.
    type: str
    required: true
  lock_file:
    description: The lock, on the host. Only needed where the release is not there yet.
    type: path
  wheel_dir:
    description: Directory on the host with the wheel that was built.
    type: path
  compile:
    description: Compile the modules to byte code after the installation, on all cores. The user of
      the service cannot write it later, so without it each start takes longer.
    type: bool
    default: true
  current_link:
    description: Symbolic link, for people, that leads to the release. Nothing is linked without it.
    type: path
  timeout:
    description: Seconds that the installation may take.
    type: int
    default: 3600
extends_documentation_fragment:
  - vllm_fleet.baremetal.pip_sources
attributes:
  check_mode:
    support: full
    description: Predicts from the directory that is there.
  diff_mode:
    support: full
    description: Shows the distributions before and after, and the link.
  idempotent:
    support: full
    description: A complete release is only read; no package source is asked.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Install the release
  vllm_fleet.baremetal.engine_release:
    id: 0123456789abcdef
    key: vllm-empty
    python: /opt/vllm/python/3.11/bin/python3
    version: "{{ vllm_build_version }}"
    lock_file: /var/lib/vllm-fleet/artifacts/vllm-empty/requirements.lock
    wheel_dir: /var/lib/vllm-fleet/artifacts/vllm-empty
    find_links: [https://mirror.example/wheels/]
"""

RETURN = r"""
release:
  description: The release.
  returned: always
  type: dict
  contains:
    id:
      description: Its id.
      type: str
    path:
      description: Its directory.
      type: str
    python:
      description: The interpreter in it.
      type: str
    distribution:
      description: Distribution of the engine.
      type: str
    version:
      description: Version of the engine.
      type: str
    key:
      description: The build that it comes from.
      type: str
  sample: {id: 0123456789abcdef, path: /opt/vllm/releases/0123456789abcdef}
reason:
  description: What is done and why; empty where nothing is.
  returned: always
  type: str
  sample: not there
seconds:
  description: Time that the installation took.
  returned: always
  type: float
  sample: 41.5
"""

import glob
import io
import os
import re
import shutil
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    build_jobs,
    pip_args,
    pip_lock,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.logged_run import (
    run_logged,
    tail,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.safe_files import (
    read_json,
    write_json,
)

RECORD = "release.json"
VERSION_PROGRAM = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
# Not part of the lock: what the interpreter itself puts into a new environment.
BUNDLED = ("pip", "setuptools")


def installed(path):
    """Return {name: version} of the distributions below an environment, from directory names."""
    found = {}
    pattern = os.path.join(path, "lib", "python*", "site-packages", "*.dist-info")
    for directory in glob.glob(pattern):
        name, _dash, version = os.path.basename(directory)[: -len(".dist-info")].partition("-")
        found[pip_lock.normalise(name)] = version
    return found


def differences(recorded, seen):
    """Return (missing or replaced, added) names."""
    wrong = sorted(name for name in recorded if seen.get(name) != recorded[name])
    added = sorted(name for name in seen if name not in recorded and name not in BUNDLED)
    return wrong, added


def describe(packages):
    """Return distributions as text, one a line, for the diff."""
    return "".join("%s==%s\n" % item for item in sorted(packages.items()))


class Release:
    """One release directory."""

    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.path = os.path.join(module.params["root"], module.params["id"] or "not-known-yet")
        self.python = os.path.join(self.path, "bin", "python")
        self.log = os.path.join(self.path, "install.log")
        self.env = pip_args.environment(module.params)
        self.record = read_json(os.path.join(self.path, RECORD)) or {}
        self.before = installed(self.path)

    def plan(self):
        """Return (step, reason): step is '', 'install' or 'repair'."""
        if not os.path.isdir(self.path):
            return "install", "not there"
        if not self.record or self.record.get("id") != self.params["id"]:
            return "install", "an earlier installation was not completed"
        if not os.path.exists(self.python):
            return "install", "its interpreter is gone"
        wrong, added = differences(self.record.get("packages", {}), self.before)
        if added:
            self.module.warn("added to release %s by hand: %s" % (self.path, ", ".join(added)))
        if wrong:
            return "repair", "missing or replaced: %s" % ", ".join(wrong)
        return "", ""

    def fail(self, what, why):
        """Fail; an installation that is not complete is removed, so that its space is free."""
        end = tail(self.log) if os.path.exists(self.log) else ""
        if not os.path.exists(os.path.join(self.path, RECORD)):
            shutil.rmtree(self.path, ignore_errors=True)
        self.module.fail_json(msg="%s failed: %s" % (what, why), log_tail=end)

    def run(self, what, command):
        """Run one command, or fail with the reason and the end of its output."""
        rc = run_logged(command, self.log, self.env, self.params["timeout"])
        if rc != 0:
            self.fail(what, build_jobs.explain(rc, tail(self.log), 1, "see log_tail"))

    def pins(self):
        """Return the pins of the lock, or fail before anything is touched."""
        path = self.params["lock_file"]
        if not path or not os.path.isfile(path):
            self.module.fail_json(msg="there is no lock at %s" % path)
        try:
            with io.open(path, encoding="utf-8") as stream:
                return pip_lock.parse_lock(stream.read())
        except pip_lock.LockError as error:
            self.module.fail_json(msg="%s: %s" % (path, error))

    def install(self):
        """Make the environment from nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(self.path, mode=0o755)
        self.run("making the environment", [self.params["python"], "-m", "venv", self.path])

    def fill(self, pins):
        """Install the lock into the environment, and see that the engine is there."""
        local = [self.params["wheel_dir"]] if self.params["wheel_dir"] else []
        command = [self.python, "-m", "pip", "install", "--require-hashes", "--no-deps"]
        command += ["--only-binary", ":all:", "--no-compile", "--no-cache-dir"]
        command += pip_args.source_arguments(self.params, local)
        self.run("installing the lock", command + ["-r", self.params["lock_file"]])
        missing = sorted(set(pins) - set(installed(self.path)))
        if missing:
            self.fail("installing the lock", "not there afterwards: %s" % ", ".join(missing))
        self.verify()
        if self.params["compile"]:
            self.byte_compile()

    def byte_compile(self):
        """Compile all modules; those that are written for other Pythons may fail."""
        places = glob.glob(os.path.join(self.path, "lib", "python*", "site-packages"))
        command = [self.python, "-m", "compileall", "-q", "-j", "0"] + places
        run_logged(command, self.log, self.env, self.params["timeout"])

    def verify(self):
        """Fail where the environment does not hold the engine's version."""
        command = [self.python, "-I", "-c", VERSION_PROGRAM, self.params["distribution"]]
        rc, out, err = self.module.run_command(
            command, environ_update={"LC_ALL": "C", "LANGUAGE": "C"}
        )
        if rc != 0 or out.strip() != self.params["version"]:
            seen = out.strip() or err.strip()[-300:]
            self.fail("verifying the release", "the engine says %r" % seen)

    def write_record(self, started):
        """Write release.json: from now on this is a release."""
        record = dict(self.describe(), schema=1, packages=installed(self.path))
        for name in BUNDLED:
            record["packages"].pop(name, None)
        record["base_python"] = self.params["python"]
        record["created"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started))
        write_json(os.path.join(self.path, RECORD), record)

    def apply(self, step):
        """Install or repair; return the seconds that it took."""
        started, pins = time.time(), self.pins()
        os.umask(0o022)
        if step == "install":
            self.install()
        self.fill(pins)
        self.write_record(started)
        return round(time.time() - started, 1)

    def describe(self):
        """Return what other tasks need to know."""
        known = {name: self.params[name] for name in ("id", "key", "distribution", "version")}
        return dict(known, path=self.path, python=self.python)

    def after(self, step):
        """Return the distributions that are, or would be, there."""
        if not step:
            return self.before
        if not self.module.check_mode:
            return installed(self.path)
        path = self.params["lock_file"]
        if path and os.path.isfile(path):
            return {name: pin["version"] for name, pin in self.pins().items()}
        return {self.params["distribution"]: self.params["version"]}


def switch_link(module, link, target):
    """Point the link to the release; return (changed, what it pointed to)."""
    if not link:
        return False, ""
    if os.path.lexists(link) and not os.path.islink(link):
        module.fail_json(msg="%s is in the way: it is not a symbolic link" % link)
    before = os.readlink(link) if os.path.islink(link) else ""
    if before == target:
        return False, before
    if not module.check_mode:
        temporary = "%s.new-%s" % (link, os.getpid())
        os.symlink(target, temporary)
        os.rename(temporary, link)
    return True, before


def argument_spec():
    """Return the options."""
    spec = {
        "id": {"type": "str", "required": True},
        "root": {"type": "path", "default": "/opt/vllm/releases"},
        "key": {"type": "str", "required": True, "no_log": False},
        "python": {"type": "path", "required": True},
        "distribution": {"type": "str", "default": "vllm"},
        "version": {"type": "str", "required": True},
        "lock_file": {"type": "path"},
        "wheel_dir": {"type": "path"},
        "compile": {"type": "bool", "default": True},
        "current_link": {"type": "path"},
        "timeout": {"type": "int", "default": 3600},
    }
    spec.update(pip_args.ARGUMENTS)
    return spec


def check_options(module):
    """Fail for options that would do harm."""
    if not module.check_mode and not re.match(r"^[a-z0-9][a-z0-9._-]{3,}$", module.params["id"]):
        module.fail_json(msg="id must be a release id, not %r" % module.params["id"])
    try:
        pip_args.check_sources(module.params)
    except pip_args.SourceError as error:
        module.fail_json(msg=str(error))


def main():
    module = AnsibleModule(argument_spec=argument_spec(), supports_check_mode=True)
    check_options(module)
    release, link = Release(module), module.params["current_link"]
    step, reason = release.plan()
    seconds = release.apply(step) if step and not module.check_mode else 0.0
    switched, before_link = switch_link(module, link, release.path)
    before, after = describe(release.before), describe(release.after(step))
    if link:
        before = "%s -> %s\n%s" % (link, before_link or "nothing", before)
        after = "%s -> %s\n%s" % (link, release.path, after)
    module.exit_json(
        changed=bool(step) or switched,
        release=release.describe(),
        reason=reason or ("the link pointed elsewhere" if switched else ""),
        seconds=seconds,
        diff={"before": before, "after": after},
    )


if __name__ == "__main__":
    main()
