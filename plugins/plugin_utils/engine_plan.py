# SPDX-License-Identifier: GPL-3.0-or-later
"""From an instance as the inventory says it to what the host gets: argv, environment, binding.

Runs on the controller. problems() says what is wrong with the settings; resolve() assumes that
nothing is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import systemd_text
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.engine_state import unit_name

NAME = re.compile(r"^[a-z0-9][a-z0-9._-]{0,62}$")
FLAG = re.compile(r"^[A-Za-z][A-Za-z0-9_.-]*$")
PORTS = range(1024, 65536)
RELEASE_WORD = "{release}"
# Not VLLM_...: vLLM warns about variables with its prefix that it does not know.
RELEASE_VARIABLE = "FLEET_RELEASE"
DEVICE_VARIABLE = {"ascend": "ASCEND_RT_VISIBLE_DEVICES", "nvidia": "CUDA_VISIBLE_DEVICES"}
# What an instance says by an option of its own must not also stand in its arguments.
OWN_OPTION = {
    "model": "model",
    "host": "address",
    "port": "port",
    "served-model-name": "served_model_name",
    "gpu-memory-utilization": "memory_fraction",
    "api-key": "vllm_service_secrets",
}
SECRET_VARIABLES = ("VLLM_API_KEY", "HF_TOKEN")


@dataclass(frozen=True)
class Settings:
    """What all instances of a host share."""

    accelerator: str
    executable: list[str]
    releases_dir: str
    address: str
    release: str = ""
    environment: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, Any] = field(default_factory=dict)
    hardening: dict[str, Any] = field(default_factory=dict)
    host: dict[str, Any] = field(default_factory=dict)


def text(value: Any) -> str:
    """Return a value of YAML as the text that a program expects."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def flags(arguments: dict[str, Any]) -> list[str]:
    """Return engine flags as words: one word per flag, so that no value is taken for a flag.

    true is --flag, false is --no-flag, null leaves it out, a list is several words after the
    flag, a mapping is JSON.
    """
    words: list[str] = []
    for name, value in arguments.items():
        words.extend(_flag(name.replace("_", "-"), value))
    return words


def _flag(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, list):
        return [f"--{name}", *map(text, value)]
    return [f"--{name}={text(value)}"]


def argv(instance: dict[str, Any], settings: Settings) -> list[str]:
    """Return the whole command of an instance; RELEASE_WORD stands for its release."""
    own: dict[str, Any] = {
        "model": instance["model"],
        "served-model-name": instance.get("served_model_name"),
        "host": address(instance, settings),
        "port": int(instance["port"]),
        "gpu-memory-utilization": instance.get("memory_fraction"),
    }
    return [*settings.executable, *flags(own), *flags(instance.get("arguments") or {})]


def address(instance: dict[str, Any], settings: Settings) -> str:
    """Return the address on which an instance listens."""
    return str(instance.get("address") or settings.address)


def release_of(instance: dict[str, Any], settings: Settings) -> str:
    """Return the id of the release that an instance uses."""
    return str(instance.get("release") or settings.release)


def devices(instance: dict[str, Any]) -> list[str] | None:
    """Return the devices of an instance; None for all."""
    wanted = instance.get("devices", "all")
    return None if wanted in ("all", None) else [str(device) for device in wanted]


def environment(instance: dict[str, Any], settings: Settings) -> dict[str, str]:
    """Return the variables of an instance: the host's, its own, its devices and its release."""
    own = {**settings.environment, **(instance.get("environment") or {})}
    found = {name: text(value) for name, value in own.items() if value is not None}
    chosen = devices(instance)
    variable = DEVICE_VARIABLE.get(settings.accelerator)
    if chosen is not None and variable:
        found[variable] = ",".join(chosen)
    found[RELEASE_VARIABLE] = f"{settings.releases_dir}/{release_of(instance, settings)}"
    return found


def parse_cpus(value: Any) -> set[int]:
    """Return the CPUs of '0-3,8' or of a list; ValueError where it is neither."""
    if isinstance(value, list):
        return {int(cpu) for cpu in value}
    found: set[int] = set()
    for part in str(value).replace(" ", ",").split(","):
        first, dash, last = part.partition("-")
        if part:
            found.update(range(int(first), int(last if dash else first) + 1))
    return found


