"""``validate`` and what an engine is told: its arguments, old names, and whether the model fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from validation import A2, PYTHON, SET, told

from vllm_fleet.inventory.fitting import number_of

INSTANCE = """
vllm_service_instances:
  - name: one
    model: /data/model
    port: 8000
"""
# A dense model of 8 thousand million parameters, with grouped queries.
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 8192,
}
BIG = CONFIG | {"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
                "intermediate_size": 28672}  # fmt: skip


def arguments(*lines: str) -> str:
    """Return an instance with these arguments; the first one stands in line 8."""
    return INSTANCE + "    arguments:\n" + "".join(f"      {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("argument", "message", "hint"),
    [
        ("max-num-seq: 4", "vLLM 0.23.0 has no such flag", "did you mean max-num-seqs?"),
        ("max_num_seq: 4", "vLLM 0.23.0 has no such flag", "did you mean max-num-seqs?"),
        ("utter-nonsense: 4", "vLLM 0.23.0 has no such flag", ""),
        ("max-num-seqs: many", "must be a whole number, not 'many'", ""),
        ("max-num-seqs: 0", "must be", ""),
        ("dtype: bf16", "bf16 is none of its values", "today: bfloat16"),
        ("enforce-eager: 'yes'", "must be true or false", ""),
        ("swap_space: 4", "its last release is 0.17", "today: --kv-offloading-size"),
        ("max_batch_size: 4", "is TensorRT-LLM's and MindIE's", "today: --max-num-seqs"),
        ("max-num-batches: 4", "vLLM never had it", "today: --max-num-batched-tokens"),
        ("reuse_kv_cache: true", "prefix caching", "today: --enable-prefix-caching"),
        ("page_size: 16", "block of tokens", "today: --block-size"),
        ("kv_cache_block_size: 16", "block of tokens", "today: --block-size"),
        ("num_cuda_streams: 2", "manages its streams", "today: nothing"),
        ("set_weight_dtype: int8", "in the type of --dtype", "today: --dtype"),
        ("device_map.memory_fraction: 0.9", "transformers", "today: --gpu-memory-utilization"),
        ("disable_log_requests: true", "no longer logged", "today: nothing"),
        ("best_of: 2", "never an engine argument", "today: n in the request"),
        ("use_beam_search: true", "a field of one request", "today: use_beam_search in"),
        ("quantization: int8", "int8 is no method of vLLM", "today: weights quantized"),
        ("port: 1", "is set by the role", ""),
        ("host: 0.0.0.0", "write it as the instance's option address", ""),
        ("model: /x", "is set by the role", ""),
        ("served_model_name: x", "write it as the instance's option served_model_name", ""),
        ("gpu-memory-utilization: 0.9", "the instance's option memory_fraction", ""),
    ],
)
def test_an_engine_argument_is_checked_for_the_release_that_the_host_gets(
    judge: Any, argument: str, message: str, hint: str
) -> None:
    report = judge(arguments("max-model-len: 4096", argument), "ascend", SET).report
    assert len(report.problems) == 1, told(report.problems)
    problem = report.problems[0]
    assert message in problem.message
    assert hint in problem.hint
    assert problem.file.endswith("group_vars/all.yml")
    assert problem.line == 10
    assert problem.hosts == ("n1", "n2")


def test_a_flag_counts_for_the_hosts_release_only(judge: Any) -> None:
    """n1 gets 0.23, n2 gets 0.13, which still has swap-space."""
    own = {"host_vars/n2.yml": "vllm_fleet_release_set: ascend-2026.02\n"}
    report = judge(arguments("swap-space: 4"), "ascend", SET, own).report
    assert [p.hosts for p in report.problems if "swap" in p.message] == [("n1",)]


def test_arguments_of_a_plugin_are_for_its_hosts_only(judge: Any) -> None:
    line = "quantization: ascend"
    assert told(judge(arguments(line), "ascend").report.problems) == ""
    found = judge(arguments(line), "nvidia").report
    assert "ascend is none of the values" in told(found.problems) + told(found.notes)


def test_good_arguments_and_templates_are_let_through(judge: Any) -> None:
    text = arguments(
        "max_model_len: 8k",
        "enable-expert-parallel: true",
        "enable-prefix-caching: false",
        "speculative-config: {num_speculative_tokens: 3, method: mtp}",
        "max-num-seqs: '{{ seqs }}'",
        "dtype: '{{ dtype }}'",
        "seed: null",
    )
    assert told(judge(text, "ascend").report.problems) == ""
    assert told(judge("vllm_service_instances: '{{ x }}'\n").report.problems) == ""


def test_a_template_does_not_hide_a_misspelt_flag(judge: Any) -> None:
    report = judge(arguments("max-num-seq: '{{ seqs }}'"), "ascend").report
    assert "did you mean max-num-seqs?" in told(report.problems)


# Old and invented names elsewhere


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vllm_build_requirements: [torch==2.0.1+aarch64]", "no wheel has such a local version"),
        ("vllm_build_requirements: [cann-toolkit==6.3.RC1]", "did not exist for CANN 6"),
        ("os_baseline_packages: [Ascend-ddk]", "first Ascend 310"),
        ("os_baseline_packages: [openEuler-release]", "not something to install"),
        ("os_baseline_packages: [nvidia-driver-535]", "a package of Ubuntu"),
        ("my_list: [{deep: nvidia-driver-535}]", "a package of Ubuntu"),
        ("npu_driver_version: 3.30.0", "no driver of the NPUs"),
        ("log_dir: /var/log/ascend_secu", "a misspelling"),
        ("log_dir: /var/log/ascend_secu/x.log", "today: /var/log/ascend_seclog"),
        ("my_repo: http://mirror.centos.org/centos/8/AppStream", "CentOS 8 ended"),
        ("my_class: vllm.Config", "vLLM has no such class"),
        ("vllm_service_executable: [/x, --swap-space=4]", "its last release is 0.17"),
        ("my_words: vllm serve --max_batch_size 4", "TensorRT-LLM"),
    ],
)
def test_an_old_name_is_found_wherever_it_stands(judge: Any, line: str, words: str) -> None:
    platform = "vllm_fleet_platform: {os: kylin-V10-SP2}\n"
    report = judge(f"{platform}{PYTHON}{line}\n", "ascend", SET).report
    found = [p for p in report.problems if words in f"{p.message} {p.hint}"]
    assert len(found) == 1, told(report.problems)
    assert found[0].line == 8


def test_an_om_file_is_no_model(judge: Any) -> None:
    text = INSTANCE.replace("/data/model", "/data/model.om")
    problem = judge(text, "ascend").report.problems[0]
    assert "a graph for the ACL runtime" in problem.message
    assert (problem.option, problem.line) == ("vllm_service_instances[0].model", 6)


@pytest.mark.parametrize(
    "line",
    [
        "cmake_version: '3.30.0'",
        "some_name: vllm_config",
        "some_path: /var/log/ascend_seclog",
        "my_repo: https://vault.centos.org/centos/8.5.2111/",
        "os_name: openEuler",
    ],
)
def test_names_that_only_look_old_are_let_through(judge: Any, line: str) -> None:
    report = judge(f"{line}\n", "ascend", SET).report
    assert told(report.problems + report.warnings) == ""


def test_a_package_is_only_wrong_on_some_systems(judge: Any) -> None:
    text = "vllm_fleet_platform: {os: ubuntu-22.04}\nmy_driver_package: nvidia-driver-535\n"
    assert told(judge(text, "nvidia").report.problems) == ""


@pytest.mark.parametrize("line", ["max_batch_size: 4", "engine: {swap_space: 4}"])
def test_an_old_argument_as_a_variable_is_a_warning(judge: Any, line: str) -> None:
    report = judge(f"{line}\n").report
    assert told(report.problems) == ""
    assert "today: --" in told(report.warnings)
    assert report.warnings[0].line == 2


def test_an_old_argument_beside_the_options_of_an_instance(judge: Any) -> None:
    report = judge(INSTANCE + "    max_batch_size: 4\n", "ascend").report
    assert "is no option here" in told(report.problems)
    assert "today: --max-num-seqs" in told(report.warnings)


# Will it fit


def model(config: object, *lines: str, devices: str = "all") -> str:
    """Return the declaration of a model, and an instance of it."""
    declared = f"vllm_fleet_models: {{/data/model: {{config: {json.dumps(config)}}}}}\n"
    platform = A2 + "  memory_gib: 64\n"
    return (
        declared
        + platform
        + PYTHON
        + arguments(*lines).replace("    port: 8000\n", f"    port: 8000\n    devices: {devices}\n")
    )


def test_a_model_that_fits_is_noted(judge: Any) -> None:
    report = judge(model(CONFIG, "max-model-len: 8192", "max-num-seqs: 16"), "ascend").report
    assert told(report.problems) == ""
    assert "fits, with room for" in told(report.notes)


def test_a_model_that_is_too_big_is_refused(judge: Any) -> None:
    huge = BIG | {"num_hidden_layers": 800}
    report = judge(model(huge, "tensor-parallel-size: 8"), "ascend").report
    assert "is too big for these devices" in told(report.problems)
    assert report.problems[0].option == "vllm_service_instances[0].model"


def test_a_model_that_fits_on_all_devices_but_is_given_one(judge: Any) -> None:
    report = judge(model(BIG, "max-model-len: 4096"), "ascend").report
    assert "does not fit on one device" in told(report.problems)
    assert "this works: tensor-parallel-size: 8" in told(report.problems)


@pytest.mark.parametrize("flag", ["tensor-parallel-size", "tensor_parallel_size", "tp"])
def test_more_devices_are_asked_for_than_there_are(judge: Any, flag: str) -> None:
    report = judge(model(CONFIG, f"{flag}: 4", devices="[0, 1]"), "ascend").report
    assert "ask for 4 devices (tensor-parallel-size 4), and the instance has 2" in told(
        report.problems
    )


def test_a_config_is_read_on_the_controller(judge: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    report = judge(model(str(file), "max-num-seqs: 16"), "ascend").report
    assert "fits, with room for" in told(report.notes)
    absent = judge(model(str(tmp_path / "nowhere"), "max-num-seqs: 16"), "ascend").report
    assert "nowhere: No such file" in told(absent.problems)
    (tmp_path / "bad.json").write_text("{")
    broken = judge(model(str(tmp_path / "bad.json")), "ascend").report
    assert "bad.json is no JSON" in told(broken.problems)


def test_what_cannot_be_judged_is_a_note(judge: Any) -> None:
    strange = CONFIG | {"mamba_d_state": 16}
    report = judge(model(strange, "seed: 1"), "ascend").report
    assert told(report.problems) == ""
    assert "cannot be judged for size" in told(report.notes)
    declared = f"vllm_fleet_models: {{/data/model: {{config: {json.dumps(CONFIG)}}}}}\n"
    assert "does not say chip" in told(judge(declared + INSTANCE).report.notes)


@pytest.mark.parametrize(
    ("value", "number"),
    [(8, 8), ("8", 8), ("8k", 8000), ("8K", 8192), ("x", None), (None, None), ("{{ x }}", None)],
)
def test_numbers_as_the_engine_writes_them(value: object, number: int | None) -> None:
    assert number_of(value) == number
