"""Find the collection that ansible-core would really use, and hold it against our version."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import vllm_fleet
from vllm_fleet.errors import ConfigError

NAME = Path("ansible_collections/vllm_fleet/baremetal")


@dataclass(frozen=True)
class Collection:
    """The collection on disk: where it is and which version it says it has."""

    root: Path
    version: str

    @property
    def playbooks(self) -> Path:
        """Return the folder of the playbooks."""
        return self.root / "playbooks"

    def playbook(self, name: str) -> Path:
        """Return one playbook, or say that the collection lacks it."""
        path = self.playbooks / name
        if not path.is_file():
            raise ConfigError(f"the collection in {self.root} has no playbooks/{name}")
        return path


def package_dir() -> Path:
    """Return the folder of the running Python package."""
    return Path(vllm_fleet.__file__).resolve().parent


def checkout() -> Path | None:
    """Return the checkout that we run from, if we do (galaxy.yml stands beside the package)."""
    root = package_dir().parent
    return root if (root / "galaxy.yml").is_file() else None


def read_version(root: Path) -> str:
    """Return the version of the collection in ``root``: MANIFEST.json, else galaxy.yml."""
    manifest, galaxy = root / "MANIFEST.json", root / "galaxy.yml"
    if manifest.is_file():
        info = json.loads(manifest.read_text(encoding="utf-8"))
        return str(info["collection_info"]["version"])
    found = None
    if galaxy.is_file():
        text = galaxy.read_text(encoding="utf-8")
        found = re.search(r"^version:\s*[\"']?([^\s\"'#]+)", text, re.MULTILINE)
    return found.group(1) if found else "unknown"


def find(search_paths: Iterable[str | Path]) -> Collection:
    """Return the collection in use: the checkout's, else the first one on the search path.

    ansible-core looks beside the playbook first, and we take the playbooks from the collection
    itself; after that come the configured collection paths and ``sys.path``, in this order.
    """
    root = checkout() or _first(search_paths)
    if root is None:
        raise ConfigError(
            "the Ansible collection vllm_fleet.baremetal was not found",
            hint="install the package again: the collection is part of it",
        )
    return Collection(root=root, version=read_version(root))


def _first(search_paths: Iterable[str | Path]) -> Path | None:
    """Return the first search path's collection, as ansible-core would."""
    for path in search_paths:
        base = Path(path or ".").expanduser()
        # A configured path may name the folder ansible_collections itself.
        for root in (base / NAME, base.parent / NAME if base.name == NAME.parts[0] else None):
            if root is not None and root.is_dir():
                return root.resolve()
    return None


def require_same_version(collection: Collection) -> None:
    """Refuse to work with a collection of another version than the command's own."""
    if collection.version == vllm_fleet.__version__:
        return
    raise ConfigError(
        f"the command is version {vllm_fleet.__version__} ({package_dir()}), but the collection "
        f"that ansible-core uses is version {collection.version} ({collection.root})",
        hint="install both from the same release, or remove the one that is in the way",
    )