def cpu_ranges(cpus: set[int]) -> str:
    """Return CPUs as the shortest list of ranges."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def host_nodes(host: dict[str, Any]) -> dict[int, set[int]]:
    """Return the CPUs of each NUMA node of a host, as host_identity saw them."""
    return {int(node["id"]): parse_cpus(node["cpus"]) for node in host.get("numa_nodes", [])}


def binding(instance: dict[str, Any], host: dict[str, Any]) -> dict[str, str]:
    """Return the directives that bind an instance to its CPUs and NUMA nodes.

    CPUAffinity, not AllowedCPUs: that one acts on the unified cgroup hierarchy only.
    """
    nodes = [int(node) for node in instance.get("numa_nodes") or []]
    found: dict[str, str] = {}
    if instance.get("cpus"):
        found["CPUAffinity"] = cpu_ranges(parse_cpus(instance["cpus"]))
    elif nodes:
        known = host_nodes(host)
        found["CPUAffinity"] = cpu_ranges(set().union(*(known.get(node, set()) for node in nodes)))
    if nodes:
        found["NUMAPolicy"] = "bind"
        found["NUMAMask"] = cpu_ranges(set(nodes))
    return {name: value for name, value in found.items() if value}


def resolve(instance: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return everything that the host gets for one instance."""
    words = argv(instance, settings)
    served = instance.get("served_model_name") or [instance["model"]]
    return {
        "name": instance["name"],
        "unit": unit_name(instance["name"]),
        "port": int(instance["port"]),
        "address": address(instance, settings),
        "model": instance["model"],
        "served": served[0] if isinstance(served, list) else served,
        "release": release_of(instance, settings),
        "release_dir": environment(instance, settings)[RELEASE_VARIABLE],
        "exec_start": exec_start(words),
        "environment": systemd_text.environment_file(environment(instance, settings)),
        "directives": systemd_text.directive_lines(
            binding(instance, settings.host), *systemd_of(settings.host)
        ),
    }


def systemd_of(host: dict[str, Any]) -> tuple[int, str]:
    """Return the version of systemd on a host (0: none) and its cgroup hierarchy."""
    return int(host.get("systemd") or 0), str(host.get("cgroup") or "")


