#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the wheel of an engine on a builder: compiled from an archive, or taken from an index."""

DOCUMENTATION = r"""
module: engine_wheel
short_description: Build the wheel of an engine, or take it from an index
version_added: 0.1.0
description:
  - Makes one wheel in the directory C(wheels) below O(work_dir), and writes C(wheel.json) last. A
    directory without it, or with other inputs in it, is started anew.
  - From source, an environment of its own gets the build requirements, the archive's SHA-256 is
    compared, and pip builds without isolation and without dependencies.
  - The output of all commands goes to C(build.log) below O(work_dir); the result holds its end.
options:
  work_dir:
    description: Directory of this build.
    type: path
    required: true
  key:
    description: Name of the build, recorded in C(wheel.json).
    type: str
    required: true
  python:
    description: Interpreter to build for.
    type: path
    required: true
  method:
    description: V(source) builds from an archive, V(index) downloads a finished wheel.
    type: str
    choices: [source, index]
    required: true
  target:
    description: Device that the wheel is for. V(empty) compiles nothing.
    type: str
    choices: [empty, cpu, cuda]
    default: empty
  distribution:
    description: Name of the distribution.
    type: str
    default: vllm
  version:
    description: Version of the distribution.
    type: str
    required: true
  src:
    description: The source archive, as a URL or a path on the host. Needed for O(method=source).
    type: str
  sha256:
    description: SHA-256 of the source archive. Needed for O(method=source).
    type: str
  build_requirements:
    description: Requirements of the environment that builds.
    type: list
    elements: str
    default: []
  build_environment:
    description: More environment variables for the build.
    type: dict
    default: {}
  max_jobs:
    description: Compilers at once; V(0) takes what memory and cores allow.
    type: int
    default: 0
  timeout:
    description: Seconds that any one command may take.
    type: int
    default: 21600
extends_documentation_fragment:
  - vllm_fleet.baremetal.pip_sources
attributes:
  check_mode:
    support: full
    description: Says whether it would build; builds nothing.
  diff_mode:
    support: full
    description: Shows the key before and after.
  idempotent:
    support: full
    description: The same inputs and an unchanged wheel change nothing.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Build the wheel for hosts whose device is a plugin
  vllm_fleet.baremetal.engine_wheel:
    work_dir: /var/lib/vllm-fleet/build/vllm-empty
    key: vllm-empty
    python: /opt/vllm/python/3.11/bin/python3
    method: source
    target: empty
    version: "{{ vllm_build_version }}"
    src: https://mirror.example/sources/vllm.tar.gz
    sha256: "{{ vllm_build_source_sha256 }}"
    build_requirements: [setuptools, setuptools-scm, wheel, torch]
    find_links: [https://mirror.example/wheels/]
"""

RETURN = r"""
wheel:
  description: The wheel; empty in check mode where it would have to be built.
  returned: always
  type: dict
  contains:
    path:
      description: Path on the host.
      type: str
    name:
      description: Distribution.
      type: str
    version:
      description: Version in the wheel.
      type: str
    sha256:
      description: SHA-256 of the file.
      type: str
    size:
      description: Bytes.
      type: int
  sample: {name: vllm, version: 0.23.0}
seconds:
  description: Time that the build took; 0 where nothing was built.
  returned: always
  type: float
  sample: 42.1
log:
  description: The log file on the host.
  returned: always
  type: str
  sample: /var/lib/vllm-fleet/build/vllm-empty/build.log
log_tail:
  description: End of the log.
  returned: on failure
  type: str
  sample: ""
"""

