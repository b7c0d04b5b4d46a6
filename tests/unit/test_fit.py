"""Will a model fit: parameter counts and verdicts against published ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import fit, model_shape
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.fit import Devices, Load

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures/fit/models.json"
MODELS: dict[str, Any] = json.loads(FIXTURE.read_text(encoding="utf-8"))["models"]
# A device of 80 GB shows 79.6 GiB, an H200 140.4, an A10 or L4 22.5, a T4 14.75.
H100, H200, L4, T4 = 79.6, 140.4, 22.5, 14.75


@pytest.mark.parametrize("name", sorted(MODELS))
def test_parameters_are_within_two_percent_of_the_published_count(name: str) -> None:
    published = MODELS[name]["published"] * 1e9
    counted = fit.read(MODELS[name]["config"]).parameters.total
    assert counted == pytest.approx(published, rel=0.02)


@pytest.mark.parametrize(
    ("name", "attention", "bytes_for_a_token"),
    [
        # Published: 70 KB for a token of DeepSeek-V3, 516 KB for one of Llama 3.1 405B, 327 KB for
        # one of Qwen2.5 72B (all with 16 bits).
        ("DeepSeek-V3", "mla", 70_272),
        ("Llama-3.1-405B", "gqa", 516_096),
        ("Qwen2.5-72B", "gqa", 327_680),
        ("Llama-3-8B", "gqa", 131_072),
        ("DeepSeek-V2-Lite", "mla", 31_104),
    ],
)
def test_kv_cache_of_a_token(name: str, attention: str, bytes_for_a_token: int) -> None:
    model = fit.read(MODELS[name]["config"])
    assert model.attention == attention
    assert model.kv_bytes(128, 1, 2.0) / 128 == bytes_for_a_token


# (model, devices, load, scheme, verdict): what is published, or known by everybody who tried.
CASES = [
    # vllm-ascend's own page: R1/V3 in W8A8 wants one Atlas A3 (16 dies) or two Atlas A2.
    ("DeepSeek-V3", Devices(16, 64), Load(16384, 16, 4096, mtp=True), "w8a8", "fits"),
    ("DeepSeek-V3", Devices(16, 64, per_node=8), Load(16384, 16, 4096, mtp=True), "w8a8", "fits"),
    ("DeepSeek-V3", Devices(8, 64), Load(16384, 1, 4096), "w8a8", "too big"),
    ("DeepSeek-V3", Devices(8, 64), Load(16384, 16, 4096), "w4a8", "fits"),
    ("DeepSeek-V3", Devices(16, 64), Load(16384, 1, 4096), "bf16", "too big"),
    # V2-Lite runs on one card of 64 GB, on one of 32 GB in W8A8 only.
    ("DeepSeek-V2-Lite", Devices(1, 64), Load(16384, 16, 4096), None, "fits"),
    ("DeepSeek-V2-Lite", Devices(1, 32, 0.9), Load(4096, 1, 2048), None, "too big"),
    ("DeepSeek-V2-Lite", Devices(1, 32, 0.9), Load(4096, 16, 2048), "w8a8", "fits"),
    # NVIDIA: the FP8 weights of V3 need eight H200 or sixteen H100, not eight H100.
    ("DeepSeek-V3", Devices(8, H200), Load(16384, 16), None, "fits"),
    ("DeepSeek-V3", Devices(8, H100), Load(4096, 1), None, "too big"),
    ("DeepSeek-V3", Devices(16, H100, per_node=8), Load(16384, 16), None, "fits"),
    ("Llama-3-8B", Devices(1, L4, 0.9), Load(8192, 2, 2048), None, "fits"),
    ("Llama-3-8B", Devices(1, T4, 0.9), Load(8192, 1, 2048), None, "too big"),
    ("Llama-3-8B", Devices(1, T4, 0.9), Load(8192, 4, 2048), "w4a16", "fits"),
    ("Llama-3-70B", Devices(1, H100, 0.9), Load(8192, 1), None, "too big"),
    ("Llama-3-70B", Devices(2, H100, 0.9), Load(8192, 16), None, "starts"),
    ("Llama-3-70B", Devices(4, H100, 0.9), Load(8192, 16), None, "fits"),
    ("Qwen2.5-7B", Devices(1, L4, 0.9), Load(8192, 4, 2048), None, "fits"),
    ("Qwen2.5-72B", Devices(2, H100, 0.9), Load(32768, 1), None, "too big"),
    ("Qwen2.5-72B", Devices(4, H100, 0.9), Load(32768, 4), None, "fits"),
    ("Qwen2.5-72B", Devices(1, H100, 0.9), Load(8192, 4), "w4a16", "fits"),
    ("Mixtral-8x7B", Devices(1, H100, 0.9), Load(8192, 1), None, "too big"),
    ("Mixtral-8x7B", Devices(2, H100, 0.9), Load(8192, 8), None, "fits"),
    ("Qwen3-30B-A3B", Devices(1, H100, 0.9), Load(32768, 2), None, "fits"),
    ("Qwen3-235B-A22B", Devices(8, H100, 0.9), Load(32768, 4), None, "fits"),
    ("Qwen3-235B-A22B", Devices(4, H100, 0.9), Load(8192, 1), None, "too big"),
    ("Llama-3.1-405B", Devices(8, H100, 0.9), Load(4096, 1), None, "too big"),
    ("Llama-3.1-405B", Devices(8, H100, 0.9), Load(8192, 4), "fp8", "fits"),
    ("Llama-3.1-405B", Devices(16, H100, 0.9, 8), Load(8192, 4), None, "fits"),
    ("gpt-oss-120b", Devices(1, H100), Load(32768, 4), None, "fits"),
]


@pytest.mark.parametrize(("name", "devices", "load", "scheme", "verdict"), CASES)
def test_published_cases(
    name: str, devices: Devices, load: Load, scheme: str | None, verdict: str
) -> None:
    report = fit.check(MODELS[name]["config"], devices, load, scheme)
    assert report.verdict == verdict, report.reason


@pytest.mark.parametrize("per_node", [16, 8])
def test_the_published_layout_of_v3_is_among_those_that_work(per_node: int) -> None:
    load = Load(16384, 16, 4096, mtp=True)
    report = fit.check(
        MODELS["DeepSeek-V3"]["config"], Devices(16, 64, per_node=per_node), load, "w8a8"
    )
    (layout,) = [it for it in report.layouts if (it.tp, it.pp, it.dp, it.ep) == (4, 1, 4, 16)]
    assert layout.verdict == "fits"
    assert layout.arguments() == {
        "tensor-parallel-size": 4,
        "data-parallel-size": 4,
        "enable-expert-parallel": True,
    }


def test_a_tensor_parallel_size_never_leaves_its_node() -> None:
    report = fit.check(MODELS["Llama-3.1-405B"]["config"], Devices(16, H100, 0.9, 8), Load(8192))
    assert {(it.tp, it.pp) for it in report.layouts} == {(8, 2)}


def test_sizes_divide_heads_and_layers() -> None:
    # 28 heads and 4 KV heads: eight devices cannot share them, four can.
    report = fit.check(MODELS["Qwen2.5-7B"]["config"], Devices(8, H100), Load(8192, 8))
    assert {it.tp for it in report.layouts} == {1, 2, 4}
    three = fit.check(MODELS["Qwen2.5-7B"]["config"], Devices(3, H100), Load(8192, 3))
    assert {(it.tp, it.dp) for it in three.layouts} == {(1, 3)}


def test_fp8_blocks_rule_out_sizes_without_expert_parallelism() -> None:
    config = {
        **MODELS["Qwen3-235B-A22B"]["config"],
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    report = fit.check(config, Devices(8, H100), Load(8192, 8))
    # 1536 / 8 = 192 is no multiple of 128: with eight devices the experts must be shared out.
    assert not [it for it in report.layouts if it.tp == 8 and it.ep == 1]
    assert [it for it in report.layouts if it.tp == 8 and it.ep == 8]


def test_kv_heads_are_copied_but_a_latent_is_whole_on_each_device() -> None:
    gqa = fit.read(MODELS["Llama-3-70B"]["config"])
    assert gqa.kv_bytes(1024, 8, 2.0) * 8 == gqa.kv_bytes(1024, 1, 2.0)
    assert gqa.kv_bytes(1024, 16, 2.0) == gqa.kv_bytes(1024, 8, 2.0)
    mla = fit.read(MODELS["DeepSeek-V3"]["config"])
    assert mla.kv_bytes(1024, 8, 2.0) == mla.kv_bytes(1024, 1, 2.0)


def test_a_window_bounds_the_cache() -> None:
    mistral = fit.read(MODELS["Mistral-7B-v0.1"]["config"])
    assert mistral.kv_bytes(32768, 1, 2.0) == mistral.kv_bytes(4096, 1, 2.0)
    gemma = fit.read(MODELS["gemma-2-9b"]["config"])
    assert gemma.kv_bytes(8192, 1, 2.0) == pytest.approx(1.5 * gemma.kv_bytes(4096, 1, 2.0))
    qwen = fit.read(MODELS["Qwen2.5-7B"]["config"])
    assert set(qwen.windows) == {None}


def test_eight_bits_of_kv_cache_double_the_room() -> None:
    config, devices = MODELS["Llama-3-8B"]["config"], Devices(1, L4)
    wide = fit.check(config, devices, Load(4096, 1)).layouts[0]
    narrow = fit.check(config, devices, Load(4096, 1, kv_dtype="fp8")).layouts[0]
    assert narrow.room in (2 * wide.room, 2 * wide.room + 1)


def test_the_prediction_layer_takes_room() -> None:
    config, devices = MODELS["DeepSeek-V3"]["config"], Devices(16, 64)
    without = fit.check(config, devices, Load(16384, 1, 4096), "w8a8").layouts[0]
    with_it = fit.check(config, devices, Load(16384, 1, 4096, mtp=True), "w8a8").layouts[0]
    assert with_it.weights > without.weights


@pytest.mark.parametrize(
    ("quantization", "scheme"),
    [
        (None, "bf16"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "w4a16"),
        ({"quant_method": "gptq", "bits": 8}, "w8a16"),
        ({"quant_method": "mxfp4"}, "w4a16"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 8, "type": "int"},
                        "input_activations": {"num_bits": 8},
                    }
                },
            },
            "w8a8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 8, "type": "float"},
                        "input_activations": {"num_bits": 8},
                    }
                },
            },
            "fp8",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 4, "type": "int"},
                        "input_activations": None,
                    }
                },
            },
            "w4a16",
        ),
    ],
)
def test_the_scheme_is_read_from_the_configuration(
    quantization: dict[str, Any] | None, scheme: str
) -> None:
    config = {**MODELS["Llama-3-8B"]["config"], "quantization_config": quantization}
    assert model_shape.scheme_of(config) == scheme


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": None}, "no usable hidden_size"),
        ({"linear_num_key_heads": 16}, "no KV cache"),
        ({"quantization_config": {"quant_method": "secret"}}, "secret is not covered"),
    ],
)
def test_what_is_not_covered_is_said(change: dict[str, Any], message: str) -> None:
    config = {**MODELS["Llama-3-8B"]["config"], **change}
    with pytest.raises(fit.FitError, match=message):
        fit.check(config, Devices(1, H100), Load(4096))


def test_a_wrong_scheme_and_cache_type_are_named() -> None:
    config = MODELS["Llama-3-8B"]["config"]
    with pytest.raises(fit.FitError, match="no scheme is called int8"):
        fit.check(config, Devices(1, H100), Load(4096), "int8")
    with pytest.raises(fit.FitError, match="KV cache type odd"):
        fit.check(config, Devices(1, H100), Load(4096, kv_dtype="odd"))


def test_a_miss_says_by_how_much() -> None:
    report = fit.check(MODELS["Llama-3-70B"]["config"], Devices(1, H100), Load(8192))
    assert report.layouts == ()
    assert report.closest is not None
    assert "131.4 GiB of weights" in report.reason
    assert report.as_dict()["closest"]["tp"] == 1


def test_models_with_vision_count_their_language_part() -> None:
    inner = dict(MODELS["Qwen2.5-7B"]["config"])
    model = fit.read({"model_type": "qwen2_5_vl", "text_config": inner})
    assert model.parameters.total == fit.read(inner).parameters.total
