"""Package the command, and beside it the Ansible collection.

The wheel carries the collection as ``ansible_collections/vllm_fleet/baremetal``: ansible-core
searches every directory of ``sys.path`` for collections, so ``pip install`` needs no setting.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
COLLECTION = Path("ansible_collections/vllm_fleet/baremetal")
COLLECTION_FILES = ("galaxy.yml", "README.md", "README.zh-CN.md", "LICENSE", "CHANGELOG.md")
COLLECTION_DIRS = ("meta", "playbooks", "roles", "plugins", "catalog", "inventories", "docs")


def version() -> str:
    """Return the version named in galaxy.yml (read as text: PyYAML is not there at build time)."""
    found = re.search(r"^version: (\S+)$", (ROOT / "galaxy.yml").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("galaxy.yml: no line 'version: X.Y.Z'")
    return found.group(1)


class BuildWithCollection(build_py):
    """Copy the collection into the wheel (an editable install uses the checkout itself)."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / COLLECTION
        target.mkdir(parents=True, exist_ok=True)
        for name in COLLECTION_FILES:
            shutil.copy2(ROOT / name, target / name)
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc", "collections")
        for name in COLLECTION_DIRS:
            shutil.copytree(ROOT / name, target / name, ignore=ignore, dirs_exist_ok=True)


setup(
    name="vllm-fleet",
    version=version(),
    description="Turns bare-metal fleets into hosts that serve models with vLLM under systemd",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="GPL-3.0-or-later",
    python_requires=">=3.10",
    packages=find_packages(include=["vllm_fleet", "vllm_fleet.*"]),
    package_data={"vllm_fleet": ["py.typed"], "vllm_fleet.lab": ["data/**/*", "data/*"]},
    install_requires=[
        "ansible-core>=2.16,<2.22",
        "ansible-runner>=2.4,<2.5",
        "Jinja2>=3.1",
        "PyYAML>=6.0",
        "pydantic>=2.5",
        "rich>=13.0",
        "typer>=0.12",
    ],
    extras_require={
        # ansible-core 2.16 is the last one that manages targets with Python 3.6 or 3.7.
        "legacy-targets": ["ansible-core>=2.16,<2.17"],
        # Only for benchmarks from the controller; never needed to manage hosts.
        "engine": ["vllm"],
        "dev": [
            "ansible-lint>=24.2",
            "antsibull-changelog>=0.23",
            "mypy>=1.8",
            "pytest>=8.0",
            "ruff>=0.4",
            "types-PyYAML",
            "vermin>=1.6",
            "yamllint>=1.33",
        ],
    },
    entry_points={"console_scripts": ["vllm-fleet=vllm_fleet.cli.main:main"]},
    cmdclass={"build_py": BuildWithCollection},
)
