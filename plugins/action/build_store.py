# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch a finished build from its builder and keep it on the controller."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.planning_action import (
    PlanningAction,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import (
    PlanError,
    sha256_of,
)

Data = dict[str, Any]


class ActionModule(PlanningAction):
    """The action; see the module of the same name for its documentation."""

    _requires_connection = True
    TRANSFERS_FILES = True
    SPEC: ClassVar[dict[str, Any]] = {
        "build": {"type": "dict", "required": True},
        "wheel": {"type": "dict", "required": True},
        "lock": {"type": "dict", "required": True},
        "log": {"type": "path", "required": True},
        "seconds": {"type": "float", "default": 0.0},
    }

    def compute(self, options: Data, variables: Data) -> Data:
        """Store the build unless the controller has it."""
        folder = Path(options["build"]["artifact"]["dir"])
        if (folder / "manifest.json").is_file():
            return {"dir": str(folder)}
        if not self._task.check_mode:
            self._store(folder, options, variables["inventory_hostname"])
        return {"changed": True, "dir": str(folder)}

    def _store(self, folder: Path, options: Data, host: str) -> None:
        """Fetch into a directory beside the final one, and rename it when all is there."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".incoming-", dir=folder.parent))
        try:
            self._fetch_all(scratch, options)
            (scratch / "manifest.json").write_text(_manifest(options, host, scratch), "utf-8")
            scratch.chmod(0o755)
            if folder.exists():
                shutil.rmtree(folder)
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _fetch_all(self, scratch: Path, options: Data) -> None:
        """Fetch wheel, lock and log, and compare the first two with what the builder said."""
        wheel, lock = options["wheel"], options["lock"]
        self._fetch(wheel["path"], scratch / PurePosixPath(wheel["path"]).name, wheel["sha256"])
        self._fetch(lock["path"], scratch / "requirements.lock", lock["sha256"])
        self._fetch(options["log"], scratch / "build.log", None)

    def _fetch(self, remote: str, local: Path, sha256: str | None) -> None:
        """Fetch one file over the connection's own file transfer."""
        self._connection.fetch_file(remote, str(local))
        local.chmod(0o644)
        if sha256 is not None and sha256_of(local) != sha256:
            raise PlanError(f"{remote} arrived damaged (other SHA-256); run again")


def _manifest(options: Data, host: str, scratch: Path) -> str:
    """Return the manifest: what was built, from what, where, and the checksums."""
    wheel = dict(options["wheel"])
    wheel["file"] = PurePosixPath(wheel.pop("path")).name
    lock = {"sha256": options["lock"]["sha256"], "packages": options["lock"]["packages"]}
    manifest = {
        "schema": 1,
        "key": options["build"]["key"],
        "inputs": options["build"]["inputs"],
        "wheel": wheel,
        "lock": lock,
        "log": {"sha256": sha256_of(scratch / "build.log")},
        "built_on": host,
        "built_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": options["seconds"],
    }
    return json.dumps(manifest, indent=2, sort_keys=True) + "\n"
