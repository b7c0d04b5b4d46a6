"""Published files: which a set needs, and whether those at hand are the published ones."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import artifacts
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog as files
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.artifacts import Artifact

CATALOG = {name: files.load(name) for name in ("ascend", "artifacts/ascend")}
CHIPS = {row["family"]: row for row in CATALOG["ascend"]["chips"]}


def test_files_of_a_set() -> None:
    found = {"driver": "25.5.0", "cann": "8.5.0"}
    needed = artifacts.needed(found, [CHIPS["a2"]], "aarch64", CATALOG)
    assert [str(it) for it in needed] == [
        "Ascend-hdk-910b-npu_25.5.0_linux-aarch64.zip",
        "Ascend-cann-toolkit_8.5.0_linux-aarch64.zip",
        "Ascend-cann-910b-ops_8.5.0_linux-aarch64.zip",
    ]
    assert all(it.sha256 and it.url and it.url.endswith(str(it)) for it in needed)


def test_operators_were_kernels_before() -> None:
    found = {"driver": "25.3.RC1", "cann": "8.3.RC1"}
    needed = artifacts.needed(found, [CHIPS["310p"]], "x86_64", CATALOG)
    assert "Ascend-cann-kernels-310p_8.3.RC1_linux-x86_64.zip" in [str(it) for it in needed]
    # The vendor writes the architecture differently, and the candidate in small letters.
    assert "Ascend-hdk-310p-npu_25.3.rc1_linux-x86-64.zip" in [str(it) for it in needed]


def test_two_kinds_of_chips_share_the_toolkit() -> None:
    found = {"cann": "9.0.0"}
    needed = artifacts.needed(found, [CHIPS["a2"], CHIPS["a3"]], "aarch64", CATALOG)
    assert [it.kind for it in needed] == ["toolkit", "ops", "ops"]


def test_a_part_without_a_published_file_is_told() -> None:
    found = {"driver": "26.0.RC1", "cann": "9.1.0"}
    needed = artifacts.needed(found, [CHIPS["a3"]], "aarch64", CATALOG)
    assert [str(it) for it in needed] == [
        "hdk 26.0.RC1 for A3",
        "toolkit 9.1.0",
        "ops 9.1.0 for A3",
    ]
    assert artifacts.verify(Path("/nowhere"), needed[0]) == artifacts.UNKNOWN


def test_sums_are_compared(tmp_path: Path) -> None:
    content = b"driver" * 300_000
    artifact = Artifact("hdk", "1.0", "a.zip", hashlib.sha256(content).hexdigest())
    assert artifacts.verify(tmp_path, artifact) == artifacts.ABSENT
    (tmp_path / "a.zip").write_bytes(content)
    assert artifacts.verify(tmp_path, artifact) == artifacts.GOOD
    (tmp_path / "a.zip").write_bytes(content[:-1])
    assert artifacts.verify(tmp_path, artifact) == artifacts.WRONG
