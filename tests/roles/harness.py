"""Run one role on one lab host with plain ansible-playbook and read back what each task did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class TaskResult:
    """One task on one host: its status (ok, failed, unreachable, skipped) and module result."""

    status: str
    task: str
    action: str
    result: dict[str, Any]

    @property
    def changed(self) -> bool:
        return self.status == "ok" and bool(self.result.get("changed"))

    @property
    def message(self) -> str:
        """Return the message of the task, or of its first failed loop item."""
        items = self.result.get("results") or [self.result]
        failed = [item for item in items if item.get("failed")] or items
        return str(failed[0].get("msg", ""))


@dataclass(frozen=True)
class RunResult:
    """What one ansible-playbook run of a role did; `output` is its whole terminal text."""

    rc: int
    output: str
    tasks: list[TaskResult] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.rc == 0

    @property
    def changed(self) -> list[str]:
        return [task.task for task in self.tasks if task.changed]

    @property
    def failed(self) -> list[tuple[str, str]]:
        return [
            (task.task, task.message)
            for task in self.tasks
            if task.status in ("failed", "unreachable")
        ]


@dataclass(frozen=True)
class RoleRun:
    """A role with its variables on one host of an inventory file."""

    host: str
    inventory: Path
    role: str
    variables: dict[str, Any] = field(default_factory=dict)
    tasks_from: str = "main"
    before: list[dict[str, Any]] = field(default_factory=list)

    def check(self) -> RunResult:
        """Run in check mode with diffs."""
        return self._run("--check", "--diff")

    def apply(self) -> RunResult:
        """Run for real with diffs."""
        return self._run("--diff")

    def _play(self) -> list[dict[str, Any]]:
        role = {
            "name": f"Run the role {self.role}",
            "ansible.builtin.include_role": {
                "name": f"vllm_fleet.baremetal.{self.role}",
                "tasks_from": self.tasks_from,
            },
        }
        return [
            {
                "name": f"Test the role {self.role}",
                "hosts": self.host,
                "gather_facts": False,
                "vars": self.variables,
                "tasks": [*self.before, role],
            }
        ]

    def _run(self, *options: str) -> RunResult:
        with TemporaryDirectory(prefix="role-run-") as scratch:
            play = Path(scratch, "play.yml")
            play.write_text(yaml.safe_dump(self._play(), sort_keys=False), encoding="utf-8")
            record = Path(scratch, "record.jsonl")
            record.touch()
            done = subprocess.run(
                [ansible_playbook(), "-i", str(self.inventory), *options, str(play)],
                env=environment(record),
                capture_output=True,
                text=True,
                check=False,
                timeout=1200,
            )
            rows = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
        tasks = [
            TaskResult(row["status"], row["task"], row["action"], row["result"]) for row in rows
        ]
        return RunResult(done.returncode, done.stdout + done.stderr, tasks)


def ansible_playbook() -> str:
    """Return the ansible-playbook beside the running interpreter (or $ANSIBLE_PLAYBOOK)."""
    return os.environ.get(
        "ANSIBLE_PLAYBOOK", str(Path(sys.executable).with_name("ansible-playbook"))
    )


def environment(record: Path | None = None) -> dict[str, str]:
    """Return an environment in which ansible finds this checkout and nothing of the user's."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    clean.update(
        ANSIBLE_COLLECTIONS_PATH=str(ROOT / "playbooks" / "collections"),
        ANSIBLE_PIPELINING="1",
        ANSIBLE_FORCE_COLOR="0",
        ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="1",
        ANSIBLE_LOCALHOST_WARNING="0",
    )
    if record is not None:
        clean.update(
            ANSIBLE_CALLBACK_PLUGINS=str(Path(__file__).with_name("callback_plugins")),
            ANSIBLE_CALLBACKS_ENABLED="record",
            ROLE_RUN_RECORD=str(record),
        )
    return clean
