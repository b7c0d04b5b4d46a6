"""Files on the controller that the inventory names or needs: present, and with the right sums."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from vllm_fleet.errors import Problem
from vllm_fleet.inventory.declared import ARTIFACTS, Declared, chip_words, settled
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.resolution import Judged, Resolutions
from vllm_fleet.inventory.scene import Scene
from vllm_fleet.inventory.specs import Finding

BUILD = ("source", "source_sha256", "lock", "lock_sha256")
RUNTIME = ("source", "version", "archive", "archive_sha256", "root")
LOCK, SOURCE = "vllm_build_lock", "vllm_build_source"


class Files:
    """Checks what the controller must have, once for hosts that need the same."""

    def __init__(
        self, scene: Scene, knowledge: Knowledge, declared: Declared, resolutions: Resolutions
    ) -> None:
        self.scene = scene
        self.knowledge = knowledge
        self.declared = declared
        self.resolutions = resolutions

    def problems(self) -> Iterator[Problem]:
        """Yield files that are not there or are others, and options that lead to none."""
        for judged in self.resolutions.judged:
            for host, hosts in self._alike(judged):
                yield from self._interpreter(judged, host, hosts)
                yield from self._build(judged, host, hosts)
        for hosts, artifact, verdict, folder in self._artifacts:
            if verdict in ("absent", "wrong sum"):
                words = {"absent": "is not there", "wrong sum": "has another SHA-256 sum"}[verdict]
                finding = Finding((), f"{folder}/{artifact} {words}", f"from {artifact.url}")
                yield self.scene.problem(ARTIFACTS, hosts, finding)

    def notes(self) -> Iterator[Problem]:
        """Yield files that no published sum is known of."""
        for hosts, artifact, verdict, _folder in self._artifacts:
            if verdict == "no published sum":
                finding = Finding((), f"{artifact}: no published sum is known, nothing was checked")
                yield self.scene.problem(ARTIFACTS, hosts, finding)

    def _alike(self, judged: Judged) -> list[tuple[str, tuple[str, ...]]]:
        """Return hosts of one judgement in groups that name the same files."""
        names = [f"vllm_build_{name}" for name in BUILD]
        names += [f"python_runtime_{name}" for name in RUNTIME]
        found: dict[str, list[str]] = {}
        for host in judged.hosts:
            key = repr([self.scene.value(host, name) for name in names])
            found.setdefault(key, []).append(host)
        return [(hosts[0], tuple(hosts)) for hosts in found.values()]

    def _options(self, host: str, prefix: str, names: tuple[str, ...]) -> dict[str, Any] | None:
        """Return options of a role without its prefix; None where a run has to settle one."""
        raw = {name: self.scene.value(host, f"{prefix}_{name}") for name in names}
        known = {name: settled(value) for name, value in raw.items()}
        return known if known == raw else None

    def _interpreter(self, judged: Judged, host: str, hosts: tuple[str, ...]) -> Iterator[Problem]:
        """Check the engine's interpreter by the role's own plan."""
        options = self._options(host, "python_runtime", RUNTIME)
        if options is None:
            return
        options["source"] = options["source"] or "distribution"
        if options["source"] == "distribution" and not judged.platform.os:
            return
        plans = self.knowledge.module("python_plans")
        system = {"os": {"key": judged.platform.os}}
        try:
            plans.plan(self.knowledge.catalog["python"], system, options, judged.engine)
        except plans.PlanError as error:
            named = "python_runtime_version"
            name = named if options["source"] == "distribution" else "python_runtime_archive"
            yield self._refused(name, hosts, str(error))

    def _build(self, judged: Judged, host: str, hosts: tuple[str, ...]) -> Iterator[Problem]:
        """Check the engine's sources and lock by the role's own code."""
        plans = self.knowledge.module("build_plans")
        error_of = self.knowledge.module("python_plans").PlanError
        for names, check, option in (
            (BUILD[:2], lambda given: plans.source_of(judged.engine, given), SOURCE),
            (BUILD[2:], plans.lock_of, LOCK),
        ):
            options = self._options(host, "vllm_build", names)
            if options is None or judged.engine is None:
                continue
            try:
                check(options)
            except error_of as error:
                yield self._refused(option, hosts, str(error))

    def _refused(self, name: str, hosts: tuple[str, ...], message: str) -> Problem:
        """Return what the role's own code refuses, with the place of the option."""
        known = self.scene.inventory.variables[hosts[0]]
        meant = next((word for word in message.split() if word.strip("():") in known), name)
        made = self.scene.problem(meant.strip("():"), hosts, Finding((), message))
        return Problem(message, made.file, made.line, made.hosts, made.option)

    @cached_property
    def _artifacts(self) -> list[tuple[tuple[str, ...], Any, str, str]]:
        """Return each file that hosts need, and whether it lies in their folder; summed once."""
        module, found = self.knowledge.module("artifacts"), {}
        for judged in self.resolutions.judged:
            folder = self.declared.artifacts_dir(judged.hosts[0])
            if folder is None or judged.accelerator != "ascend" or not judged.resolution:
                continue
            hosts = tuple(h for h in judged.hosts if self.declared.artifacts_dir(h) == folder)
            for artifact in self._needed(judged):
                key = (folder, str(artifact))
                if key not in found:
                    verdict = module.verify(Path(folder).expanduser(), artifact)
                    found[key] = (hosts, artifact, verdict, folder)
        return list(found.values())

    def _needed(self, judged: Judged) -> list[Any]:
        """Return the published files for the versions of hosts."""
        parts = {name: self.knowledge.load(name) for name in ("ascend", "artifacts/ascend")}
        rows = [row for word in chip_words(judged.platform) for row in self.declared.chips(word)]
        chips = list({row["pci"]: row for row in rows if "family" in row}.values())
        needed: list[Any] = self.knowledge.module("artifacts").needed(
            judged.resolution.set, chips, judged.platform.arch or "aarch64", parts
        )
        return needed
