#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve on a builder what an engine needs, into a lock with versions and checksums."""

DOCUMENTATION = r"""
module: engine_lock
short_description: Resolve the requirements of an engine into a hashed lock
version_added: 0.1.0
description:
  - Reads the requirements of the wheel that M(vllm_fleet.baremetal.engine_wheel) made, takes the
    excluded ones out, adds O(requirements), and lets pip resolve the rest without installing it.
  - With O(lock_content) or O(lock_src) nothing is resolved; that lock is taken, less the excluded
    names, and the engine's own line is written for the wheel that was built.
  - Only wheels count, since hosts must not compile. The lock is C(requirements.lock) below
    O(work_dir).
options:
  work_dir:
    description: Directory of the build.
    type: path
    required: true
  wheel:
    description: What M(vllm_fleet.baremetal.engine_wheel) returned; empty in check mode.
    type: dict
    required: true
  key:
    description: Name of the build, written into the lock.
    type: str
    required: true
  requirements:
    description: More requirements, for example a plugin of the engine or another torch.
    type: list
    elements: str
    default: []
  exclude:
    description:
      - Names to leave out. Where other requirements ask for certain versions of a name, it must be
        given with such a version (C(NAME==VERSION)), so that the others still resolve.
    type: list
    elements: str
    default: []
  lock_content:
    description: Text of a finished lock.
    type: str
  lock_src:
    description: URL of a finished lock.
    type: str
  lock_sha256:
    description: SHA-256 of the lock at O(lock_src).
    type: str
  timeout:
    description: Seconds that resolving may take.
    type: int
    default: 1800
extends_documentation_fragment:
  - vllm_fleet.baremetal.pip_sources
attributes:
  check_mode:
    support: full
    description: Says whether it would resolve; resolves nothing.
  diff_mode:
    support: full
    description: Shows the lock before and after; after is empty in check mode.
  idempotent:
    support: full
    description: Equal inputs keep the lock that is there, also where an index has newer versions.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Resolve what the engine needs
  vllm_fleet.baremetal.engine_lock:
    work_dir: /var/lib/vllm-fleet/build/vllm-empty
    key: vllm-empty
    wheel: "{{ __vllm_build_wheel_result.wheel }}"
    exclude: [torchvision, torchaudio]
    find_links: [https://mirror.example/wheels/]
"""

RETURN = r"""
lock:
  description: The lock; empty in check mode where it would have to be resolved.
  returned: always
  type: dict
  contains:
    path:
      description: Path on the host.
      type: str
    sha256:
      description: SHA-256 of the file.
      type: str
    packages:
      description: Number of distributions in it.
      type: int
  sample: {path: /var/lib/vllm-fleet/build/vllm-empty/requirements.lock, packages: 150}
"""

import io
import json
import os
import shutil
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url

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
    sha256_of,
    wheel_metadata,
    write_json,
    write_stub_wheel,
)

RECORD = "lock.json"


