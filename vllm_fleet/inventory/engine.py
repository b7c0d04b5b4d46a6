"""The engine arguments of each host's instances, against the flags of the vLLM that it gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_fleet.errors import Problem
from vllm_fleet.inventory.declared import settled
from vllm_fleet.inventory.fitting import Fitting, flag_name
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.model import Vaulted, is_template
from vllm_fleet.inventory.resolution import Judged, Resolutions
from vllm_fleet.inventory.scene import Scene
from vllm_fleet.inventory.specs import Finding, Path_

INSTANCES = "vllm_service_instances"
GUESS = " Did you mean this?"


@dataclass
class Told:
    """What the checks of instances found."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)


class Instances:
    """Checks the instances of every host, once for hosts that have the same ones."""

    def __init__(
        self, scene: Scene, knowledge: Knowledge, resolutions: Resolutions, fitting: Fitting
    ) -> None:
        self.scene = scene
        self.knowledge = knowledge
        self.fitting = fitting
        self.resolutions = resolutions
        self.told = Told()
        self._engines: dict[str, Any] = {}
        self._seen: set[tuple[Any, ...]] = set()

    def check(self) -> Told:
        """Check all of them."""
        for value, hosts in self.scene.distinct(INSTANCES):
            instances = value if isinstance(value, list) else []
            for judged, mine in self._by_judgement(hosts):
                for number, instance in enumerate(instances):
                    if isinstance(instance, Mapping):
                        self._instance(number, instance, judged, mine)
        return self.told

    def _by_judgement(self, hosts: Iterable[str]) -> list[tuple[Judged, tuple[str, ...]]]:
        """Return hosts in groups that get the same engine."""
        found: dict[int, tuple[Judged, list[str]]] = {}
        for host in hosts:
            judged = self.resolutions.of(host)
            if judged:
                found.setdefault(id(judged), (judged, []))[1].append(host)
        return [(judged, tuple(mine)) for judged, mine in found.values()]

    def _instance(
        self, number: int, instance: Mapping[str, Any], judged: Judged, hosts: tuple[str, ...]
    ) -> None:
        arguments = instance.get("arguments")
        if isinstance(arguments, Mapping):
            self._own_options(number, arguments, hosts)
            if judged.vllm:
                self._flags(number, arguments, judged, hosts)
        for kind, path, message, hint in self.fitting.judge(instance, judged):
            self._say(getattr(self.told, kind), number, hosts, path, message, hint)

    # Arguments

    def _own_options(
        self, number: int, arguments: Mapping[str, Any], hosts: tuple[str, ...]
    ) -> None:
        """Refuse flags that the role itself sets."""
        own: Mapping[str, str] = self.knowledge.module("engine_plan").OWN_OPTION
        for name in arguments:
            option = own.get(flag_name(name))
            if option:
                where = "the option" if option.startswith("vllm_") else "the instance's option"
                self._say(
                    self.told.problems, number, hosts, ("arguments", name),
                    f"is set by the role: write it as {where} {option}", "",
                )  # fmt: skip

    def _flags(
        self, number: int, arguments: Mapping[str, Any], judged: Judged, hosts: tuple[str, ...]
    ) -> None:
        """Check flags and values against those of the engine's release."""
        own = self.knowledge.module("engine_plan").OWN_OPTION
        asked = {
            str(name): known(value)
            for name, value in arguments.items()
            if flag_name(name) not in own
        }
        for finding in self._engine_flags(judged.accelerator).check(judged.vllm, asked):
            is_bad = finding.verdict == "bad"
            place = self.told.problems if is_bad else self.told.notes
            name = finding.argument.split(":")[0]
            self._say(place, number, hosts, ("arguments", name), *words(finding, judged.vllm))

    def _engine_flags(self, accelerator: str) -> Any:
        """Return the flags as this kind of host has them."""
        kind = "ascend" if accelerator == "ascend" else ""
        if kind not in self._engines:
            plugin = self.knowledge.load("ascend") if kind else None
            flags = self.knowledge.catalog["engine_flags/vllm"]
            module = self.knowledge.module("engine_args")
            self._engines[kind] = module.EngineFlags(flags, self.knowledge.old_names, plugin)
        return self._engines[kind]

    def _say(
        self,
        place: list[Problem],
        number: int,
        hosts: tuple[str, ...],
        path: Path_,
        message: str,
        hint: str,
    ) -> None:
        """Keep a finding once, also where several groups of hosts share the instances."""
        found = self.scene.problem(INSTANCES, hosts, Finding((number, *path), message, hint))
        key = (found.file, found.line, found.message)
        if key not in self._seen:
            self._seen.add(key)
            place.append(found)


def known(value: Any) -> Any:
    """Return an argument's value, or None (no check) where only a run can settle it."""
    hidden = is_template(value) or isinstance(value, Vaulted)
    return None if hidden or settled(value) != value else value


def words(finding: Any, version: str | None) -> tuple[str, str]:
    """Return message and hint for what is wrong with an argument."""
    reason = str(finding.reason)
    if reason.endswith(GUESS):
        return reason.removesuffix(GUESS), f"did you mean {finding.today}?"
    about = "" if reason.startswith("vLLM ") else f"(vLLM {version}) "
    return f"{about}{reason}", f"today: {finding.today}" if finding.today else ""
