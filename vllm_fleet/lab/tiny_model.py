"""Write a tiny random-weight language model that a real vLLM serves on a CPU.

Standard library only, so that it also runs where no numpy is at hand.  The answers are
noise, but every layer of the engine is real: configuration, tokenizer, chat template,
weights, sampling.  It has the build of DeepSeek's models (latent attention, experts); the
family "llama" is there for engines without them.  The same shape and seed give the same bytes.
"""

from __future__ import annotations

import argparse
import array
import hashlib
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
BYTE_TOKENS = 256
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FAMILIES = ("deepseek", "llama")
WEIGHTS_FILE = "model.safetensors"
SPREAD = 0.05


Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Shape:
    """The sizes of the model; small, but legal for every kernel that vLLM may pick."""

    family: str = "deepseek"
    hidden: int = 64
    layers: int = 2
    heads: int = 2
    head_dim: int = 64
    intermediate: int = 128
    vocabulary: int = 320
    context: int = 2048
    seed: int = 20260101
    # Of the family "deepseek" only: latent attention and experts.  The CPU kernel for latent
    # attention knows a rank of 512 and 64 rotated values, like the real models.
    latent: int = 512
    rotated: int = 64
    experts: int = 4
    expert_width: int = 64
    dense_layers: int = 1


def config(shape: Shape) -> dict[str, Any]:
    """``config.json`` of a model of this shape."""
    special = {"deepseek": _deepseek_config, "llama": _llama_config}[shape.family](shape)
    return {
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": special_id("<|endoftext|>"),
        "eos_token_id": special_id("<|im_end|>"),
        "torch_dtype": "bfloat16",
        "use_cache": True,
        **special,
    }


def _llama_config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "head_dim": shape.head_dim,
        "mlp_bias": False,
    }


def _deepseek_config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "attention_dropout": 0.0,
        "kv_lora_rank": shape.latent,
        "q_lora_rank": None,
        "qk_rope_head_dim": shape.rotated,
        "qk_nope_head_dim": shape.head_dim,
        "v_head_dim": shape.head_dim,
        "n_routed_experts": shape.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": shape.expert_width,
        "first_k_dense_replace": shape.dense_layers,
        "moe_layer_freq": 1,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "greedy",
        "norm_topk_prob": False,
        "scoring_func": "softmax",
        "routed_scaling_factor": 1.0,
        "rope_scaling": None,
    }


def special_id(token: str) -> int:
    """Number of a special token: they follow the 256 byte tokens."""
    return BYTE_TOKENS + SPECIAL_TOKENS.index(token)


def byte_alphabet() -> list[str]:
    """The printable stand-in character of every byte, as byte-level BPE defines it."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(BYTE_TOKENS) if byte not in printable)
    stand_in = {byte: chr(BYTE_TOKENS + nth) for nth, byte in enumerate(hidden)}
    return [stand_in.get(byte, chr(byte)) for byte in range(BYTE_TOKENS)]


def tokenizer() -> dict[str, Any]:
    """``tokenizer.json``: byte-level BPE without merges, so one token is one byte."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(token) for token in SPECIAL_TOKENS],
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "use_regex": True},
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {character: byte for byte, character in enumerate(byte_alphabet())},
            "merges": [],
        },
    }