import glob
import os
import re
import shutil
import tarfile
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import build_jobs, pip_args
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.logged_run import (
    run_logged,
    tail,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.pip_lock import (
    digest,
    metadata_fields,
    normalise,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.safe_files import (
    ArchiveError,
    read_json,
    sha256_of,
    unpack,
    wheel_metadata,
    write_json,
)

RECORD = "wheel.json"
INPUTS = (
    "key",
    "python",
    "method",
    "target",
    "distribution",
    "version",
    "sha256",
    "build_requirements",
    "build_environment",
)


class Builder:
    """One build in its directory."""

    def __init__(self, module):
        self.module = module
        self.params = module.params
        self.work = module.params["work_dir"]
        self.log = os.path.join(self.work, "build.log")
        self.wheels = os.path.join(self.work, "wheels")
        self.env = pip_args.environment(module.params)
        self.jobs = module.params["max_jobs"] or self.possible_jobs()

    def possible_jobs(self):
        """Return the number of jobs that this machine can run."""
        with open("/proc/meminfo", encoding="utf-8") as stream:
            memory = build_jobs.memory_kb(stream.read())
        return build_jobs.max_jobs(self.params["target"], memory, len(os.sched_getaffinity(0)))

    def sources(self):
        """Return pip's arguments that say where packages come from."""
        return pip_args.source_arguments(self.params)

    def inputs(self):
        """Return the digest of what this wheel is made from."""
        return digest({name: self.params[name] for name in INPUTS})

    def present(self):
        """Return the wheel that is there for these inputs, or None."""
        record = read_json(os.path.join(self.work, RECORD)) or {}
        wheel = record.get("wheel", {})
        path = wheel.get("path", "")
        if record.get("inputs") != self.inputs() or not os.path.isfile(path):
            return None
        return wheel if sha256_of(path) == wheel.get("sha256") else None

    def prepare(self):
        """Start with an empty directory."""
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.wheels, mode=0o755)

    def run(self, what, command, env=None, cwd=None):
        """Run one command of the build, or fail with the reason and the end of the log."""
        rc = run_logged(
            command, self.log, dict(self.env, **(env or {})), self.params["timeout"], cwd
        )
        if rc != 0:
            self.fail(what, build_jobs.explain(rc, tail(self.log), self.jobs, self.log))

    def fail(self, what, why):
        """Fail with the end of the log."""
        self.module.fail_json(
            msg="%s failed: %s" % (what, why),
            log=self.log,
            log_tail=tail(self.log) if os.path.exists(self.log) else "",
        )

    def archive(self):
        """Return the path of the source archive, downloaded where needed and compared."""
        src, path = self.params["src"], self.params["src"]
        if re.match(r"^https?://", src):
            path = os.path.join(self.work, "source-archive")
            response, info = fetch_url(self.module, src, timeout=60)
            if response is None or info["status"] != 200:
                self.fail("getting the source", "%s: %s" % (src, info["msg"]))
            with open(path, "wb") as stream:
                shutil.copyfileobj(response, stream, 1024 * 1024)
        elif not os.path.isfile(path):
            self.fail("getting the source", "there is no archive at %s" % path)
        self.compare(path)
        return path

    def compare(self, path):
        """Fail where the source archive has another checksum."""
        seen = sha256_of(path)
        if seen != self.params["sha256"].lower():
            why = "wrong checksum: %s has SHA-256 %s, wanted %s"
            self.fail("getting the source", why % (self.params["src"], seen, self.params["sha256"]))

    def make_venv(self):
        """Make the environment that builds and resolves; return its interpreter."""
        venv = os.path.join(self.work, "venv")
        self.run("making the build environment", [self.params["python"], "-m", "venv", venv])
        return os.path.join(venv, "bin", "python")

    def from_source(self, python, archive):
        """Build the wheel from the source archive."""
        if self.params["build_requirements"]:
            self.run(
                "installing the build requirements",
                [python, "-m", "pip", "install", "--no-compile", "--no-cache-dir"]
                + self.sources()
                + self.params["build_requirements"],
            )
        try:
            top = unpack(archive, os.path.join(self.work, "src"))
        except (ArchiveError, tarfile.TarError, EOFError, OSError) as error:
            self.fail("unpacking the source", str(error))
        command = [python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
        command += ["--no-cache-dir", "--wheel-dir", self.wheels, top]
        self.run("building the wheel", command, self.build_environment(python))

    def build_environment(self, python):
        """Return the variables that the engine's build reads."""
        env = {
            "VLLM_TARGET_DEVICE": self.params["target"],
            "VLLM_VERSION_OVERRIDE": self.params["version"],
            "MAX_JOBS": str(self.jobs),
            "PATH": os.pathsep.join([os.path.dirname(python), os.environ.get("PATH", "")]),
        }
        env.update(
            (str(name), str(value)) for name, value in self.params["build_environment"].items()
        )
        return env

    def from_index(self, python):
        """Download the finished wheel."""
        wanted = "%s==%s" % (self.params["distribution"], self.params["version"])
        command = [python, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
        command += ["--no-cache-dir", "--dest", self.wheels] + self.sources() + [wanted]
        self.run("downloading the wheel", command)

    def result(self):
        """Return the wheel that is there now; fail where it is not the one that was wanted."""
        found = glob.glob(os.path.join(self.wheels, "*.whl"))
        if len(found) != 1:
            self.fail("making the wheel", "%d wheels in %s, wanted 1" % (len(found), self.wheels))
        fields = metadata_fields(wheel_metadata(found[0]))
        name, version = fields["name"][0], fields["version"][0]
        wanted = (normalise(self.params["distribution"]), self.params["version"])
        if (normalise(name), version) != wanted:
            self.fail("making the wheel", "got %s %s, wanted %s %s" % ((name, version) + wanted))
        os.chmod(found[0], 0o644)
        return {
            "path": found[0],
            "name": normalise(name),
            "version": version,
            "sha256": sha256_of(found[0]),
            "size": os.path.getsize(found[0]),
        }

    def build(self):
        """Make the wheel and record it."""
        self.prepare()
        source = self.params["method"] == "source"
        archive = self.archive() if source else ""
        python = self.make_venv()
        if source:
            self.from_source(python, archive)
        else:
            self.from_index(python)
        shutil.rmtree(os.path.join(self.work, "src"), ignore_errors=True)
        wheel = self.result()
        record = {"key": self.params["key"], "inputs": self.inputs(), "wheel": wheel}
        write_json(os.path.join(self.work, RECORD), record)
        return wheel


def argument_spec():
    """Return the options."""
    spec = {
        "work_dir": {"type": "path", "required": True},
        "key": {"type": "str", "required": True, "no_log": False},
        "python": {"type": "path", "required": True},
        "method": {"type": "str", "required": True, "choices": ["source", "index"]},
        "target": {"type": "str", "default": "empty", "choices": ["empty", "cpu", "cuda"]},
        "distribution": {"type": "str", "default": "vllm"},
        "version": {"type": "str", "required": True},
        "src": {"type": "str"},
        "sha256": {"type": "str"},
        "build_requirements": {"type": "list", "elements": "str", "default": []},
        "build_environment": {"type": "dict", "default": {}},
        "max_jobs": {"type": "int", "default": 0},
        "timeout": {"type": "int", "default": 21600},
    }
    spec.update(pip_args.ARGUMENTS)
    return spec


def main():
    module = AnsibleModule(
        argument_spec=argument_spec(),
        required_if=[("method", "source", ("src", "sha256"))],
        supports_check_mode=True,
    )
    try:
        pip_args.check_sources(module.params)
    except pip_args.SourceError as error:
        module.fail_json(msg=str(error))
    builder = Builder(module)
    os.umask(0o022)
    started, wheel = time.time(), builder.present()
    changed = wheel is None
    if changed and not module.check_mode:
        wheel = builder.build()
    key = "%s\n" % module.params["key"]
    module.exit_json(
        changed=changed,
        wheel=wheel or {},
        log=builder.log,
        seconds=round(time.time() - started, 1) if changed and not module.check_mode else 0.0,
        diff={"before": "" if changed else key, "after": key},
    )


if __name__ == "__main__":
    main()
