"""``validate`` and files: what the controller must have, the JSON document, the editors' schema."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from validation import A2, PYTHON, SET, told

from vllm_fleet.cli.main import main
from vllm_fleet.errors import ConfigError
from vllm_fleet.inventory import editor_schema
from vllm_fleet.inventory.knowledge import Knowledge, search_path
from vllm_fleet.inventory.preflight import Wanted, inspect

ROOT = Path(__file__).parents[2]
TOOLKIT = "vllm_fleet_artifacts_dir"


def sum_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "python.tar.gz"
    path.write_bytes(b"python")
    return path


def runtime(archive: Path | str, sha256: str) -> str:
    return f"""
python_runtime_source: archive
python_runtime_archive: {archive}
python_runtime_archive_sha256: "{sha256}"
"""


def test_an_interpreters_archive_is_there_with_its_sum(judge: Any, archive: Path) -> None:
    assert told(judge(runtime(archive, sum_of(archive))).report.problems) == ""


def test_an_archive_that_is_not_there_or_another_one(judge: Any, archive: Path) -> None:
    absent = judge(runtime("/nowhere/x.tar.gz", "0" * 64)).report.problems
    assert "there is no file /nowhere/x.tar.gz on the controller" in told(absent)
    assert absent[0].line == 4
    assert absent[0].hosts == ("n1", "n2")
    wrong = judge(runtime(archive, "0" * 64)).report.problems
    assert "wrong checksum" in told(wrong)
    short = judge(runtime(archive, "abc")).report.problems
    assert "must be 64 hexadecimal digits" in told(short)
    assert short[0].line == 5


def test_an_interpreter_that_the_system_does_not_offer(judge: Any) -> None:
    report = judge("vllm_fleet_platform: {os: openEuler-22.03-SP4}\n").report
    assert "openEuler-22.03-SP4 has no packages of Python 3.11" in told(report.problems)
    fine = judge("vllm_fleet_platform: {os: el-9}\n").report
    assert told(fine.problems) == ""


def test_sources_and_lock_are_there_with_their_sums(judge: Any, archive: Path) -> None:
    text = f"vllm_build_source: {archive}\nvllm_build_source_sha256: {sum_of(archive)}\n"
    assert told(judge(text, "ascend").report.problems) == ""
    wrong = judge(f"vllm_build_source: {archive}\n", "ascend").report.problems
    assert "wrong checksum" in told(wrong)
    absent = judge("vllm_build_source: /nowhere.tar.gz\n", "ascend").report.problems
    assert "there is no file /nowhere.tar.gz" in told(absent)
    assert absent[0].line == 2
    lock = judge("vllm_build_lock: /nowhere.txt\n").report.problems
    assert [(p.line, "/nowhere.txt" in p.message) for p in lock] == [(2, True)]
    url = judge("vllm_build_lock: https://mirror.example/lock.txt\n").report.problems
    assert "vllm_build_lock_sha256 must be 64" in told(url)


def test_places_that_a_run_settles_are_let_through(judge: Any) -> None:
    text = "vllm_build_lock: '{{ x }}/lock.txt'\n" + runtime("'{{ y }}'", "{{ z }}")
    assert told(judge(text).report.problems) == ""


# The vendor's files


def test_the_vendors_files_are_looked_for(judge: Any, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    text = A2 + PYTHON + f"{TOOLKIT}: {folder}\n"
    report = judge(text, "ascend", SET).report
    absent = [p for p in report.problems if "is not there" in p.message]
    assert [(p.option, bool(p.line)) for p in absent] == [(TOOLKIT, True)]
    name = absent[0].message.split("/")[-1].split()[0]
    assert name == "Ascend-hdk-910b-npu_26.0.rc1_linux-aarch64.zip"
    assert "toolkit 9.1.0: no published sum is known" in told(report.notes)
    (folder / name).write_bytes(b"something else")
    again = judge(text, "ascend", SET).report
    assert f"{folder}/{name} has another SHA-256 sum" in told(again.problems)


def test_a_file_with_the_published_sum_is_good(
    judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"the real thing"
    row = {"name": "toolkit.run", "kind": "toolkit", "version": "9.1.0", "arch": "aarch64",
           "folder": "x", "sha256": hashlib.sha256(content).hexdigest()}  # fmt: skip
    (tmp_path / "toolkit.run").write_bytes(content)
    load = Knowledge.load
    files = {"base": "https://vendor.example/", "files": [row]}
    monkeypatch.setattr(
        Knowledge, "load", lambda self, n: files if n == "artifacts/ascend" else load(self, n)
    )
    report = judge(A2 + PYTHON + f"{TOOLKIT}: {tmp_path}\n", "ascend", SET).report
    assert told(report.problems) == ""
    assert "toolkit" not in told(report.notes)
    assert "ops 9.1.0 for 910b: no published sum is known" in told(report.notes)


# The JSON document


def test_the_document_has_everything(judge: Any, tmp_path: Path, capsys: Any) -> None:
    judge("vllm_fleet_platform: {chip: a2}\n" + PYTHON, "ascend", SET)
    capsys.readouterr()
    assert main(["validate", "--json", "-i", str(tmp_path / "inventory")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "vllm-fleet/validate/1"
    assert set(document) == {
        "schema", "ok", "exit_code", "fleet", "hosts", "problems", "warnings", "notes",
        "settled_at_run", "settled_at_scan", "sets",
    }  # fmt: skip
    assert document["sets"][0]["platform"] == {"chip": "a2"}
    assert document["sets"][0]["resolution"]["verdict"] == "unsettled"
    assert {"left", "right", "reason", "hosts"} == set(document["settled_at_scan"][0])


def test_the_text_names_the_versions(judge: Any, tmp_path: Path, capsys: Any) -> None:
    judge("vllm_fleet_platform: {chip: a2}\n" + PYTHON, "ascend", SET)
    capsys.readouterr()
    assert main(["validate", "-i", str(tmp_path / "inventory")]) == 0
    out = capsys.readouterr().out
    assert "versions of n1, n2 (ascend-2026.08): vllm_ascend 0.23.0, vllm 0.23.0" in out
    assert "settled at scan: the operating system" in out


# The schema for editors


def test_the_published_schema_is_the_generated_one() -> None:
    """To write it: vllm-fleet validate --schema > docs/inventory.schema.json"""
    published = (ROOT / "docs/inventory.schema.json").read_text(encoding="utf-8")
    assert published == editor_schema.text(ROOT)


def test_the_schema_is_printed(capsys: Any) -> None:
    capsys.readouterr()
    assert main(["validate", "--schema"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == editor_schema.build(ROOT / "roles")


def valid(value: dict[str, Any]) -> bool:
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(editor_schema.build(ROOT / "roles"))
    return bool(checker.is_valid(value))


@pytest.mark.parametrize(
    "value",
    [
        {"vllm_fleet": {"name": "a", "release_set": "x", "rollout": {"serial": [1, "20%"]}}},
        {"vllm_fleet_platform": {"os": "el-9", "chip": ["a2"], "devices": 8}},
        {"vllm_fleet_models": {"/m": {"config": "/x.json"}}},
        {"vllm_service_instances": [{"name": "a", "model": "/m", "port": 8000}]},
        {"vllm_service_instances": "{{ x }}"},
        {"vllm_service_instances": [{"name": "a", "model": "/m", "port": "{{ x }}"}]},
        {"vllm_build_method": "source", "anything_else": [1]},
        {"hugepages_pools": [{"size": "2M", "memory": "64G"}]},
    ],
)
def test_good_variables_fit_the_schema(value: dict[str, Any]) -> None:
    assert valid(value)


@pytest.mark.parametrize(
    "value",
    [
        {"vllm_fleet": {"rollout": {}}},
        {"vllm_fleet": {"name": "a", "nam": "b"}},
        {"vllm_fleet_platform": {"os": 22.03}},
        {"vllm_service_instances": [{"name": "a", "port": 8000}]},
        {"vllm_service_instances": [{"name": "a", "model": "/m", "port": 8000, "pord": 1}]},
        {"vllm_build_method": "sources"},
        {"vllm_service_ready_deadline": "900"},
    ],
)
def test_wrong_variables_do_not_fit_the_schema(value: dict[str, Any]) -> None:
    assert not valid(value)


# Where the knowledge comes from


def test_the_collection_is_imported_from_where_it_stands(tmp_path: Path) -> None:
    installed = tmp_path / "site/ansible_collections/vllm_fleet/baremetal"
    assert search_path(installed) == tmp_path / "site"
    assert search_path(tmp_path / "checkout") == tmp_path / "checkout/playbooks/collections"


def test_another_copy_of_the_collection_is_refused(tmp_path: Path) -> None:
    knowledge = Knowledge(tmp_path)
    try:
        with pytest.raises(ConfigError, match="is not of the collection that Ansible uses"):
            knowledge.module("catalog")
        with pytest.raises(ConfigError, match="lacks nonsense"):
            knowledge.module("nonsense")
    finally:
        sys.path.remove(str(search_path(tmp_path)))


# Examples


@pytest.mark.parametrize("name", ["ascend", "nvidia", "mixed", "lab"])
def test_the_example_inventories_are_valid(name: str) -> None:
    report = inspect(Wanted((str(ROOT / "inventories" / name),))).report
    assert told(report.problems + report.warnings) == ""


def test_the_example_of_the_documentation_says_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    page = (ROOT / "docs/validate.md").read_text(encoding="utf-8")
    text = page.split("```yaml\n# fleet/hosts.yml\n")[1].split("```")[0]
    said = page.split("$ vllm-fleet validate -i fleet/hosts.yml\n")[1].split("```")[0]
    (tmp_path / "fleet").mkdir()
    # The first line of the example is a comment with the file's name.
    (tmp_path / "fleet/hosts.yml").write_text("---\n" + text)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["validate", "-i", "fleet/hosts.yml"]) == 1
    seen = "".join(capsys.readouterr())
    for line in said.strip().splitlines():
        assert line in seen