class Resolver:
    """The lock of one build."""

    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.work = module.params["work_dir"]
        self.path = os.path.join(self.work, "requirements.lock")
        self.log = os.path.join(self.work, "build.log")

    def inputs(self):
        """Return the digest of what this lock is made from."""
        names = ("key", "requirements", "exclude", "lock_content", "lock_sha256")
        inputs = {name: self.params[name] for name in names}
        inputs["wheel"] = self.params["wheel"].get("sha256")
        return pip_lock.digest(inputs)

    def present(self):
        """Return the lock that is there for these inputs, or None."""
        record = read_json(os.path.join(self.work, RECORD)) or {}
        if record.get("inputs") != self.inputs() or not os.path.isfile(self.path):
            return None
        lock = record.get("lock", {})
        return lock if sha256_of(self.path) == lock.get("sha256") else None

    def given(self):
        """Return the text of the finished lock that the options name, or None."""
        if not self.params["lock_src"]:
            return self.params["lock_content"]
        response, info = fetch_url(self.module, self.params["lock_src"], timeout=60)
        if response is None or info["status"] != 200:
            raise pip_lock.LockError("%s: %s" % (self.params["lock_src"], info["msg"]))
        text = response.read().decode("utf-8")
        seen = pip_lock.digest(text)
        if seen != self.params["lock_sha256"].lower():
            raise pip_lock.LockError(
                "wrong checksum: %s has SHA-256 %s, wanted %s"
                % (self.params["lock_src"], seen, self.params["lock_sha256"])
            )
        return text

    def pins(self):
        """Return the pins, from the finished lock or from pip."""
        text = self.given()
        if text is None:
            return self.resolve()
        pins = pip_lock.parse_lock(text)
        names = [pip_lock.requirement_name(line) for line in self.params["requirements"]]
        missing = sorted(set(names) - set(pins))
        if missing:
            raise pip_lock.LockError("the finished lock lacks %s" % ", ".join(missing))
        return pins

    def resolve(self):
        """Let pip resolve the wheel's own requirements and the others."""
        wheel = self.params["wheel"]
        lines = pip_lock.wheel_requirements(wheel_metadata(wheel["path"]), self.params["exclude"])
        scratch = tempfile.mkdtemp(dir=self.work)
        try:
            return pip_lock.pins_from_report(
                self.ask_pip(scratch, lines + self.params["requirements"])
            )
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def ask_pip(self, scratch, lines):
        """Return pip's report for these requirements."""
        if not lines:
            return {"version": "1", "install": []}
        wanted, report = os.path.join(scratch, "wanted.txt"), os.path.join(scratch, "report.json")
        with io.open(wanted, "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
        for exclusion in self.params["exclude"]:
            write_stub_wheel(scratch, *pip_lock.stub_of(exclusion))
        command = [os.path.join(self.work, "venv", "bin", "python"), "-m", "pip", "install"]
        command += ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--no-cache-dir"]
        command += ["--quiet", "--report", report, "-r", wanted]
        command += pip_args.source_arguments(self.params, local=[scratch])
        env = pip_args.environment(self.params)
        rc = run_logged(command, self.log, env, self.params["timeout"])
        if rc != 0:
            self.fail(build_jobs.explain(rc, tail(self.log), 1, self.log))
        with io.open(report, encoding="utf-8") as stream:
            return json.load(stream)

    def fail(self, why):
        """Fail with the end of the log."""
        self.module.fail_json(
            msg="resolving the requirements failed: %s" % why,
            log=self.log,
            log_tail=tail(self.log) if os.path.exists(self.log) else "",
        )

    def write(self):
        """Resolve and write the lock; return it."""
        try:
            pins = pip_lock.merge(self.pins(), self.params["wheel"], self.params["exclude"])
        except pip_lock.LockError as error:
            self.fail(str(error))
        text = pip_lock.render_lock(pins, "Lock of %s" % self.params["key"])
        temporary = self.path + ".new"
        with io.open(temporary, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(temporary, 0o644)
        os.rename(temporary, self.path)
        lock = {"path": self.path, "sha256": sha256_of(self.path), "packages": len(pins)}
        write_json(os.path.join(self.work, RECORD), {"inputs": self.inputs(), "lock": lock})
        return lock

    def text(self):
        """Return the text of the lock that is there, for the diff."""
        if not os.path.isfile(self.path):
            return ""
        with io.open(self.path, encoding="utf-8") as stream:
            return stream.read()


def argument_spec():
    """Return the options."""
    spec = {
        "work_dir": {"type": "path", "required": True},
        "wheel": {"type": "dict", "required": True},
        "key": {"type": "str", "required": True, "no_log": False},
        "requirements": {"type": "list", "elements": "str", "default": []},
        "exclude": {"type": "list", "elements": "str", "default": []},
        "lock_content": {"type": "str"},
        "lock_src": {"type": "str"},
        "lock_sha256": {"type": "str"},
        "timeout": {"type": "int", "default": 1800},
    }
    spec.update(pip_args.ARGUMENTS)
    return spec


def main():
    module = AnsibleModule(
        argument_spec=argument_spec(),
        mutually_exclusive=[("lock_content", "lock_src")],
        required_by={"lock_src": ["lock_sha256"]},
        supports_check_mode=True,
    )
    os.umask(0o022)
    try:
        pip_args.check_sources(module.params)
    except pip_args.SourceError as error:
        module.fail_json(msg=str(error))
    resolver = Resolver(module)
    lock, before = resolver.present(), resolver.text()
    changed = lock is None
    if changed and not module.check_mode:
        lock = resolver.write()
    after = "" if changed and module.check_mode else resolver.text()
    diff = {"before": before, "after": after, "after_header": resolver.path}
    module.exit_json(changed=changed, lock=lock or {}, diff=diff)


if __name__ == "__main__":
    main()
