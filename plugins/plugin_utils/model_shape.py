# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model is made of, from its config.json: parameters by kind, and KV cache for a token.

Pure: the mapping of a config.json goes in. What this file does not know (state-space layers,
linear attention, other architectures' keys) is refused as FitError, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Bytes for one weight: (linear layers, experts). Embeddings, norms and routers stay in 16 bits.
# 4-bit weights carry a scale and a zero point for each group of 128.
SCHEMES: dict[str, tuple[float, float]] = {
    "fp32": (4.0, 4.0),
    "bf16": (2.0, 2.0),
    "fp8": (1.0, 1.0),
    "w8a8": (1.0, 1.0),
    "w8a16": (1.0, 1.0),
    "w4a8": (1.0, 0.52),
    "w4a16": (0.52, 0.52),
}
# Families whose feed-forward layers have two matrices; all others here have three (gated).
UNGATED = {"opt", "falcon", "gpt_neox", "starcoder2", "phi", "bloom", "mpt"}
# Keys of layers that keep a state of another kind than a KV cache.
OTHER_STATE = (
    "linear_num_key_heads",
    "ssm_cfg",
    "mamba_d_state",
    "state_size",
    "linear_attn_config",
)
BLOCK = 128


class FitError(ValueError):
    """A configuration that this estimate does not cover."""


@dataclass(frozen=True)
class Parameters:
    """Numbers of weights by kind (for the whole model)."""

    embedding: int
    attention: int
    dense: int
    experts: int
    small: int

    @property
    def total(self) -> int:
        """Return the number of all weights."""
        return self.embedding + self.attention + self.dense + self.experts + self.small


@dataclass(frozen=True)
class Model:
    """The shape of a model, as far as memory goes."""

    family: str
    attention: str
    scheme: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    experts: int
    expert_size: int
    active_experts: int
    latent: int
    fp8_block: int
    # For each layer how many tokens it keeps at most; None keeps all.
    windows: tuple[int | None, ...]
    parameters: Parameters
    # Weights of one layer for multi-token prediction, where the model has one.
    draft: Parameters | None

    @property
    def moe(self) -> bool:
        """Say whether the model has experts."""
        return self.experts > 0

    def weight_bytes(self, scheme: str, parameters: Parameters | None = None) -> dict[str, float]:
        """Return the bytes of the weights by kind."""
        p = parameters or self.parameters
        linear, expert = SCHEMES[scheme]
        wide = 4.0 if scheme == "fp32" else 2.0
        return {
            "embedding": p.embedding * wide,
            "attention": p.attention * linear,
            "dense": p.dense * linear,
            "experts": p.experts * expert,
            "small": p.small * wide,
        }

    def kv_bytes(self, context: int, tp: int, kv_width: float) -> float:
        """Return the bytes of one sequence's KV cache on one of ``tp`` devices.

        Heads are shared out, but never less than one for a device; a latent (MLA) is whole on each.
        """
        if self.attention == "mla":
            width = self.latent * kv_width
        else:
            width = 2 * max(1, -(-self.kv_heads // tp)) * self.head_dim * kv_width
        rounded = -(-context // BLOCK) * BLOCK
        tokens = sum(min(rounded, window or rounded) for window in self.windows)
        return tokens * width


def read(config: Mapping[str, Any], scheme: str | None = None) -> Model:
    """Return the shape of the model with this config.json; ``scheme`` overrules its own word."""
    text = config.get("text_config")
    top, c = config, {**config, **text} if isinstance(text, Mapping) else config
    for key in OTHER_STATE:
        if c.get(key):
            raise FitError(f"config.json has {key}: layers with a state that is no KV cache")
    hidden, layers = _number(c, "hidden_size"), _number(c, "num_hidden_layers")
    heads = _number(c, "num_attention_heads")
    mla = bool(c.get("kv_lora_rank"))
    experts = int(_first(c, ("n_routed_experts", "num_experts", "num_local_experts")) or 0)
    one_attention = _attention(c, hidden, heads)
    sparse = _sparse_layers(c, layers) if experts else 0
    per_expert = _mlp(c, hidden, int(c.get("moe_intermediate_size") or c["intermediate_size"]))
    shared = _shared(c, hidden) if experts else 0
    dense_mlp = _mlp(c, hidden, _number(c, "intermediate_size"))
    tied = c.get("tie_word_embeddings", str(c.get("model_type", "")).startswith("gemma"))
    one_small = 2 * hidden + hidden * experts
    parameters = Parameters(
        embedding=_number(c, "vocab_size") * hidden * (1 if tied else 2),
        attention=one_attention * layers,
        dense=dense_mlp * (layers - sparse) + shared * sparse,
        experts=per_expert * experts * sparse,
        small=(2 * layers + 1) * hidden + hidden * experts * sparse,
    )
    return Model(
        family=str(c.get("model_type", "unknown")),
        attention="mla" if mla else ("gqa" if _kv_heads(c) < heads else "mha"),
        scheme=scheme or scheme_of(top),
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=_kv_heads(c),
        head_dim=_head_dim(c),
        intermediate=_number(c, "intermediate_size"),
        vocabulary=_number(c, "vocab_size"),
        experts=experts,
        expert_size=int(c.get("moe_intermediate_size") or c["intermediate_size"]) if experts else 0,
        active_experts=int(_first(c, ("num_experts_per_tok", "num_experts_per_token")) or 0),
        latent=int(c["kv_lora_rank"]) + int(c.get("qk_rope_head_dim", 0)) if mla else 0,
        fp8_block=_fp8_block(top),
        windows=_windows(c, layers),
        parameters=parameters,
        draft=Parameters(0, one_attention + 2 * hidden * hidden, shared, per_expert * experts,
                         one_small) if c.get("num_nextn_predict_layers") else None,
    )  # fmt: skip


def _number(c: Mapping[str, Any], key: str) -> int:
    value = c.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise FitError(f"config.json has no usable {key} (found {value!r})")
    return value


def _first(c: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((c[key] for key in keys if c.get(key)), None)


def _kv_heads(c: Mapping[str, Any]) -> int:
    return int(c.get("num_key_value_heads") or c["num_attention_heads"])


def _head_dim(c: Mapping[str, Any]) -> int:
    return int(c.get("head_dim") or _number(c, "hidden_size") // _number(c, "num_attention_heads"))


def _attention(c: Mapping[str, Any], hidden: int, heads: int) -> int:
    """Return the weights of one attention layer."""
    if not c.get("kv_lora_rank"):
        width = _head_dim(c)
        return hidden * width * (2 * heads + 2 * _kv_heads(c))
    latent, rope = _number(c, "kv_lora_rank"), _number(c, "qk_rope_head_dim")
    nope, value = _number(c, "qk_nope_head_dim"), _number(c, "v_head_dim")
    rank = c.get("q_lora_rank")
    query = heads * (nope + rope)
    asks = hidden * rank + rank * query if rank else hidden * query
    keeps = hidden * (latent + rope) + latent * heads * (nope + value)
    return int(asks + keeps + heads * value * hidden)


def _mlp(c: Mapping[str, Any], hidden: int, size: int) -> int:
    """Return the weights of one feed-forward layer (or of one expert)."""
    return (2 if c.get("model_type") in UNGATED else 3) * hidden * size


def _shared(c: Mapping[str, Any], hidden: int) -> int:
    """Return the weights of the experts that every token passes, in one layer."""
    if c.get("shared_expert_intermediate_size"):
        return _mlp(c, hidden, int(c["shared_expert_intermediate_size"]))
    count = int(c.get("n_shared_experts") or 0)
    return count * _mlp(c, hidden, int(c.get("moe_intermediate_size") or c["intermediate_size"]))


def _sparse_layers(c: Mapping[str, Any], layers: int) -> int:
    """Return how many layers have experts."""
    first = int(c.get("first_k_dense_replace") or 0)
    step = int(c.get("moe_layer_freq") or c.get("decoder_sparse_step") or 1)
    dense = set(c.get("mlp_only_layers") or [])
    if c.get("moe_layer_freq"):
        chosen = [i for i in range(layers) if i >= first and i % step == 0]
    else:
        chosen = [i for i in range(layers) if i >= first and (i + 1) % step == 0]
    return len([i for i in chosen if i not in dense])


def _windows(c: Mapping[str, Any], layers: int) -> tuple[int | None, ...]:
    """Return for each layer how many tokens it keeps at most."""
    window = c.get("sliding_window")
    kinds = c.get("layer_types")
    if not window or c.get("use_sliding_window") is False:
        return (None,) * layers
    if kinds:
        return tuple(int(window) if kind == "sliding_attention" else None for kind in kinds)
    if c.get("model_type") in ("mistral", "mixtral"):
        return (int(window),) * layers
    if c.get("model_type") == "gemma2":
        return tuple(int(window) if index % 2 == 0 else None for index in range(layers))
    return (None,) * layers


def _fp8_block(config: Mapping[str, Any]) -> int:
    block = (config.get("quantization_config") or {}).get("weight_block_size")
    return int(block[0]) if block else 0


def scheme_of(config: Mapping[str, Any]) -> str:
    """Return the scheme of the weights as the config.json tells it."""
    quantization = config.get("quantization_config") or {}
    method = str(quantization.get("quant_method", ""))
    if method in ("fp8", "fbgemm_fp8", "ptpc_fp8"):
        return "fp8"
    if method in ("awq", "gptq", "auto-round"):
        return "w8a16" if quantization.get("bits") == 8 else "w4a16"
    if method in ("mxfp4", "modelopt_fp4"):
        return "w4a16"
    if method == "compressed-tensors":
        return _compressed(quantization)
    if method:
        raise FitError(f"quantization method {method} is not covered; say the scheme")
    dtype = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16")
    return "fp32" if dtype.endswith("float32") else "bf16"


def _compressed(quantization: Mapping[str, Any]) -> str:
    """Return the scheme of weights from LLM-Compressor."""
    groups = list((quantization.get("config_groups") or {}).values())
    weights = (groups[0].get("weights") or {}) if groups else {}
    inputs = (groups[0].get("input_activations") or {}) if groups else {}
    if weights.get("num_bits") == 4:
        return "w4a8" if inputs.get("num_bits") == 8 else "w4a16"
    if weights.get("type") == "float":
        return "fp8"
    return "w8a8" if inputs else "w8a16"
