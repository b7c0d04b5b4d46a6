"""The three ways in: a wheel, a collection without the Python package, and a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = "vllm_fleet.baremetal.site"
INVENTORY = ROOT / "inventories" / "mixed"


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command outside the checkout, with nothing of ours in its environment."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ANSIBLE_") and name != "PYTHONPATH"
    }
    clean.update(HOME=str(cwd), **environment)
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tracked files: what somebody who clones the project has."""
    copy = tmp_path_factory.mktemp("source")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, tracked.split("\0")):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
    return copy


def ansible_only(folder: Path) -> Path:
    """Make an environment with this one's ansible-core in it, but without the package.

    The path file names our site-packages; path files found there (that of an editable install)
    are not read a second time.
    """
    venv.create(folder, symlinks=True)
    found = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    Path(found, "ansible.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return folder / "bin" / "python"


def test_pip_install_brings_the_command_and_a_collection(source: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    bin_dir = tmp_path / "venv" / "bin"
    run(bin_dir / "python", "-m", "pip", "install", "--quiet", source, cwd=tmp_path)
    assert "vllm-fleet" in run(bin_dir / "vllm-fleet", "--version", cwd=tmp_path).stdout
    syntax = ("--syntax-check", "-i", INVENTORY, PLAYBOOK)
    run(bin_dir / "ansible-playbook", *syntax, cwd=tmp_path)
    run(bin_dir / "vllm-fleet", "validate", "-i", INVENTORY, cwd=tmp_path)


def test_galaxy_collection_works_without_the_package(source: Path, tmp_path: Path) -> None:
    python = ansible_only(tmp_path / "venv")
    command = [python, "-m", "ansible"]
    absent = [
        python,
        "-c",
        "import importlib.util as u; raise SystemExit(bool(u.find_spec('vllm_fleet')))",
    ]
    run(*absent, cwd=tmp_path)
    run(*command, "galaxy", "collection", "build", source, "--output-path", tmp_path, cwd=tmp_path)
    (tarball,) = tmp_path.glob("vllm_fleet-baremetal-*.tar.gz")
    where = tmp_path / "collections"
    run(*command, "galaxy", "collection", "install", tarball, "-p", where, cwd=tmp_path)
    assert not (where / "ansible_collections/vllm_fleet/baremetal/vllm_fleet").exists()
    found = {"ANSIBLE_COLLECTIONS_PATH": str(where)}
    run(*command, "playbook", "--syntax-check", "-i", INVENTORY, PLAYBOOK, cwd=tmp_path, **found)
    doc = run(*command, "doc", "vllm_fleet.baremetal.hugepages", cwd=tmp_path, **found)
    assert "hugepages" in doc.stdout.lower()


def test_checkout_runs_with_plain_ansible_playbook(source: Path) -> None:
    playbook = Path(sys.executable).with_name("ansible-playbook")
    listed = run(
        playbook, "--list-tasks", "-i", "inventories/mixed", "playbooks/site.yml", cwd=source
    )
    assert "Stage vllm_service" in listed.stdout
