"""From the inventory's instance to command line, environment and binding; and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import engine_plan

HOST = {
    "systemd": 249,
    "cgroup": "v1",
    "numa_nodes": [{"id": 0, "cpus": "0-31"}, {"id": 1, "cpus": "32-63"}],
}
SETTINGS = engine_plan.Settings(
    accelerator="nvidia",
    executable=["{release}/bin/python", "-m", "vllm.entrypoints.openai.api_server"],
    releases_dir="/opt/vllm/releases",
    address="127.0.0.1",
    release="abc",
    environment={"HF_HUB_OFFLINE": "1"},
    host=HOST,
)
INSTANCE = {"name": "r1", "model": "/srv/r1", "port": 8000}


def resolve(settings: engine_plan.Settings = SETTINGS, **more: Any) -> dict[str, Any]:
    return engine_plan.resolve({**INSTANCE, **more}, settings)


def problems(settings: engine_plan.Settings = SETTINGS, **more: Any) -> list[str]:
    return engine_plan.problems([{**INSTANCE, **more}], settings)


def test_the_smallest_instance() -> None:
    found = resolve()
    assert found["exec_start"] == (
        '/usr/bin/env "${FLEET_RELEASE}/bin/python" -m vllm.entrypoints.openai.api_server'
        " --model=/srv/r1 --host=127.0.0.1 --port=8000"
    )
    assert found["environment"] == ('FLEET_RELEASE="/opt/vllm/releases/abc"\nHF_HUB_OFFLINE="1"\n')
    assert found["directives"] == []
    assert (found["unit"], found["served"]) == ("vllm@r1.service", "/srv/r1")


def test_another_program_is_started_directly() -> None:
    settings = replace(SETTINGS, executable=["/usr/local/bin/my engine", "serve"])
    assert resolve(settings)["exec_start"].startswith('"/usr/local/bin/my engine" serve --model=')
    assert engine_plan.to_check(INSTANCE, settings)["program"] == "/usr/local/bin/my engine"
    assert engine_plan.to_check(INSTANCE, SETTINGS)["program"] == ""


def test_flags_of_every_kind_of_value() -> None:
    arguments = {
        "max_num_seqs": 8,
        "enable-prefix-caching": False,
        "enforce-eager": True,
        "left-out": None,
        "additional-config": {"b": {"x": 1}, "a": "b c"},
        "allowed-origins": ["a", "b"],
        "seed": -1,
    }
    assert engine_plan.flags(arguments) == [
        "--max-num-seqs=8",
        "--no-enable-prefix-caching",
        "--enforce-eager",
        '--additional-config={"a":"b c","b":{"x":1}}',
        "--allowed-origins",
        "a",
        "b",
        "--seed=-1",
    ]


@pytest.mark.parametrize(
    ("accelerator", "variable"),
    [("nvidia", "CUDA_VISIBLE_DEVICES"), ("ascend", "ASCEND_RT_VISIBLE_DEVICES")],
)
def test_devices_are_chosen_by_the_accelerators_variable(accelerator: str, variable: str) -> None:
    settings = replace(SETTINGS, accelerator=accelerator)
    assert f'{variable}="2,3"' in resolve(settings, devices=[2, 3])["environment"]
    assert variable not in resolve(settings, devices="all")["environment"]


def test_binding_to_nodes_takes_their_cpus() -> None:
    assert resolve(numa_nodes=[1])["directives"] == [
        "CPUAffinity=32-63",
        "NUMAPolicy=bind",
        "NUMAMask=1",
    ]
    assert resolve(cpus="0-3,8", numa_nodes=[0])["directives"][0] == "CPUAffinity=0-3,8"


def test_binding_leaves_out_what_systemd_239_does_not_know() -> None:
    old = replace(SETTINGS, host={**HOST, "systemd": 239})
    assert resolve(old, numa_nodes=[0])["directives"] == ["CPUAffinity=0-31"]


def test_an_instances_own_environment_and_release_win() -> None:
    found = resolve(environment={"HF_HUB_OFFLINE": False, "N": 4}, release="def")
    assert found["environment"] == (
        'FLEET_RELEASE="/opt/vllm/releases/def"\nHF_HUB_OFFLINE="0"\nN="4"\n'
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"name": "Bad Name"}, ["name: 'Bad Name'", "lower-case"]),
        ({"name": "../x"}, ["name: '../x'"]),
        ({"port": 80}, ["port: 80", "1024 to 65535"]),
        ({"port": 70000}, ["port: 70000"]),
        ({"model": "Qwen/Qwen2-0.5B"}, ["model:", "HF_HUB_OFFLINE"]),
        ({"memory_fraction": 1.5}, ["memory_fraction: 1.5"]),
        ({"memory_fraction": 0}, ["memory_fraction: 0"]),
        ({"arguments": {"--seed": 1}}, ["'--seed'", "without the leading hyphens"]),
        ({"arguments": {"port": 1}}, ["port is set by port"]),
        ({"arguments": {"served_model_name": "x"}}, ["set by served_model_name"]),
        ({"arguments": {"api-key": "x"}}, ["vllm_service_secrets"]),
        ({"arguments": {"a_b": 1, "a-b": 2}}, ["a-b is given twice"]),
        ({"arguments": {"x": ["-y"]}}, ["begins with a hyphen"]),
        ({"environment": {"VLLM_API_KEY": "x"}}, ["is a secret"]),
        ({"environment": {"FLEET_RELEASE": "x"}}, ["is set from"]),
        ({"environment": {"A B": "x"}}, ["'A B'"]),
        ({"environment": {"A": "x\ny"}}, ["line break"]),
        ({"devices": "0,1"}, ["'0,1'", "list of device numbers"]),
        ({"devices": []}, ["at least one"]),
        ({"devices": ["x"]}, ["must be numbers"]),
        ({"devices": [1, 1]}, ["twice"]),
        ({"numa_nodes": [7]}, ["[7] are not on this host", "[0, 1]"]),
        ({"cpus": "0-99"}, ["64-99 are not on this host", "0-63"]),
        ({"cpus": "a-b"}, ["must be like"]),
    ],
)
def test_what_is_refused(more: dict[str, Any], words: list[str]) -> None:
    found = problems(**more)
    assert len(found) == 1, found
    assert all(word in found[0] for word in words), found
    assert found[0].startswith("instance ")


def test_the_smallest_instance_has_no_problem() -> None:
    assert problems() == []
    assert problems(model="Qwen/x", environment={"HF_HUB_OFFLINE": 0}) == []


def test_devices_without_an_accelerator_are_refused() -> None:
    found = problems(replace(SETTINGS, accelerator="cpu"), devices=[0])
    assert "no accelerator" in found[0]


def test_doubles_are_refused() -> None:
    two = [{**INSTANCE, "devices": [0]}, {**INSTANCE, "devices": [1]}]
    assert engine_plan.problems(two, SETTINGS) == [
        "name: r1 is used by 2 instances; each needs its own",
        "port: 8000 is used by 2 instances; each needs its own",
    ]


@pytest.mark.parametrize(
    ("one", "other", "good"),
    [
        ({"devices": [0]}, {"devices": [1]}, True),
        ({"devices": [0]}, {}, False),
        ({}, {}, False),
        ({"memory_fraction": 0.4}, {"memory_fraction": 0.5}, True),
        ({"memory_fraction": 0.4}, {"memory_fraction": 0.7}, False),
    ],
)
def test_a_shared_device_needs_shared_memory(
    one: dict[str, Any], other: dict[str, Any], good: bool
) -> None:
    rows = [{**INSTANCE, **one}, {**INSTANCE, "name": "r2", "port": 8001, **other}]
    assert (engine_plan.problems(rows, SETTINGS) == []) is good


def test_the_program_must_be_an_absolute_path() -> None:
    found = problems(replace(SETTINGS, executable=["vllm", "serve"]))
    assert "vllm_service_executable" in found[0]


def test_a_host_without_systemd_is_refused() -> None:
    found = problems(replace(SETTINGS, host={**HOST, "systemd": None}))
    assert found == ["vllm_service_instances: the host has no systemd"]


def test_a_misspelt_directive_is_refused() -> None:
    found = problems(replace(SETTINGS, hardening={"ProtectSytem": "strict"}))
    assert found[0].startswith("vllm_service_hardening: ProtectSytem")


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        ({"r2": {"VLLM_API_KEY": "geheim"}}, "no instance r2; there are ['r1']"),
        ({"r1": "geheim"}, "must hold a mapping"),
        ({"r1": {"VLLM_API_KEY": "geheim\n"}}, "line break"),
    ],
)
def test_wrong_secrets_are_refused_and_not_shown(secrets: dict[str, Any], words: str) -> None:
    found = problems(replace(SETTINGS, secrets=secrets))
    assert len(found) == 1
    assert words in found[0]
    assert "geheim" not in found[0]


def test_right_secrets_are_no_problem_and_in_no_result() -> None:
    settings = replace(SETTINGS, secrets={"r1": {"VLLM_API_KEY": "geheim"}})
    assert problems(settings) == []
    assert "geheim" not in str(resolve(settings))
