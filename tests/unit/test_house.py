"""The house rules that a newcomer would break first."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HOST_CODE = sorted([*ROOT.glob("plugins/modules/*.py"), *ROOT.glob("plugins/module_utils/*.py")])
OURS = "ansible_collections.vllm_fleet.baremetal.plugins.module_utils"


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_action_groups_name_every_module() -> None:
    runtime = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))
    modules = sorted(path.stem for path in ROOT.glob("plugins/modules/*.py"))
    assert runtime["action_groups"]["all"] == modules


@pytest.mark.parametrize("path", HOST_CODE, ids=lambda path: path.stem)
def test_code_for_hosts_imports_the_standard_library_only(path: Path) -> None:
    for name in imports(path):
        top = name.partition(".")[0]
        allowed = (
            top in sys.stdlib_module_names
            or name.startswith(("ansible.module_utils", OURS))
            or name == "__future__"
        )
        assert allowed, f"{path.name} imports {name}"


def test_the_collection_never_imports_the_package() -> None:
    for path in ROOT.glob("plugins/**/*.py"):
        assert not {name for name in imports(path) if name.startswith("vllm_fleet")}, path


def test_one_file_imports_ansible_runner() -> None:
    users = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob("vllm_fleet/**/*.py")
        if any(name.startswith("ansible_runner") for name in imports(path))
    ]
    assert users == ["vllm_fleet/engine/runner.py"]


def test_roles_use_builtin_and_our_own_modules_only() -> None:
    action = re.compile(r"^\s*(?:- )?([a-z_0-9]+\.[a-z_0-9]+\.[a-z_0-9]+):", re.MULTILINE)
    for path in [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/*.yml")]:
        for name in action.findall(path.read_text(encoding="utf-8")):
            assert name.startswith(("ansible.builtin.", "vllm_fleet.baremetal.")), (path, name)


def test_roles_keep_to_what_this_project_allows() -> None:
    banned = re.compile(
        r"ansible\.builtin\.shell|ignore_errors|failed_when: *false|run_once|\basync:|"
        r"{{ *ansible_[a-z]+_?(?:distribution|os_family|kernel)"
    )
    for path in ROOT.glob("roles/*/tasks/*.yml"):
        assert not banned.search(path.read_text(encoding="utf-8")), path


def test_version_stands_in_one_place() -> None:
    version = re.search(r"^version: (\S+)$", (ROOT / "galaxy.yml").read_text(), re.MULTILINE)
    assert version
    for name in ("setup.py", "pyproject.toml", "vllm_fleet/__init__.py"):
        assert version.group(1) not in (ROOT / name).read_text(encoding="utf-8"), name


def test_names_of_test_files_are_unique() -> None:
    # pytest collects them as top-level modules: two of one name stop the whole run.
    names = [path.name for path in ROOT.glob("tests/**/test_*.py")]
    assert len(names) == len(set(names))
