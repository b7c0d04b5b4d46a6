"""The wheelhouse: pip's configuration carried inside, locks, pages of links, clear refusals."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from vllm_fleet.lab import mirror_files, mirror_pip, mirror_root, python_archive, wheelhouse
from vllm_fleet.lab.mirror_files import MirrorError
from vllm_fleet.lab.mirror_root import Root

LOCK = "# about\nAlpha_One==1.0\nbeta==2.0+cpu --hash=sha256:00\n"


class FakePip(wheelhouse.Pip):
    """Records what it is asked, and lays down what it was told to have."""

    def __init__(self, work: Path, offers: Mapping[str, str], error: str = "") -> None:
        super().__init__(Root(work, work), "3.11", [])
        self.offers = offers
        self.error = error
        self.asked: list[str] = []

    def __call__(self, verb: str, *words: str, extra: Mapping[str, str] | None = None) -> str:
        self.asked = [verb, *words]
        if self.error:
            raise MirrorError(self.error)
        target = self.root.work / words[words.index("--dest") + 1].removeprefix("/mirror-work/")
        for name, text in self.offers.items():
            (target / name).write_text(text)
        return ""


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "locks"
    folder.mkdir()
    (folder / "engine.txt").write_text(LOCK)
    monkeypatch.setattr(wheelhouse, "LOCKS", folder)
    return folder


def folder(parent: Path, name: str) -> Path:
    path = parent / name
    path.mkdir()
    return path


ALPHA, BETA = "alpha_one-1.0-py3-none-any.whl", "beta-2.0+cpu-cp311-cp311-linux_x86_64.whl"


def test_pins_and_wheel_names_compare(locks: Path) -> None:
    assert wheelhouse.wanted(["engine"]) == {("alpha-one", "1.0"), ("beta", "2.0+cpu")}
    named = {wheelhouse.wheel_pin(name) for name in (ALPHA, BETA)}
    assert named == wheelhouse.wanted(["engine"])


def test_a_first_download_asks_for_every_pin(tmp_path: Path, locks: Path) -> None:
    pip, target = FakePip(tmp_path, {ALPHA: "a", BETA: "b"}), folder(tmp_path, "staged")
    wheelhouse.download(pip, ["engine"], target, tmp_path / "none")
    assert pip.asked[:2] == ["download", "--no-deps"]
    assert (tmp_path / "missing.txt").read_text() == "alpha-one==1.0\nbeta==2.0+cpu\n"


def test_wheels_that_are_there_are_taken_over_and_old_ones_dropped(
    tmp_path: Path, locks: Path
) -> None:
    kept = folder(tmp_path, "kept")
    for name in (ALPHA, "alpha_one-0.9-py3-none-any.whl"):
        (kept / name).write_text("kept")
    mirror_files.write_sums(kept)
    pip, target = FakePip(tmp_path, {BETA: "b"}), folder(tmp_path, "staged")
    wheelhouse.download(pip, ["engine"], target, kept)
    assert (tmp_path / "missing.txt").read_text() == "beta==2.0+cpu\n"
    assert {path.name for path in target.iterdir()} == {ALPHA, BETA}


def test_a_wheel_that_did_not_come_is_named(tmp_path: Path, locks: Path) -> None:
    pip, target = FakePip(tmp_path, {ALPHA: "a"}), folder(tmp_path, "staged")
    with pytest.raises(MirrorError, match=r"lacks beta==2\.0\+cpu"):
        wheelhouse.download(pip, ["engine"], target, tmp_path / "none")


def test_without_a_cpu_torch_it_says_what_to_do(tmp_path: Path, locks: Path) -> None:
    (locks / "engine.txt").write_text("torch==9.9+cpu\n")
    words = "ERROR: No matching distribution found for torch==9.9+cpu"
    pip, target = FakePip(tmp_path, {}, words), folder(tmp_path, "staged")
    with pytest.raises(MirrorError, match=r"torch==9\.9\+cpu[\s\S]*VLLM_FLEET_LAB_CPU_TORCH="):
        wheelhouse.download(pip, ["engine"], target, tmp_path / "none")


def test_other_failures_keep_pips_own_words(tmp_path: Path, locks: Path) -> None:
    pip, target = FakePip(tmp_path, {}, "no route"), folder(tmp_path, "staged")
    with pytest.raises(MirrorError, match="no route"):
        wheelhouse.download(pip, ["engine"], target, tmp_path / "none")


def test_the_page_of_links_carries_sums_and_quotes_names(tmp_path: Path) -> None:
    (tmp_path / BETA).write_text("b")
    wheelhouse.write_index(tmp_path)
    page = (tmp_path / "index.html").read_text()
    digest = mirror_files.sha256(tmp_path / BETA)
    assert f'href="{BETA.replace("+", "%2B")}#sha256={digest}"' in page
    assert mirror_files.verify(tmp_path) == []


def test_published_locks_carry_the_sums_of_the_wheels(tmp_path: Path, locks: Path) -> None:
    target = folder(tmp_path, "published")
    wheelhouse.write_locks(["engine"], {ALPHA: "11", BETA: "22", "gamma-1-x.whl": "33"}, target)
    assert (target / "engine.txt").read_text().splitlines() == [
        "alpha-one==1.0 --hash=sha256:11",
        "beta==2.0+cpu --hash=sha256:22",
    ]


class TestConfiguration:
    """What pip on this machine knows, pip inside knows too."""

    def test_later_files_win_and_lines_are_joined(self, tmp_path: Path) -> None:
        weak, strong = tmp_path / "weak", tmp_path / "strong"
        weak.write_text("[global]\ntimeout = 5\nfind-links = /a\n  /b\n[list]\nformat = json\n")
        strong.write_text("[global]\ntimeout = 9\n[download]\nno-deps = yes\n")
        text = mirror_pip.as_file(mirror_pip.settings([weak, strong]))
        assert text == "[global]\ntimeout = 9\nfind-links = /a /b\n[download]\nno-deps = yes\n"

    def test_files_are_found_where_pip_looks(self, tmp_path: Path) -> None:
        for name in ("xdg/pip/pip.conf", "home/.config/pip/pip.conf", "named"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("")
        environment = {
            "XDG_CONFIG_DIRS": str(tmp_path / "xdg"), "PIP_CONFIG_FILE": str(tmp_path / "named"),
        }  # fmt: skip
        found = mirror_pip.config_files(environment, tmp_path / "home")
        own = [path for path in found if tmp_path in path.parents]
        assert [path.relative_to(tmp_path).as_posix() for path in own] == [
            "xdg/pip/pip.conf", "home/.config/pip/pip.conf", "named",
        ]  # fmt: skip

    def test_only_what_pip_needs_goes_inside(self) -> None:
        outside = {
            "PIP_CERT": "/c", "https_proxy": "p", "PATH": "x", "PIP_TARGET": "t", "AWS_SECRET": "s",
        }  # fmt: skip
        assert mirror_pip.environment_inside(outside) == {"PIP_CERT": "/c", "https_proxy": "p"}

    def test_local_places_are_shown_with_what_lies_beside_them(self, tmp_path: Path) -> None:
        index, single = tmp_path / "pypi/simple", tmp_path / "constraints.txt"
        index.mkdir(parents=True)
        single.write_text("")
        values = [f"file://{index} https://host/simple", str(single), "/none/at/all"]
        assert mirror_pip.local_paths(values) == [single, tmp_path / "pypi"]

    def test_a_folder_below_another_is_shown_once(self, tmp_path: Path) -> None:
        (tmp_path / "a/b/c").mkdir(parents=True)
        assert mirror_pip.local_paths([f"{tmp_path}/a/b/c {tmp_path}/a/b"]) == [tmp_path / "a"]

    @pytest.mark.parametrize(
        ("place", "option"),
        [
            ("/wheels", "--find-links"),
            ("https://host/simple", "--extra-index-url"),
            ("https://host/list.html", "--find-links"),
        ],
    )
    def test_the_place_of_cpu_torch(self, place: str, option: str) -> None:
        options = mirror_pip.cpu_torch_options({mirror_pip.CPU_TORCH: place})
        assert options == [option, place]
        assert mirror_pip.cpu_torch_options({}) == []


class TestPythonArchive:
    """The relocatable CPython."""

    @pytest.fixture
    def base(self, tmp_path: Path) -> Path:
        base = tmp_path / "base"
        for name, text in {
            "etc/os-release": 'PRETTY_NAME="Some Linux 1"\n',
            "usr/bin/python3.11": "program",
            "usr/lib/python3.11/os.py": "os",
            "usr/lib/python3.11/_sysconfigdata__x.py": "build_time_vars = {}\n",
            "usr/lib/python3.11/ensurepip/__init__.py": "",
            "usr/lib/python3.11/__pycache__/os.pyc": "no",
            "usr/lib/python3.11/EXTERNALLY-MANAGED": "no",
            "usr/lib/python3.11/dist-packages/x.py": "no",
            "usr/lib/python3.11/lib-dynload/_x.so": "so",
            "usr/share/python-wheels/pip-1-py3-none-any.whl": "wheel",
        }.items():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_text(text)
        (base / "usr/lib/python3.11/sitecustomize.py").symlink_to("/etc/python3.11/x.py")
        return base

    def test_it_has_one_top_folder_and_all_that_a_venv_needs(
        self, base: Path, tmp_path: Path
    ) -> None:
        python_archive.write(base, "3.11", tmp_path / "a.tar.gz")
        with tarfile.open(tmp_path / "a.tar.gz") as tar:
            members = {member.name: member for member in tar.getmembers()}
            patched = tar.extractfile("python/lib/python3.11/_sysconfigdata__x.py")
            assert patched is not None
            assert b"WHEEL_PKG_DIR" in patched.read()
        assert sorted(members) == [
            "python/bin/python", "python/bin/python3", "python/bin/python3.11",
            "python/lib/python3.11/_sysconfigdata__x.py",
            "python/lib/python3.11/ensurepip/__init__.py",
            "python/lib/python3.11/ensurepip/_bundled/pip-1-py3-none-any.whl",
            "python/lib/python3.11/lib-dynload/_x.so", "python/lib/python3.11/os.py",
            "python/share/doc/README",
        ]  # fmt: skip
        assert members["python/bin/python3.11"].mode == 0o755

    def test_the_same_root_gives_the_same_bytes(self, base: Path, tmp_path: Path) -> None:
        for name in ("a", "b"):
            python_archive.write(base, "3.11", tmp_path / name)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_a_root_without_ensurepip_is_refused(self, base: Path, tmp_path: Path) -> None:
        (base / "usr/lib/python3.11/ensurepip/__init__.py").unlink()
        (base / "usr/lib/python3.11/ensurepip").rmdir()
        with pytest.raises(MirrorError, match=r"python3\.11-venv"):
            python_archive.write(base, "3.11", tmp_path / "a")


@pytest.mark.skipif(os.geteuid() != 0, reason="entering a root needs root")
class TestRoot:
    """Commands inside a base root: here this machine's own root plays its part."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Root:
        work = folder(tmp_path, "work")
        shown = folder(tmp_path, "shown")
        (shown / "file").write_text("seen")
        return Root(Path("/usr"), work, {"GIVEN": "yes"}, [shown])

    def run(self, root: Root, script: str) -> str:
        return root.run(["/bin/sh", "-c", script])

    def test_it_sees_the_work_folder_what_is_shown_and_nothing_is_written(self, root: Root) -> None:
        base = next(iter(sorted(Path("/var/cache/vllm-fleet-lab").glob("base-*"))), None)
        if base is None:
            pytest.skip("no base root in the cache")
        root.base = base
        said = self.run(
            root, f"cat {root.shown[0]}/file; echo $GIVEN; echo made >/mirror-work/out; touch /new"
        )
        assert said == "seenyes\n"
        assert (root.work / "out").read_text() == "made\n"
        assert not (base / "new").exists()
        assert str(root.work) not in Path("/proc/mounts").read_text()

    def test_a_failure_tells_command_status_and_last_lines(self, root: Root) -> None:
        with pytest.raises(MirrorError, match=r"exit \d+: /bin/sh"):
            self.run(root, "echo broken >&2; exit 4")

    def test_a_command_that_does_not_end_is_cut_off(self) -> None:
        with pytest.raises(MirrorError, match="no end after"):
            mirror_root._run(["sleep", "60"], ["sleep", "60"], 0.2, dict(os.environ))
