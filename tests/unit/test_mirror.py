"""The mirror: sums, freshness, replacement in one step, and its server's life."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from vllm_fleet.lab import mirror, mirror_files, wheelhouse
from vllm_fleet.lab.mirror_files import MirrorError
from vllm_fleet.lab.settings import Lab

ROOT = Path(__file__).parents[2]
LIMIT = 20.0


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "home", tmp_path / "cache", "unused0", "10.213.250")


def stage(work: Path, **files: str) -> Path:
    staged = work / "staged"
    staged.mkdir()
    for name, text in files.items():
        (staged / name).write_text(text)
    return staged


def publish(lab: Lab, inputs: object, **files: str) -> None:
    with mirror_files.scratch(lab.cache) as work:
        mirror_files.publish(lab.mirror_root, "things", stage(work, **files), inputs)


def test_a_published_section_has_sums_that_sha256sum_reads(lab: Lab) -> None:
    publish(lab, 1, a="one", b="two")
    folder = lab.mirror_root / "things"
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True)
    assert done.returncode == 0
    assert sorted(mirror_files.read_sums(folder)) == ["a", "b"]
    assert mirror_files.verify(folder) == []


def test_verify_names_what_is_missing_changed_or_foreign(lab: Lab) -> None:
    publish(lab, 1, a="one", b="two", c="three")
    folder = lab.mirror_root / "things"
    (folder / "a").unlink()
    (folder / "b").write_text("other")
    (folder / "d").write_text("new")
    assert mirror_files.verify(folder) == ["a", "b", "d"]


def test_a_section_is_fresh_until_inputs_or_files_change(lab: Lab) -> None:
    assert not mirror_files.is_fresh(lab.mirror_root, "things", 1)
    publish(lab, 1, a="one")
    assert mirror_files.is_fresh(lab.mirror_root, "things", 1)
    assert not mirror_files.is_fresh(lab.mirror_root, "things", 2)
    (lab.mirror_root / "things/a").write_text("two!")
    assert not mirror_files.is_fresh(lab.mirror_root, "things", 1)


def test_publishing_again_replaces_the_whole_section(lab: Lab) -> None:
    publish(lab, 1, a="one")
    publish(lab, 2, b="two")
    names = {path.name for path in (lab.mirror_root / "things").iterdir()}
    assert names == {"b", "SHA256SUMS"}
    assert [path.name for path in lab.cache.iterdir()] == ["mirror"]


def test_work_that_fails_leaves_the_old_section_and_no_half_file(lab: Lab) -> None:
    publish(lab, 1, a="one")

    def fail() -> None:
        with mirror_files.scratch(lab.cache) as work:
            stage(work, b="half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert mirror_files.is_fresh(lab.mirror_root, "things", 1)
    assert [path.name for path in lab.cache.iterdir()] == ["mirror"]


def test_what_a_killed_run_left_is_swept(lab: Lab) -> None:
    left = lab.cache / "mirror-work-killed"
    (left / "staged").mkdir(parents=True)
    with mirror_files.exclusive(lab.cache):
        assert not left.exists()


def test_leftovers_are_removed_but_never_from_under_somebody(lab: Lab) -> None:
    mirror.remove_leftovers(lab)
    with mirror_files.exclusive(lab.cache):
        left = lab.cache / "mirror-work-busy"
        left.mkdir()
        mirror.remove_leftovers(lab)
        assert left.exists()
    mirror.remove_leftovers(lab)
    assert not left.exists()


def test_two_cannot_fill_at_once(lab: Lab) -> None:
    code = "import sys; from pathlib import Path; from vllm_fleet.lab import mirror_files as m\n"
    code += "with m.exclusive(Path(sys.argv[1])): print('in')"
    with mirror_files.exclusive(lab.cache):
        other = subprocess.Popen(
            [sys.executable, "-c", code, str(lab.cache)],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=1.0)
    assert other.communicate(timeout=LIMIT)[0] == "in\n"


def test_only_what_is_not_fresh_is_made(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def maker(_lab: Lab, _base: Path, _work: Path, staged: Path) -> None:
        made.append(staged)
        (staged / "file").write_text("x")

    monkeypatch.setattr(mirror, "MAKERS", {"models/tiny": maker, "locks": maker})
    told: list[str] = []
    mirror.ensure(lab, Path("/none"), told.append)
    assert told == ["mirror: making models/tiny", "mirror: making locks"]
    begun = time.monotonic()
    mirror.ensure(lab, Path("/none"), told.append)
    assert (len(made), len(told)) == (2, 2)
    assert time.monotonic() - begun < 1.0


def test_the_version_of_the_base_roots_python_is_read_from_its_packages(tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    with pytest.raises(OSError, match="status"):
        mirror.python_version(tmp_path)
    status.write_text("Package: x\nVersion: 1\n\nPackage: python3.11-minimal\nVersion: 3.11.2-6\n")
    assert mirror.python_version(tmp_path) == "3.11.2"
    status.write_text("Package: x\nVersion: 1\n")
    with pytest.raises(MirrorError, match="has no python"):
        mirror.python_version(tmp_path)


def ask(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/things/a", timeout=LIMIT) as answer:
        return str(answer.read().decode())


def test_the_server_starts_once_serves_and_leaves_nothing(lab: Lab, free_port: int) -> None:
    publish(lab, 1, a="one")
    pid = mirror.start(lab, "127.0.0.1", free_port)
    try:
        assert mirror.start(lab, "127.0.0.1", free_port) == pid == mirror.is_running(lab)
        assert ask(free_port) == "one"
    finally:
        mirror.stop(lab)
    assert mirror.is_running(lab) is None
    assert not Path(f"/proc/{pid}").exists()
    assert {path.name for path in lab.home.iterdir()} <= {"mirror.log"}
    mirror.stop(lab)


def test_a_pid_of_somebody_else_is_never_taken_for_the_server(lab: Lab) -> None:
    lab.home.mkdir(parents=True)
    mirror.pid_file(lab).write_text(f"{os.getpid()}\n")
    assert mirror.is_running(lab) is None
    mirror.stop(lab)
    assert not mirror.pid_file(lab).exists()


def test_a_port_that_is_taken_is_said(lab: Lab, free_port: int, tmp_path: Path) -> None:
    publish(lab, 1, a="one")
    mirror.start(lab, "127.0.0.1", free_port)
    second = Lab(tmp_path / "second", lab.cache, "unused1", "10.213.251")
    try:
        with pytest.raises(MirrorError, match=r"does not answer at .* see .*mirror\.log"):
            mirror.start(second, "127.0.0.1", free_port)
    finally:
        mirror.stop(lab)
    assert not mirror.pid_file(second).exists()


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class TestData:
    """The lists of versions that the mirror is made from."""

    locks = mirror.contents()["locks"]

    def test_every_lock_is_there_and_all_agree_on_versions(self) -> None:
        versions: dict[str, set[str]] = {}
        for name, version in wheelhouse.wanted(self.locks):
            versions.setdefault(name, set()).add(version)
        assert {name: seen for name, seen in versions.items() if len(seen) > 1} == {}

    def test_one_cpu_build_of_torch_serves_both_engines_and_the_build(self) -> None:
        texts = [wheelhouse.lock_file(name).read_text() for name in self.locks]
        torches = {wheelhouse.pins(text)["torch"] for text in texts}
        assert len(torches) == 1
        assert torches.pop().endswith("+cpu")

    def test_what_is_left_out_is_in_no_lock(self) -> None:
        names = {name for name, _ in wheelhouse.wanted(self.locks)}
        assert names.isdisjoint(mirror.contents()["leave_out"])

    def test_versions_are_those_of_the_catalog(self) -> None:
        catalog = yaml.safe_load((ROOT / "catalog/vllm.yml").read_text())
        engines = catalog["accelerators"]
        cpu, ascend = engines["cpu"], engines["ascend"]
        assert (cpu["distribution"], cpu["version"]) in wheelhouse.wanted(self.locks)
        sources = {(row["project"], row["version"]) for row in mirror.contents()["sources"]}
        assert (ascend["distribution"], ascend["version"]) in sources
