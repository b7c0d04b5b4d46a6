"""The fleet's database and lock."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from vllm_fleet.errors import ConfigError, ExitCode, LockedError
from vllm_fleet.state import paths
from vllm_fleet.state.lock import fleet_lock
from vllm_fleet.state.store import (
    SCHEMA_VERSION,
    WHOLE,
    Result,
    RunStart,
    Store,
    new_run_id,
    open_store,
)


def start(store: Store, run_id: str, is_check: bool = False) -> None:
    store.begin(RunStart(run_id, "apply", is_check, {"limit": "x"}, "me", "0.1.0"))


def test_runs_and_results_come_back(tmp_path: Path) -> None:
    with open_store(tmp_path / "db") as store:
        start(store, "1")
        results = [Result("a", "one", "changed", 2), Result("a", WHOLE, "changed", 2)]
        store.finish("1", ExitCode.OK, results, {"changed": 1})
        start(store, "2")
        store.finish("2", ExitCode.FAILED, [Result("a", WHOLE, "failed", 0, "no")], {"failed": 1})
    with open_store(tmp_path / "db") as store:
        runs = store.history(5)
        assert [(run["id"], run["exit_code"]) for run in runs] == [("2", 3), ("1", 0)]
        assert runs[1]["counts"] == {"changed": 1}
        assert runs[1]["selection"] == {"limit": "x"}
        host = store.hosts()[0]
        assert (host["status"], host["message"], host["run"]) == ("failed", "no", "2")
        assert host["last_good"] == runs[1]["ended"]
        assert host["stages"]["one"]["status"] == "changed"


def test_a_finish_is_all_or_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path / "db") as store:
        start(store, "1")
        twice = [Result("a", WHOLE, "ok", 0)] * 2
        with pytest.raises(sqlite3.IntegrityError):
            store.finish("1", ExitCode.OK, twice, {})
        assert store.hosts() == []
        assert store.history(1)[0]["ended"] is None
        assert store.close_dead(alive="2") == ["1"]
        assert store.history(1)[0]["exit_code"] == 130


def test_the_database_is_in_wal_mode_and_versioned(tmp_path: Path) -> None:
    with open_store(tmp_path / "db") as store:
        assert store.db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert store.db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
        store.db.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="schema 99"), open_store(tmp_path / "db"):
        pass


def test_the_lock_is_held_once_and_freed(tmp_path: Path) -> None:
    second = fleet_lock(tmp_path, "run-2")
    with fleet_lock(tmp_path, "run-1"), pytest.raises(LockedError, match="run-1"):
        second.__enter__()
    with fleet_lock(tmp_path, "run-3"):
        assert "run-3" in (tmp_path / "lock").read_text()


def test_run_ids_sort_by_time_and_differ() -> None:
    assert len({new_run_id() for _ in range(50)}) == 50


def test_where_state_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_FLEET_STATE_HOME", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(paths.os, "geteuid", lambda: 1000)
    assert paths.fleet_dir("demo") == tmp_path / "vllm-fleet/demo"
    assert (tmp_path / "vllm-fleet/demo").stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(paths.os, "geteuid", lambda: 0)
    assert paths.state_root() == Path("/var/lib/vllm-fleet-controller")