def _added_token(token: str) -> dict[str, Any]:
    return {
        "id": special_id(token),
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def tokenizer_config(shape: Shape) -> dict[str, Any]:
    """``tokenizer_config.json`` with a ChatML template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": shape.context,
        "chat_template": CHAT_TEMPLATE,
    }


def generation_config() -> dict[str, Any]:
    """``generation_config.json``: sample, and stop at the end of a turn."""
    return {
        "bos_token_id": special_id("<|endoftext|>"),
        "eos_token_id": special_id("<|im_end|>"),
        "pad_token_id": special_id("<|endoftext|>"),
        "do_sample": True,
        "temperature": 1.0,
    }


def tensor_shapes(shape: Shape) -> Shapes:
    """Name and size of every weight."""
    shapes: Shapes = {
        "model.embed_tokens.weight": (shape.vocabulary, shape.hidden),
        "model.norm.weight": (shape.hidden,),
        "lm_head.weight": (shape.vocabulary, shape.hidden),
    }
    for layer in range(shape.layers):
        own = _layer_shapes(shape, layer)
        shapes.update({f"model.layers.{layer}.{name}.weight": size for name, size in own.items()})
    return shapes


def _layer_shapes(shape: Shape, layer: int) -> Shapes:
    norms: Shapes = {
        "input_layernorm": (shape.hidden,),
        "post_attention_layernorm": (shape.hidden,),
    }
    if shape.family == "llama":
        return {**norms, **_attention(shape), **_mlp("mlp", shape, shape.intermediate)}
    if layer < shape.dense_layers:
        return {**norms, **_latent_attention(shape), **_mlp("mlp", shape, shape.intermediate)}
    return {**norms, **_latent_attention(shape), **_expert_shapes(shape)}


def _attention(shape: Shape) -> Shapes:
    width = shape.heads * shape.head_dim
    inputs: Shapes = {f"self_attn.{name}_proj": (width, shape.hidden) for name in "qkv"}
    return {**inputs, "self_attn.o_proj": (shape.hidden, width)}


def _latent_attention(shape: Shape) -> Shapes:
    """Keys and values are kept as one short vector, as DeepSeek's models do it."""
    width = shape.heads * shape.head_dim
    return {
        "self_attn.q_proj": (width + shape.heads * shape.rotated, shape.hidden),
        "self_attn.kv_a_proj_with_mqa": (shape.latent + shape.rotated, shape.hidden),
        "self_attn.kv_a_layernorm": (shape.latent,),
        "self_attn.kv_b_proj": (2 * width, shape.latent),
        "self_attn.o_proj": (shape.hidden, width),
    }


def _expert_shapes(shape: Shape) -> Shapes:
    shapes: Shapes = {"mlp.gate": (shape.experts, shape.hidden)}
    shapes.update(_mlp("mlp.shared_experts", shape, shape.expert_width))
    for expert in range(shape.experts):
        shapes.update(_mlp(f"mlp.experts.{expert}", shape, shape.expert_width))
    return shapes


def _mlp(prefix: str, shape: Shape, width: int) -> Shapes:
    return {
        f"{prefix}.gate_proj": (width, shape.hidden),
        f"{prefix}.up_proj": (width, shape.hidden),
        f"{prefix}.down_proj": (shape.hidden, width),
    }


def bfloat16(values: list[float]) -> bytes:
    """Little-endian bfloat16: the upper half of each float32."""
    single = array.array("f", values)
    if sys.byteorder == "big":
        single.byteswap()
    raw = single.tobytes()
    halves = bytearray(len(raw) // 2)
    halves[0::2] = raw[2::4]
    halves[1::2] = raw[3::4]
    return bytes(halves)


def noise(label: str, count: int) -> list[float]:
    """Evenly spread numbers around zero; the same label gives the same ones everywhere."""
    drawn = array.array("H", hashlib.shake_256(label.encode()).digest(2 * count))
    if sys.byteorder == "big":
        drawn.byteswap()
    return [SPREAD * (number / 32767.5 - 1.0) for number in drawn]


def _tensor(name: str, size: tuple[int, ...], shape: Shape) -> bytes:
    count = math.prod(size)
    if len(size) == 1:
        return bfloat16([1.0] * count)
    values = noise(f"{shape.seed}/{name}", count)
    if name == "lm_head.weight":
        values = _prefer_letters(values, shape)
    return bfloat16(values)


def _prefer_letters(values: list[float], shape: Shape) -> list[float]:
    """Scale the rows of printable tokens, so that answers are mostly readable ASCII."""
    letters = {ord(character) for character in "abcdefghijklmnopqrstuvwxyz ,."}
    scaled = []
    for token in range(shape.vocabulary):
        row = values[token * shape.hidden : (token + 1) * shape.hidden]
        factor = 20.0 if token in letters else 0.1
        scaled += [factor * value for value in row]
    return scaled


def safetensors(shape: Shape) -> bytes:
    """The weights file: a JSON table, padded to 8 bytes, then the numbers."""
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    blobs, offset = [], 0
    for name, size in tensor_shapes(shape).items():
        blob = _tensor(name, size, shape)
        end = offset + len(blob)
        table[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [offset, end]}
        blobs.append(blob)
        offset = end
    header = json.dumps(table, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + b"".join(blobs)


def files(shape: Shape) -> dict[str, bytes]:
    """Every file of the model, by name."""
    documents = {
        "config.json": config(shape),
        "generation_config.json": generation_config(),
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": tokenizer_config(shape),
    }
    written = {name: _json(document) for name, document in documents.items()}
    written[WEIGHTS_FILE] = safetensors(shape)
    return written


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def write(directory: Path, shape: Shape | None = None) -> list[Path]:
    """Write the model into ``directory``; return the files written."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, content in files(shape or Shape()).items():
        path = directory / name
        path.write_bytes(content)
        paths.append(path)
    return paths


def main(arguments: list[str] | None = None) -> int:
    """``python -m vllm_fleet.lab.tiny_model DIRECTORY``."""
    parser = argparse.ArgumentParser(description="Write a tiny model for vLLM.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--family", choices=FAMILIES, default=FAMILIES[0])
    parser.add_argument("--seed", type=int, default=Shape.seed)
    options = parser.parse_args(arguments)
    for path in write(options.directory, Shape(options.family, seed=options.seed)):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
