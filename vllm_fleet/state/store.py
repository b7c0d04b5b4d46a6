"""The fleet's history in one SQLite file."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_fleet.errors import ConfigError, ExitCode

SCHEMA_VERSION = 2
SCHEMA = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    command TEXT NOT NULL,
    started REAL NOT NULL,
    ended REAL,
    exit_code INTEGER,
    is_check INTEGER NOT NULL,
    selection TEXT NOT NULL,
    by_whom TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    stopped_at TEXT NOT NULL DEFAULT '',
    counts TEXT NOT NULL DEFAULT '{}'
);
CREATE TABLE results (
    run TEXT NOT NULL REFERENCES runs (id),
    host TEXT NOT NULL,
    stage TEXT NOT NULL,
    status TEXT NOT NULL,
    changed INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (run, host, stage)
);
CREATE INDEX results_by_host ON results (host, run);
"""
# What each host was when a run last saw it: the fact vllm_fleet_host, as JSON.
SIGHTINGS = """
CREATE TABLE sightings (
    host TEXT PRIMARY KEY,
    at REAL NOT NULL,
    identity TEXT NOT NULL
);
"""
# What brings a database from the schema before to each schema.
STEPS = {1: SCHEMA, 2: SIGHTINGS}
# The stage name under which a host's overall result of a run is kept.
WHOLE = ""


@dataclass(frozen=True)
class RunStart:
    """What is known about a run when it begins."""

    id: str
    command: str
    is_check: bool
    selection: dict[str, Any]
    by_whom: str
    tool_version: str


@dataclass(frozen=True)
class Result:
    """How one host fared in one stage, or in the run as a whole."""

    host: str
    stage: str
    status: str
    changed: int
    message: str = ""


def new_run_id() -> str:
    """Return an id that sorts by time."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"


class Store:
    """Reads and writes one fleet's database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.db = connection

    def begin(self, run: RunStart) -> None:
        """Write down that a run has begun."""
        with self.db:
            self.db.execute(
                "INSERT INTO runs (id, command, started, is_check, selection, by_whom,"
                " tool_version) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    run.id,
                    run.command,
                    time.time(),
                    run.is_check,
                    json.dumps(run.selection),
                    run.by_whom,
                    run.tool_version,
                ),
            )

    def finish(
        self,
        run_id: str,
        code: ExitCode,
        results: list[Result],
        counts: dict[str, int],
        stopped_at: str = "",
    ) -> None:
        """Write down how a run has ended, all of it or nothing."""
        rows = [(run_id, r.host, r.stage, r.status, r.changed, r.message) for r in results]
        with self.db:
            self.db.executemany("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?)", rows)
            self.db.execute(
                "UPDATE runs SET ended = ?, exit_code = ?, counts = ?, stopped_at = ? WHERE id = ?",
                (time.time(), int(code), json.dumps(counts), stopped_at, run_id),
            )

    def see(self, hosts: Mapping[str, Mapping[str, Any]]) -> None:
        """Write down what hosts are."""
        rows = [(host, time.time(), json.dumps(identity)) for host, identity in hosts.items()]
        with self.db:
            self.db.executemany("INSERT OR REPLACE INTO sightings VALUES (?, ?, ?)", rows)

    def sightings(self) -> dict[str, dict[str, Any]]:
        """Return what each host was when a run last saw it."""
        rows = self.db.execute("SELECT host, identity FROM sightings").fetchall()
        return {row["host"]: json.loads(row["identity"]) for row in rows}

    def close_dead(self, alive: str) -> list[str]:
        """Mark runs that never ended; the caller holds the lock, so that none is at work."""
        rows = self.db.execute("SELECT id FROM runs WHERE ended IS NULL AND id != ?", (alive,))
        dead = [row["id"] for row in rows.fetchall()]
        with self.db:
            self.db.executemany(
                "UPDATE runs SET ended = ?, exit_code = ?, stopped_at = 'died' WHERE id = ?",
                [(time.time(), int(ExitCode.INTERRUPTED), run_id) for run_id in dead],
            )
        return dead

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return the latest runs, newest first."""
        rows = self.db.execute("SELECT * FROM runs ORDER BY started DESC LIMIT ?", (limit,))
        return [_run(row) for row in rows.fetchall()]

    def hosts(self) -> list[dict[str, Any]]:
        """Return each host's latest result, by stage, and when it was last good."""
        rows = self.db.execute(
            "SELECT results.*, runs.started, runs.ended FROM results"
            " JOIN runs ON runs.id = results.run WHERE NOT runs.is_check"
            " ORDER BY runs.started, results.host"
        )
        hosts: dict[str, dict[str, Any]] = {}
        for row in rows.fetchall():
            _take(hosts, row)
        return [hosts[name] for name in sorted(hosts)]


def _run(row: sqlite3.Row) -> dict[str, Any]:
    """Return a run as plain data."""
    run = dict(row)
    run["is_check"] = bool(run["is_check"])
    return run | {key: json.loads(run[key]) for key in ("selection", "counts")}


def _take(hosts: dict[str, dict[str, Any]], row: sqlite3.Row) -> None:
    """Add one result to what is known about its host."""
    fresh = {"host": row["host"], "stages": {}, "last_good": None}
    host = hosts.setdefault(row["host"], fresh)
    facts = {"status": row["status"], "run": row["run"], "at": row["ended"] or row["started"]}
    facts["message"] = row["message"]
    if row["stage"] != WHOLE:
        host["stages"][row["stage"]] = facts
        return
    host.update(facts)
    if row["status"] in {"ok", "changed"}:
        host["last_good"] = facts["at"]


@contextlib.contextmanager
def open_store(path: Path) -> Iterator[Store]:
    """Open the database, made if need be; one from a newer version is left alone."""
    connection = sqlite3.connect(path, timeout=30, isolation_level="IMMEDIATE")
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        _migrate(connection, path)
        yield Store(connection)
    finally:
        connection.close()


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the database to our schema."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise ConfigError(
            f"{path} has schema {version}, and this version knows up to {SCHEMA_VERSION}",
            hint="a newer vllm-fleet wrote it: use that one",
        )
    for step in range(version + 1, SCHEMA_VERSION + 1):
        connection.executescript(
            f"BEGIN IMMEDIATE; {STEPS[step]} PRAGMA user_version = {step}; COMMIT;"
        )


def last_seen(path: Path) -> dict[str, dict[str, Any]]:
    """Return what a fleet's hosts were when last seen; nothing where no run is on record."""
    if not path.is_file():
        return {}
    with open_store(path) as store:
        return store.sightings()
