"""Engine arguments against the release that would get them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog as files
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.engine_args import EngineFlags

FLAGS = EngineFlags(files.load("engine_flags/vllm"), files.load("old_names"))
ON_ASCEND = EngineFlags(
    files.load("engine_flags/vllm"), files.load("old_names"), files.load("ascend")
)


def said(version: str, arguments: dict[str, Any], flags: EngineFlags = FLAGS) -> list[str]:
    return [f"{it.verdict} {it}" for it in flags.check(version, arguments)]


GOOD_ONES: list[dict[str, Any]] = [
    {"max-model-len": 16384},
    {"max_model_len": "16k"},
    {"max-model-len": "auto"},
    {"tensor_parallel_size": 4, "data-parallel-size": "2"},
    {"tp": 4},
    {"trust-remote-code": True},
    {"enable-prefix-caching": False},
    {"no-enable-prefix-caching": True},
    {"speculative-config": {"method": "mtp", "num_speculative_tokens": 3}},
    {"speculative-config": '{"method": "mtp"}'},
    {"compilation-config": {"cudagraph_mode": "FULL_DECODE_ONLY"}},
    {"dtype": "bfloat16", "seed": 1024},
    {"allowed-local-media-path": "/srv"},
    {"quantization": "fp8"},
    {"middleware": ["a.b", "c.d"]},
    {"max-num-seqs": None},
    {"compilation-config.cudagraph_mode": "FULL", "speculative_config.method": "mtp"},
]


@pytest.mark.parametrize("arguments", GOOD_ONES, ids=str)
def test_good_arguments_say_nothing(arguments: dict[str, Any]) -> None:
    assert said("0.23.0", arguments) == []


@pytest.mark.parametrize(
    ("version", "arguments", "expected"),
    [
        ("0.23.0", {"max-model-length": 1}, "bad max-model-length: vLLM 0.23.0 has no such flag. "
         "Did you mean this? Use max-model-len."),
        ("0.23.0", {"frobnicate": 1}, "bad frobnicate: vLLM 0.23.0 has no such flag."),
        ("0.18.0", {"numa-bind": True},
         "bad numa-bind: vLLM 0.18.0 does not have it yet; its first release is 0.20.0."),
        ("0.33.0", {"calculate-kv-scales": True},
         "vLLM 0.33.0 does not have it any more; its last release was 0.27.1."),
        ("0.23.0", {"dtype": "int8"}, "bad dtype: int8 is none of its values"),
        ("0.23.0", {"dtype": "bfloat"}, "Use float."),
        ("0.23.0", {"gpu-memory-utilization": 1.5}, "must be more than 0 and at most 1, not 1.5"),
        ("0.23.0", {"max-num-seqs": 0}, "must be at least 1"),
        ("0.23.0", {"max-num-seqs": "many"}, "must be a whole number, not 'many'"),
        ("0.23.0", {"max-num-seqs": True}, "needs a value, not true"),
        ("0.23.0", {"max-num-seqs": [1, 2]}, "takes one value, not a list of 2"),
        ("0.23.0", {"trust-remote-code": "yes"}, "must be true or false, not 'yes'"),
        ("0.23.0", {"headless": False}, "is a switch: true, or leave it out"),
        ("0.23.0", {"no-headless": True}, "this flag has no negation"),
        ("0.23.0", {"speculative-config": "mtp"}, "must be a mapping, a list or JSON, not 'mtp'"),
        ("0.23.0", {"served-model-name": {"a": 1}}, "takes no mapping"),
        ("0.23.0", {"quantization": "int8"}, "int8 is no method of vLLM"),
        ("0.23.0", {"quantization": "ascend"}, "unknown quantization: ascend is none of"),
        ("0.23.0", {"dtype.key": 1}, "has no such flag"),
        ("0.23.0", {"device_map.memory_fraction": 0.9}, "Use --gpu-memory-utilization"),
        ("0.23.0", {"max_batch_size": 16}, "Use --max-num-seqs."),
        ("0.23.0", {"swap-space": 4}, "Use --kv-offloading-size"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(version: str, arguments: dict[str, Any], expected: str) -> None:
    (line,) = said(version, arguments)
    assert expected in line


def test_what_was_right_in_its_release_is_right() -> None:
    assert said("0.11.0", {"swap-space": 4, "disable-log-requests": True}) == []
    assert said("0.11.0", {"block-size": 48})[0].startswith("bad block-size: 48 is none")


def test_a_release_that_was_not_read_is_judged_by_its_neighbours() -> None:
    assert FLAGS.near("0.15.0") == ["0.14.1", "0.16.0"]
    assert said("0.15.0", {"max-num-seqs": 4}) == []
    assert "bad" in said("0.15.0", {"frobnicate": 1})[0]
    assert FLAGS.near("0.27.5") == ["0.27.1", "0.28.0"]
    (line,) = said("0.27.5", {"calculate-kv-scales": True})
    assert line.startswith("unknown")
    assert "0.27.1 and 0.28.0 differ" in line


def test_a_newer_release_is_unknown_not_bad() -> None:
    assert said("0.40.0", {"max-num-seqs": 4}) == []
    assert said("0.40.0", {"frobnicate": 1})[0].startswith("unknown")


def test_the_plugin_adds_and_changes_values() -> None:
    assert said("0.23.0", {"quantization": "ascend"}, ON_ASCEND) == []
    assert said("0.23.0", {"block-size": 128}, ON_ASCEND) == []
    (line,) = said("0.23.0", {"block-size": 64}, ON_ASCEND)
    assert line.startswith("unknown block-size: on Ascend 128 is what runs")
    assert said("0.23.0", {"block-size": 64}) == []
