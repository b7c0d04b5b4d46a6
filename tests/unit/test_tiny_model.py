"""The tiny model: the same bytes every time, files that a reader of these formats accepts."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from vllm_fleet.lab import tiny_model
from vllm_fleet.lab.tiny_model import FAMILIES, Shape

NAMES = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture(params=FAMILIES)
def shape(request: pytest.FixtureRequest) -> Shape:
    return Shape(request.param)


def header(raw: bytes) -> tuple[dict[str, Any], bytes]:
    length = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def document(shape: Shape, name: str) -> dict[str, Any]:
    return dict(json.loads(tiny_model.files(shape)[name]))


def test_it_writes_the_five_files_of_a_model(tmp_path: Path, shape: Shape) -> None:
    written = tiny_model.write(tmp_path / "deep" / "model", shape)
    assert {path.name for path in written} == NAMES
    assert sum(path.stat().st_size for path in written) < 4 << 20


def test_the_same_seed_gives_the_same_bytes_on_every_machine(shape: Shape) -> None:
    assert tiny_model.files(shape) == tiny_model.files(shape)
    other = Shape(shape.family, seed=shape.seed + 1)
    assert tiny_model.safetensors(shape) != tiny_model.safetensors(other)


def test_the_bytes_are_the_ones_that_were_served_by_the_real_engine() -> None:
    digest = hashlib.sha256(tiny_model.safetensors(Shape())).hexdigest()
    assert digest == "55b20e1a57346572881a6c5d55ee535cc97f6f6d28206a34f16ba50120969aa7"


def test_weights_are_laid_end_to_end_as_safetensors_wants_them(shape: Shape) -> None:
    raw = tiny_model.safetensors(shape)
    table, numbers = header(raw)
    assert table.pop("__metadata__") == {"format": "pt"}
    end = 0
    for entry in table.values():
        begin, next_end = entry["data_offsets"]
        count = 1
        for extent in entry["shape"]:
            count *= extent
        assert (begin, next_end - begin, entry["dtype"]) == (end, 2 * count, "BF16")
        end = next_end
    assert end == len(numbers)
    assert (len(raw) - len(numbers)) % 8 == 0


def test_bfloat16_keeps_the_upper_half_of_a_float() -> None:
    assert tiny_model.bfloat16([1.0, -2.0, 0.0]) == bytes.fromhex("803f 00c0 0000")


def test_norms_are_one_and_other_weights_are_small(shape: Shape) -> None:
    table, numbers = header(tiny_model.safetensors(shape))
    begin, end = table["model.norm.weight"]["data_offsets"]
    assert numbers[begin:end] == b"\x80\x3f" * shape.hidden
    assert max(map(abs, tiny_model.noise("x", 1000))) <= tiny_model.SPREAD


def test_the_config_agrees_with_the_weights(shape: Shape) -> None:
    config = document(shape, "config.json")
    table, _ = header(tiny_model.safetensors(shape))
    embedding = table["model.embed_tokens.weight"]["shape"]
    assert embedding == [config["vocab_size"], config["hidden_size"]]
    layers = {name.split(".")[2] for name in table if name.startswith("model.layers.")}
    assert len(layers) == config["num_hidden_layers"]


def test_the_deepseek_shape_has_latent_attention_and_experts() -> None:
    config = document(Shape(), "config.json")
    table, _ = header(tiny_model.safetensors(Shape()))
    latent = table["model.layers.0.self_attn.kv_a_proj_with_mqa.weight"]["shape"][0]
    assert latent == config["kv_lora_rank"] + config["qk_rope_head_dim"]
    experts = {name.split(".")[5] for name in table if ".experts." in name}
    assert len(experts) == config["n_routed_experts"]
    assert "model.layers.0.mlp.down_proj.weight" in table


def test_every_byte_has_one_token_and_specials_follow(shape: Shape) -> None:
    tokenizer = document(shape, "tokenizer.json")
    vocabulary = tokenizer["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(256))
    assert all(character.isprintable() and character != " " for character in vocabulary)
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    assert sorted(added.values()) == [256, 257, 258]
    config = document(shape, "config.json")
    assert added["<|im_end|>"] == config["eos_token_id"] < config["vocab_size"]


def test_the_alphabet_is_the_one_of_byte_level_bpe() -> None:
    alphabet = tiny_model.byte_alphabet()
    assert (alphabet[ord("A")], alphabet[ord(" ")], alphabet[ord("\n")]) == ("A", "Ġ", "Ċ")


def test_the_chat_template_marks_turns_and_asks_for_an_answer(shape: Shape) -> None:
    jinja2 = pytest.importorskip("jinja2")
    template = jinja2.Template(document(shape, "tokenizer_config.json")["chat_template"])
    text = template.render(
        messages=[{"role": "user", "content": "hello"}], add_generation_prompt=True
    )
    assert text == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"


def test_the_command_names_what_it_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tiny_model.main([str(tmp_path), "--family", "llama", "--seed", "7"]) == 0
    assert {Path(line).name for line in capsys.readouterr().out.splitlines()} == NAMES
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "llama"
