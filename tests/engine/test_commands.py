"""``init`` and ``validate`` from the command line, with the collection of this checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vllm_fleet
from vllm_fleet.cli.main import main

ROOT = Path(vllm_fleet.__file__).resolve().parents[1]
BROKEN = "n1 ansible_host = 192.0.2.9\n"


@pytest.mark.parametrize("example", ["ascend", "nvidia", "mixed"])
def test_init_writes_an_inventory_that_is_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], example: str
) -> None:
    target = tmp_path / "fleet"
    assert main(["init", str(target), "--example", example]) == 0
    assert (target / "hosts.yml").is_file()
    assert main(["validate", "-i", str(target)]) == 0, capsys.readouterr().err
    assert main(["init", str(target), "--example", example]) == 1
    assert "nothing was written" in capsys.readouterr().err


def test_init_names_its_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "x"), "--example", "amd"]) == 1
    assert "ascend, mixed, nvidia" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_the_labs_inventory_is_valid() -> None:
    assert main(["validate", "-i", str(ROOT / "inventories/lab")]) == 0


def test_validate_as_json(fleet: Any) -> None:
    fleet.add("a", os_baseline_sleep="x").add("b")
    code, document = fleet.json("validate")
    assert code == 1
    assert document["schema"] == "vllm-fleet/validate/1"
    assert (document["ok"], document["fleet"], document["hosts"]) == (False, "demo", ["a", "b"])
    problem = document["problems"][0]
    assert problem["file"] == str(fleet.inventory)
    assert "os_baseline_sleep" in fleet.inventory.read_text().splitlines()[problem["line"] - 1]
    assert problem["hosts"] == ["a"]


def test_validate_contacts_no_host(fleet: Any) -> None:
    fleet.add_unreachable("a")
    assert fleet.json("validate")[0] == 0
    assert not fleet.state.exists()


@pytest.mark.parametrize("verb", ["validate", "apply"])
@pytest.mark.parametrize("case", ["broken", "missing", "good and broken", "unknown group"])
def test_BR_34_a_broken_inventory_is_1_for_every_verb(fleet: Any, verb: str, case: str) -> None:
    fleet.add("a")
    broken = fleet.root / "broken.ini"
    broken.write_text(BROKEN)
    sources = {
        "broken": ["-i", str(broken)],
        "missing": ["-i", str(fleet.root / "nowhere")],
        "good and broken": ["-i", str(fleet.inventory), "-i", str(broken)],
        "unknown group": ["-i", str(fleet.inventory), "--limit", "npu"],
    }[case]
    fleet.capture()
    assert main([*sources, verb]) == 1
    err = fleet.capture().err
    expected = {"missing": "nowhere", "unknown group": "--limit npu"}.get(case, f"{broken}:1:")
    assert expected in err
    assert not (fleet.root / "a.txt").exists()


def test_another_version_of_the_collection_is_refused(fleet: Any) -> None:
    fleet.add("a")
    (fleet.root / "collection/galaxy.yml").write_text("version: 9.9.9\n")
    code, _, err = fleet.run("apply")
    assert code == 1
    assert str(fleet.root / "collection") in err
    assert str(ROOT / "vllm_fleet") in err


@pytest.mark.parametrize("option", ["--vault-password-file", "--become-password-file", "-e"])
def test_files_that_are_not_there_are_1(fleet: Any, option: str) -> None:
    fleet.add("a")
    value = "@/nowhere/f" if option == "-e" else "/nowhere/f"
    code, document = fleet.json("apply", option, value)
    assert (code, document["problems"][0]["file"]) == (1, "/nowhere/f")


def test_extra_variables_reach_the_hosts(fleet: Any) -> None:
    fleet.add("a")
    (fleet.root / "extra.yml").write_text("os_baseline_fail: true\n")
    assert fleet.run("apply", "-e", f"@{fleet.root / 'extra.yml'}")[0] == 3
    (fleet.root / "extra.yml").write_text("os_baseline_fail: maybe\n")
    code, document = fleet.json("apply", "-e", f"@{fleet.root / 'extra.yml'}")
    assert (code, document["problems"][0]["line"]) == (1, 1)


def test_status_and_history_without_an_inventory(fleet: Any) -> None:
    fleet.capture()
    assert main(["status"]) == 1
    assert "no run is on record" in fleet.capture().err
    fleet.add("a").run("apply")
    fleet.capture()
    assert main(["status", "--json"]) == 0
    assert json.loads(fleet.capture().out)["fleet"] == "demo"
    assert main(["history", "--fleet", "other"]) == 1
    (fleet.state / "second").mkdir()
    (fleet.state / "second/fleet.sqlite").touch()
    fleet.capture()
    assert main(["history"]) == 1
    assert "several fleets: demo, second" in fleet.capture().err


def test_a_terminal_gets_a_live_table(fleet: Any) -> None:
    """Rich draws on the error output; the answer itself stays plain."""
    fleet.add("a").add("计算节点-01")
    reader, writer = os.openpty()
    process = fleet.start("apply", stderr=writer)
    os.close(writer)
    drawn = b""
    while chunk := read(reader):
        drawn += chunk
    out = process.communicate()[0]
    assert process.returncode == 0
    assert "hugepages" in drawn.decode()
    assert "计算节点-01" in drawn.decode()
    assert "\x1b" not in out
    assert "2 changed" in out


def read(handle: int) -> bytes:
    """Read from a terminal; its end is an error there."""
    try:
        return os.read(handle, 65536)
    except OSError:
        return b""


def test_python_m_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vllm_fleet", "--version"], capture_output=True, text=True
    )
    assert done.stdout == f"vllm-fleet {vllm_fleet.__version__}\n"
