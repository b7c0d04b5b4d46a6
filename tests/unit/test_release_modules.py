"""The modules of the build stage, run by ansible on this machine with a tiny distribution."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
BASE = str(Path(sys.executable).resolve())


def call(module: str, check: bool = False, **options: Any) -> dict[str, Any]:
    """Run one module on this machine with plain ansible; return its result."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "playbooks" / "collections"),
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.oneline",
        "ANSIBLE_FORCE_COLOR": "0",
    }
    command = [str(Path(sys.executable).with_name("ansible")), "localhost", "-c", "local"]
    command += ["-m", f"vllm_fleet.baremetal.{module}", "-a", json.dumps(options)]
    command += ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(
        command + (["--check"] if check else []),
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert "{" in done.stdout, done.stdout + done.stderr
    result = json.loads(done.stdout[done.stdout.index("{") :])
    return {"failed": "FAILED" in done.stdout, **result}


def make_wheel(directory: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> Path:
    """Write a wheel of one module; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    info, path = f"{name}-{version}.dist-info", directory / f"{name}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", tags)
        record = "".join(f"{each},,\n" for each in [*wheel.namelist(), f"{info}/RECORD"])
        wheel.writestr(f"{info}/RECORD", record)
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A directory with an engine, what it needs, and a package that it asks for in vain."""
    place = tmp_path / "wheels"
    make_wheel(place, "tinyengine", "1.0", ("tinydep>=1", "tinyvision==9", 'x; extra == "y"'))
    make_wheel(place, "tinydep", "1.5", ("tinytriton",))
    return place


def options_of(tmp_path: Path, wheels: Path, **more: Any) -> dict[str, Any]:
    return {
        "work_dir": str(tmp_path / "work"),
        "key": "tiny",
        "python": BASE,
        "method": "index",
        "distribution": "tinyengine",
        "version": "1.0",
        "find_links": [str(wheels)],
        **more,
    }


def test_wheel_lock_and_release(tmp_path: Path, wheels: Path) -> None:
    options = options_of(tmp_path, wheels)
    predicted = call("engine_wheel", check=True, **options)
    assert predicted["changed"]
    assert not (tmp_path / "work").exists()

    wheel = call("engine_wheel", **options)
    assert wheel["changed"], wheel
    assert wheel["wheel"]["sha256"] == sha256(wheels / "tinyengine-1.0-py3-none-any.whl")
    assert not call("engine_wheel", **options)["changed"]

    resolve = {
        "work_dir": options["work_dir"],
        "key": "tiny",
        "wheel": wheel["wheel"],
        "exclude": ["tinyvision", "tinytriton"],
        "find_links": [str(wheels)],
    }
    lock = call("engine_lock", **resolve)
    assert lock["changed"], lock
    assert lock["lock"]["packages"] == 2
    text = Path(lock["lock"]["path"]).read_text(encoding="utf-8")
    assert "tinydep==1.5 --hash=sha256:" in text
    assert "triton" not in text
    assert not call("engine_lock", **resolve)["changed"]
    release_of(tmp_path, wheels, lock["lock"]["path"])


def release_of(tmp_path: Path, wheels: Path, lock: str) -> None:
    """Install the release; predict, repeat, damage and repair it."""
    options = {
        "id": "0123456789abcdef",
        "root": str(tmp_path / "releases"),
        "key": "tiny",
        "python": BASE,
        "distribution": "tinyengine",
        "version": "1.0",
        "lock_file": lock,
        "find_links": [str(wheels)],
        "compile": False,
        "current_link": str(tmp_path / "current"),
    }
    path = tmp_path / "releases" / options["id"]
    predicted = call("engine_release", check=True, **options)
    assert predicted["changed"]
    assert not path.exists()

    path.mkdir(parents=True)  # left by an installation that was killed
    done = call("engine_release", **options)
    assert done["changed"], done
    assert done["reason"] == "an earlier installation was not completed"
    assert (tmp_path / "current").resolve() == path
    record = json.loads((path / "release.json").read_text(encoding="utf-8"))
    assert record["packages"] == {"tinydep": "1.5", "tinyengine": "1.0"}

    offline = {**options, "find_links": ["/nowhere"], "lock_file": "/nowhere"}
    assert not call("engine_release", **offline)["changed"]
    assert not call("engine_release", check=True, **offline)["changed"]

    site = next(path.glob("lib/python*/site-packages"))
    (site / "tinydep-1.5.dist-info").rename(site / "tinydep-0.1.dist-info")
    repaired = call("engine_release", **options)
    assert repaired["reason"] == "missing or replaced: tinydep"
    assert not call("engine_release", **options)["changed"]


def test_release_that_cannot_be_installed_leaves_nothing(tmp_path: Path, wheels: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text(f"tinyengine==1.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    options = {
        "id": "0123456789abcdef",
        "root": str(tmp_path / "releases"),
        "key": "tiny",
        "python": BASE,
        "distribution": "tinyengine",
        "version": "1.0",
        "lock_file": str(lock),
        "find_links": [str(wheels)],
    }
    result = call("engine_release", **options)
    assert result["failed"]
    assert "DO NOT MATCH THE HASHES" in result["log_tail"]
    assert not (tmp_path / "releases" / options["id"]).exists()
    missing = call("engine_release", **{**options, "lock_file": "/nowhere/lock"})
    assert "there is no lock at /nowhere/lock" in missing["msg"]


def source_archive(path: Path) -> str:
    """Write a source archive of a distribution that builds with setuptools; return its SHA-256."""
    files = {
        "setup.py": "import os\nfrom setuptools import setup\nprint('DEVICE', "
        "os.environ['VLLM_TARGET_DEVICE'])\nsetup(name='tinyengine', py_modules=['tinyengine'], "
        "version=os.environ['VLLM_VERSION_OVERRIDE'])\n",
        "tinyengine.py": "VERSION = 1\n",
    }
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"tinyengine-1.0/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return sha256(path)


def test_wheel_from_source(tmp_path: Path, wheels: Path) -> None:
    src = tmp_path / "tinyengine-1.0.tar.gz"
    seen = source_archive(src)
    options = options_of(tmp_path, wheels, method="source", src=str(src), sha256="0" * 64)
    wrong = call("engine_wheel", **options)
    assert wrong["failed"]
    assert f"wrong checksum: {src} has SHA-256 {seen}" in wrong["msg"]
    missing = call("engine_wheel", **{**options, "src": "/nowhere.tgz", "sha256": seen})
    assert "there is no archive at /nowhere.tgz" in missing["msg"]


def test_sources_with_a_password_are_refused(tmp_path: Path, wheels: Path) -> None:
    options = options_of(tmp_path, wheels, index_url="https://me:hunter2@m.example/simple")
    result = call("engine_wheel", **options)
    assert result["failed"]
    assert ".netrc" in result["msg"]


def python_archive(path: Path, version: str = VERSION) -> str:
    """Write an archive whose interpreter is a script; return its SHA-256."""
    script = f'#!/bin/sh\ncase "$*" in *sys.version_info*) echo {version}.9;; esac\n'
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo("python/bin/python3")
        info.size, info.mode = len(script), 0o755
        tar.addfile(info, io.BytesIO(script.encode()))
    return sha256(path)


def test_interpreter_from_an_archive(tmp_path: Path) -> None:
    src, dest = tmp_path / "python.tar.gz", tmp_path / "opt" / "python"
    options = {"src": str(src), "dest": str(dest), "version": VERSION}
    options["sha256"] = python_archive(src)
    assert call("python_archive", check=True, **options)["changed"]
    assert not dest.exists()
    done = call("python_archive", **options)
    assert (done["changed"], done["version"]) == (True, f"{VERSION}.9"), done
    assert not call("python_archive", **options)["changed"]
    wrong = call("python_archive", **{**options, "sha256": "0" * 64})
    assert "wrong checksum" in wrong["msg"]
    assert not call("python_archive", **options)["changed"]
    assert [p.name for p in dest.parent.iterdir()] == ["python"]


def test_archives_that_are_refused(tmp_path: Path) -> None:
    src, dest = tmp_path / "python.tar.gz", tmp_path / "opt" / "python"
    options = {"src": str(src), "dest": str(dest), "version": VERSION}
    options["sha256"] = python_archive(src, "3.6")
    assert "holds Python 3.6.9, not" in call("python_archive", **options)["msg"]
    gone = call("python_archive", check=True, **{**options, "src": "http://127.0.0.1:9/p.tgz"})
    assert "cannot be had" in gone["msg"]
    assert not dest.exists()
    (dest / "mine").mkdir(parents=True)
    assert "in the way" in call("python_archive", **options)["msg"]


def test_interpreter_that_is_looked_at() -> None:
    options = {"executable": BASE, "version": VERSION, "required_modules": ["ssl", "venv"]}
    found = call("python_interpreter", check=True, **options)
    assert found["found"], found
    assert found["version"].startswith(VERSION + ".")
    system = call("python_interpreter", **options, system_executables=[BASE])
    assert "the system's own interpreter" in system["msg"]
    assert "not 2.7" in call("python_interpreter", **{**options, "version": "2.7"})["msg"]
    lacking = call("python_interpreter", **{**options, "required_modules": ["no_such_module"]})
    assert "lacks modules of the standard library: no_such_module" in lacking["msg"]
    nowhere = {**options, "executable": "/nowhere/python3"}
    assert "no interpreter at /nowhere" in call("python_interpreter", **nowhere)["msg"]
    assert not call("python_interpreter", **nowhere, missing_ok=True)["found"]
