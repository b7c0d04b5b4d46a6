"""Which collection is used, and that its version must be ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import vllm_fleet
from vllm_fleet import collection
from vllm_fleet.errors import ConfigError


def install(path: Path, version: str, manifest: bool = True) -> Path:
    """Put a collection of some version below a search path."""
    root = path / "ansible_collections/vllm_fleet/baremetal"
    root.mkdir(parents=True)
    if manifest:
        content = {"collection_info": {"version": version}}
        (root / "MANIFEST.json").write_text(json.dumps(content))
    else:
        (root / "galaxy.yml").write_text(f"name: baremetal\nversion: {version}  # ours\n")
    return root


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "checkout", lambda: None)


def test_a_checkout_uses_its_own_collection() -> None:
    found = collection.find([])
    assert found.root == Path(vllm_fleet.__file__).resolve().parents[1]
    assert found.version == vllm_fleet.__version__
    collection.require_same_version(found)
    assert found.playbook("site.yml").is_file()


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("manifest", [True, False])
def test_the_first_of_the_search_paths_wins(tmp_path: Path, manifest: bool) -> None:
    first = install(tmp_path / "first", "1.2.3", manifest)
    install(tmp_path / "second", "9.9.9")
    paths = [tmp_path / "empty", tmp_path / "first", tmp_path / "second"]
    assert collection.find(paths) == collection.Collection(first, "1.2.3")


@pytest.mark.usefixtures("_installed")
def test_a_path_may_name_the_folder_of_collections_itself(tmp_path: Path) -> None:
    root = install(tmp_path, "1.2.3")
    assert collection.find([tmp_path / "ansible_collections"]).root == root


@pytest.mark.usefixtures("_installed")
def test_another_version_is_refused_with_both_paths(tmp_path: Path) -> None:
    root = install(tmp_path, "9.9.9")
    with pytest.raises(ConfigError) as caught:
        collection.require_same_version(collection.find([tmp_path]))
    assert str(root) in caught.value.message
    assert str(collection.package_dir()) in caught.value.message
    assert "9.9.9" in caught.value.message


@pytest.mark.usefixtures("_installed")
def test_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="was not found"):
        collection.find([tmp_path])


def test_a_playbook_that_the_collection_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no playbooks/site"):
        collection.Collection(tmp_path, "1").playbook("site.yml")
