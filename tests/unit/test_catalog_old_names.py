"""Names of older guides: each is translated or refused, with its reason and today's equivalent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import catalog_docs
import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog as files
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import old_names
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.engine_args import EngineFlags

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMES = files.load("old_names")
FLAGS = EngineFlags(files.load("engine_flags/vllm"), NAMES)
NEWEST = files.load("engine_flags/vllm")["versions"][-1]

# (what a guide says, where it says it, verdict, a part of today's equivalent)
ARGUMENTS: list[tuple[str, Any, str, str]] = [
    ("max_batch_size", 16, "translated", "--max-num-seqs"),
    ("--max-batch-size", 16, "translated", "--max-num-seqs"),
    ("max_num_batches", 4, "refused", "--max-num-batched-tokens"),
    ("reuse_kv_cache", True, "translated", "--enable-prefix-caching"),
    ("page_size", 16, "translated", "--block-size"),
    ("kv_cache_block_size", 128, "translated", "--block-size"),
    ("num_cuda_streams", 4, "refused", "TASK_QUEUE_ENABLE"),
    ("set_weight_dtype", "bfloat16", "translated", "--dtype"),
    ("device_map.memory_fraction", 0.9, "translated", "--gpu-memory-utilization"),
    ("swap_space", 4, "refused", "--kv-offloading-size"),
    ("disable_log_requests", True, "translated", "--enable-log-requests"),
    ("best_of", 2, "refused", "n in the request"),
    ("use_beam_search", True, "refused", "in the request"),
    ("quantization", "int8", "refused", "quantization ascend"),
    ("quantization", "INT8", "refused", "quantization ascend"),
]
TEXTS = [
    ("vllm.Config", "", "refused", "vllm.EngineArgs"),
    ("/models/deepseek.om", "", "refused", "safetensors"),
    ("model.OM", "", "refused", "safetensors"),
    ("torch==2.0.1+aarch64", "", "refused", "2.10.0 in ascend-2026.08"),
    ("cann-toolkit==6.3.RC1", "", "refused", "8.2.RC1 and later"),
    ("ascend-cann-toolkit==7.0.0", "", "refused", "8.2.RC1 and later"),
    ("Ascend-ddk", "", "refused", "Ascend-cann-toolkit"),
    ("ascend-ddk-1.3", "", "refused", "Ascend-cann-toolkit"),
    ("3.30.0", "", "refused", "26.0.RC1 in ascend-2026.08"),
    ("npu-driver-3.30.0", "", "refused", "26.0.RC1 in ascend-2026.08"),
    ("nvidia-driver-535", "kylin-V10-SP3", "refused", "nvidia-open"),
    ("nvidia-driver-550-server", "openEuler-22.03-SP4", "refused", "nvidia-open"),
    ("openEuler-release", "", "refused", "/etc/os-release"),
    ("/var/log/ascend_secu", "", "refused", "/var/log/ascend_seclog"),
    ("/var/log/ascend_secu/install.log", "", "refused", "/var/log/ascend_seclog"),
    ("http://mirrorlist.centos.org/?release=8", "", "refused", "vault"),
    ("https://mirrors.example/centos/8/BaseOS", "", "refused", "vault"),
]


@pytest.mark.parametrize(("name", "value", "verdict", "today"), ARGUMENTS)
def test_engine_arguments_of_older_guides(name: str, value: Any, verdict: str, today: str) -> None:
    found = old_names.find_argument(NAMES, name, value)
    assert found is not None
    assert found.verdict == verdict
    assert today in found.today
    assert found.reason
    assert (found.argument is not None) is (verdict == "translated")


@pytest.mark.parametrize(("text", "os", "verdict", "today"), TEXTS)
def test_packages_paths_and_versions_of_older_guides(
    text: str, os: str, verdict: str, today: str
) -> None:
    found = old_names.find(NAMES, text, os=os)
    assert found is not None
    assert found.verdict == verdict
    assert today in found.today


@pytest.mark.parametrize(
    ("text", "os"),
    [
        ("nvidia-driver-535", "ubuntu-22.04"),
        ("torch==2.10.0", ""),
        ("ascend-cann-toolkit==9.1.0", ""),
        ("/var/log/ascend_seclog", ""),
        ("https://vault.centos.org/centos/8.5.2111/BaseOS", ""),
        ("https://vault.centos.org/8.5.2111/BaseOS", ""),
        ("/models/deepseek", ""),
        ("25.5.0", ""),
        ("13.30.0", ""),
    ],
)
def test_names_that_are_right_are_left_alone(text: str, os: str) -> None:
    assert old_names.find(NAMES, text, os=os) is None


def test_a_translation_leads_to_a_flag_that_exists() -> None:
    for row in NAMES["names"]:
        if row["verdict"] == "translated":
            name = "--" + row["argument"]
            known = FLAGS.names(NEWEST)
            assert name in known or "--" + name.removeprefix("--no-") in known, row["name"]


def test_each_argument_is_refused_by_the_newest_release_and_named() -> None:
    for row in NAMES["names"]:
        if row["kind"] == "argument":
            (finding,) = FLAGS.check(NEWEST, {row["name"]: 1})
            assert finding.verdict == "bad"
            assert finding.today == row["today"], row["name"]


def test_since_is_the_first_release_without_the_flag() -> None:
    for row in NAMES["names"]:
        if row.get("since"):
            name = "--" + row["name"].replace("_", "-")
            versions = files.load("engine_flags/vllm")["versions"]
            first = next(v for v in versions if FLAGS.flag(v, name) is None)
            assert row["since"] == first


@pytest.mark.parametrize("name", ["from-older-guides.md", "from-older-guides.zh-CN.md"])
def test_the_pages_are_those_of_the_catalog(name: str) -> None:
    page = DOCS / name
    assert page.read_text(encoding="utf-8") == catalog_docs.pages()[page]


def test_the_tables_of_the_catalog_page_are_those_of_the_catalog() -> None:
    page = DOCS / "catalog.md"
    assert page.read_text(encoding="utf-8") == catalog_docs.pages()[page]


def test_every_name_of_the_list_is_there() -> None:
    assert len(NAMES["names"]) >= 23
    for row in NAMES["names"]:
        assert row["reason_zh"]
        assert row.get("today_zh") or row.get("today")