def to_check(instance: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return what the host itself is asked about before an instance is touched."""
    program = settings.executable[0]
    return {
        "name": instance["name"],
        "port": int(instance["port"]),
        "model": instance["model"],
        "release": str(instance.get("release") or ""),
        "program": "" if RELEASE_WORD in program else program,
    }


def exec_start(words: list[str]) -> str:
    """Return the value of ExecStart.

    systemd takes no variable for the program itself, so a release's program is started by env,
    which becomes that program (same process).
    """
    variables = {RELEASE_WORD: RELEASE_VARIABLE}
    prefix = "/usr/bin/env " if RELEASE_WORD in words[0] else ""
    return prefix + str(systemd_text.exec_line(words, variables))


def problems(instances: list[dict[str, Any]], settings: Settings) -> list[str]:
    """Say everything that is wrong with the settings of a host's instances."""
    found = list(_shared_problems(settings))
    found.extend(_secret_problems(instances, settings))
    found.extend(_doubles(instances, "name"))
    found.extend(_doubles(instances, "port"))
    for instance in instances:
        label = f"instance {instance.get('name', '?')}"
        found.extend(f"{label}, {problem}" for problem in _instance_problems(instance, settings))
    found.extend(_overlaps(instances, settings))
    return found


def _shared_problems(settings: Settings) -> Iterator[str]:
    if not settings.executable or not settings.executable[0].startswith(("/", RELEASE_WORD)):
        yield (
            f"vllm_service_executable: {settings.executable} must begin with an absolute path"
            f" or with {RELEASE_WORD}"
        )
    if settings.host and not systemd_of(settings.host)[0]:
        yield "vllm_service_instances: the host has no systemd"
    yield from _environment_problems("vllm_service_environment", settings.environment)
    for problem in systemd_text.directive_problems(settings.hardening):
        yield f"vllm_service_hardening: {problem}"


def _secret_problems(instances: list[dict[str, Any]], settings: Settings) -> Iterator[str]:
    """Say what is wrong with the secrets, never what they are."""
    names = [str(instance.get("name")) for instance in instances]
    for name, variables in settings.secrets.items():
        if name not in names:
            yield f"vllm_service_secrets: there is no instance {name}; there are {names}"
        if not isinstance(variables, dict):
            yield f"vllm_service_secrets: {name} must hold a mapping of variables"
            continue
        found = (systemd_text.environment_problem(str(k), str(v)) for k, v in variables.items())
        yield from (f"vllm_service_secrets: {name}: {problem}" for problem in found if problem)


def _doubles(instances: list[dict[str, Any]], key: str) -> Iterator[str]:
    counted = Counter(str(instance.get(key)) for instance in instances)
    for value, count in counted.items():
        if count > 1:
            yield f"{key}: {value} is used by {count} instances; each needs its own"


def _instance_problems(instance: dict[str, Any], settings: Settings) -> Iterator[str]:
    name = str(instance.get("name"))
    if not NAME.match(name):
        yield (
            f"name: {name!r} must be 1 to 63 lower-case letters, digits, dots, hyphens or"
            " underscores, and begin with a letter or digit"
        )
    if int(instance["port"]) not in PORTS:
        yield f"port: {instance['port']} must be from {PORTS.start} to {PORTS.stop - 1}"
    fraction = instance.get("memory_fraction")
    if fraction is not None and not 0 < float(fraction) <= 1:
        yield f"memory_fraction: {fraction} must be above 0 and at most 1"
    yield from _model_problems(instance, settings)
    yield from _argument_problems(instance.get("arguments") or {})
    yield from _environment_problems("environment", instance.get("environment") or {})
    yield from _device_problems(instance, settings)
    yield from _binding_problems(instance, settings.host)


def _model_problems(instance: dict[str, Any], settings: Settings) -> Iterator[str]:
    model = str(instance["model"])
    own = {**settings.environment, **(instance.get("environment") or {})}
    if not model.startswith("/") and text(own.get("HF_HUB_OFFLINE", "0")) == "1":
        yield (
            f"model: {model!r} is no absolute path; a name from a model hub needs HF_HUB_OFFLINE: 0"
            " in the instance's environment"
        )


def _argument_problems(arguments: dict[str, Any]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for name, value in arguments.items():
        flag = str(name).replace("_", "-")
        seen[flag] += 1
        if not FLAG.match(str(name)):
            yield f"arguments: {name!r} is no flag; write it without the leading hyphens"
        elif flag in OWN_OPTION:
            yield f"arguments: {name} is set by {OWN_OPTION[flag]}"
        elif "\x00" in text(value):
            yield f"arguments: the value of {name} holds a NUL character"
        elif isinstance(value, list) and any(text(item).startswith("-") for item in value):
            yield f"arguments: an item of {name} begins with a hyphen and would be read as a flag"
    yield from (f"arguments: {flag} is given twice" for flag, count in seen.items() if count > 1)


def _environment_problems(option: str, variables: dict[str, Any]) -> Iterator[str]:
    reserved = {RELEASE_VARIABLE, *DEVICE_VARIABLE.values()}
    for name, value in variables.items():
        problem = systemd_text.environment_problem(str(name), text(value))
        if problem:
            yield f"{option}: {problem}"
        elif name in reserved:
            yield f"{option}: {name} is set from the instance's devices and release"
        elif name in SECRET_VARIABLES:
            yield f"{option}: {name} is a secret and belongs in vllm_service_secrets"


def _device_problems(instance: dict[str, Any], settings: Settings) -> Iterator[str]:
    wanted = instance.get("devices", "all")
    if isinstance(wanted, str) and wanted != "all":
        yield f"devices: {wanted!r} must be 'all' or a list of device numbers"
        return
    chosen = devices(instance)
    if chosen is None:
        return
    if settings.accelerator not in DEVICE_VARIABLE:
        yield f"devices: {wanted} are given, but the host has no accelerator (group cpu)"
    if not chosen or not all(device.isdigit() for device in chosen):
        yield f"devices: {wanted} must be numbers, at least one; leave it out for all"
    if len(set(chosen)) != len(chosen):
        yield f"devices: {wanted} names a device twice"


def _binding_problems(instance: dict[str, Any], host: dict[str, Any]) -> Iterator[str]:
    known = host_nodes(host)
    strange = [node for node in instance.get("numa_nodes") or [] if int(node) not in known]
    if strange and known:
        yield f"numa_nodes: {strange} are not on this host; it has {sorted(known)}"
    try:
        cpus = parse_cpus(instance.get("cpus") or [])
    except ValueError:
        yield f"cpus: {instance['cpus']!r} must be like 0-15,32"
        return
    there = set().union(*known.values())
    if there and cpus - there:
        yield f"cpus: {cpu_ranges(cpus - there)} are not on this host; it has {cpu_ranges(there)}"


def _overlaps(instances: list[dict[str, Any]], settings: Settings) -> Iterator[str]:
    """Refuse instances that together ask for more memory of one device than it has."""
    if settings.accelerator not in DEVICE_VARIABLE:
        return
    for index, one in enumerate(instances):
        for other in instances[index + 1 :]:
            if _share_device(one, other) and _memory([one, other]) > 1:
                yield (
                    f"devices: instances {one['name']} and {other['name']} share a device, but not"
                    " its memory; give each its own devices, or memory_fraction values that add up"
                    " to at most 1"
                )


def _share_device(one: dict[str, Any], other: dict[str, Any]) -> bool:
    first, second = devices(one), devices(other)
    return first is None or second is None or bool(set(first) & set(second))


def _memory(instances: Iterable[dict[str, Any]]) -> float:
    return sum(float(instance.get("memory_fraction") or 1) for instance in instances)
