"""Write one JSON line per task result to $ROLE_RUN_RECORD: what the harness reads back."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: record
type: notification
short_description: Record task results for the role tests
description: Writes one JSON line per task result to the file named by E(ROLE_RUN_RECORD).
"""


class CallbackModule(CallbackBase):
    """Append status, host, task and result of every finished task to the record."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "record"
    CALLBACK_NEEDS_ENABLED = True

    def _record(self, status, result):
        row = {
            "status": status,
            "host": result._host.get_name(),
            "task": result._task.get_name().split(" : ")[-1],
            "action": result._task.action,
            "result": result._result,
        }
        with Path(os.environ["ROLE_RUN_RECORD"]).open("a", encoding="utf-8") as record:
            record.write(json.dumps(row, default=str) + "\n")

    def v2_runner_on_ok(self, result):
        self._record("ok", result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._record("failed", result)

    def v2_runner_on_unreachable(self, result):
        self._record("unreachable", result)

    def v2_runner_on_skipped(self, result):
        self._record("skipped", result)
