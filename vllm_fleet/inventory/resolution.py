"""Which versions each host gets, and whether they go together: the resolver on an inventory."""

from __future__ import annotations

import platform as controller
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vllm_fleet.errors import Problem
from vllm_fleet.inventory.declared import (
    PLATFORM,
    RELEASE_SET,
    Declared,
    chip_words,
    settled,
)
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.names import ACCELERATORS
from vllm_fleet.inventory.scene import Scene
from vllm_fleet.inventory.schema import Platform
from vllm_fleet.inventory.specs import Finding

SETTINGS, SERVING = "vllm_fleet", "serving"
# The options of roles that decide which engine a host gets.
ENGINE_OPTIONS = ("method", "target", "distribution", "version", "exclude")
PYTHON_OPTION, REQUIREMENTS = "python_runtime_version", "vllm_build_requirements"
INTERPRETER = "ansible_python_interpreter"
PIN = re.compile(r"^\s*([A-Za-z0-9._-]+)\s*==\s*([A-Za-z0-9.!+_-]+)\s*(?:;.*)?$")
PINNED = ("vllm_ascend", "torch", "torch_npu", "triton_ascend")
# Parts that the platform says are there: no role brings them, so they stay.
GIVEN = ("driver", "firmware", "cann", "cuda", "kernel_modules")
# Which variable a part comes from, so that a verdict points at it.
BLAME = (
    ("vllm_build_version", ("vllm ", "vLLM ")),
    (PYTHON_OPTION, ("Python ",)),
    (REQUIREMENTS, ("vllm-ascend ", "torch ", "torch_npu ", "triton-ascend ")),
)


@dataclass
class Judged:
    """Hosts that are alike, the versions that they get, and what the resolver says of these."""

    hosts: tuple[str, ...]
    accelerator: str
    platform: Platform
    release_set: str | None
    engine: Mapping[str, Any] | None = None
    resolution: Any = None
    problems: list[Problem] = field(default_factory=list)

    @property
    def vllm(self) -> str | None:
        """Return the version of the engine."""
        return str(self.engine["version"]) if self.engine else None

    def as_dict(self) -> dict[str, Any]:
        """Return it for a JSON document."""
        found = self.resolution.as_dict() if self.resolution else None
        return {
            "hosts": list(self.hosts),
            "accelerator": self.accelerator,
            "release_set": self.release_set,
            "platform": self.platform.model_dump(exclude_none=True),
            "resolution": found,
        }


class Resolutions:
    """The resolution of every host that serves; hosts that are alike are judged once."""

    def __init__(self, scene: Scene, knowledge: Knowledge, declared: Declared) -> None:
        self.scene = scene
        self.knowledge = knowledge
        self.declared = declared
        self.judged = [self._judge(*group) for group in self._alike()]
        self._of = {host: item for item in self.judged for host in item.hosts}

    def of(self, host: str) -> Judged | None:
        """Return what was found out of a host; None where it serves nothing."""
        return self._of.get(host)

    # Who is alike

    def _alike(self) -> list[tuple[tuple[str, ...], str]]:
        """Return hosts in groups whose facts and wishes are the same, with their accelerator."""
        serving = set(self.scene.inventory.groups.get(SERVING, ()))
        found: dict[tuple[str, str], list[str]] = {}
        for host in self.scene.hosts:
            mine = set(self.scene.inventory.groups_of(host))
            accelerator = next((name for name in ACCELERATORS if name in mine), "")
            if accelerator and (host in serving or self.declared.release_set(host)):
                found.setdefault((accelerator, self._signature(host)), []).append(host)
        return [(tuple(hosts), key[0]) for key, hosts in found.items()]

    def _signature(self, host: str) -> str:
        """Return what the resolution of a host hangs on."""
        names = [f"vllm_build_{name}" for name in ENGINE_OPTIONS]
        values = [self.scene.value(host, name) for name in (*names, PYTHON_OPTION, REQUIREMENTS)]
        own = self.declared.platform(host), self.declared.release_set(host)
        return repr((own, values))

    # Judging

    def _judge(self, hosts: tuple[str, ...], accelerator: str) -> Judged:
        host = hosts[0]
        platform, word = self.declared.platform(host), self.declared.release_set(host)
        judged = Judged(hosts, accelerator, platform, word)
        judged.problems += self._vendors(judged)
        try:
            judged.engine = self._engine(host, accelerator, word)
            wanted = self.knowledge.module("resolver").Wanted.of(self._wishes(judged))
            facts = self._facts(platform, accelerator)
            judged.resolution = self.knowledge.resolver.resolve(facts, wanted)
        except ValueError as error:
            # The resolver and the roles' plans refuse what they cannot read in words of their own.
            judged.problems.append(self._refused(judged, str(error)))
        else:
            judged.problems += self._bad(judged)
        return judged

    def _engine(self, host: str, accelerator: str, word: str | None) -> Mapping[str, Any] | None:
        """Return the engine that the roles would install, by their own code."""
        plans, sets = self.knowledge.module("build_plans"), self.knowledge.module("release_sets")
        options = {name: self._option(host, f"vllm_build_{name}") for name in ENGINE_OPTIONS}
        of_set = sets.engine_version(word, [accelerator], self.knowledge.catalog)
        options["version"] = options["version"] or of_set
        found: Mapping[str, Any] | None
        found = plans.engine_of(self.knowledge.catalog["vllm"], [accelerator], options)
        return found

    def _option(self, host: str, name: str) -> Any:
        """Return an option's value where no run has to settle it first."""
        return settled(self.scene.value(host, name))

    def _wishes(self, judged: Judged) -> dict[str, Any]:
        """Return what the inventory asks for, as the resolver takes it."""
        host, engine = judged.hosts[0], judged.engine or {}
        wishes: dict[str, Any] = dict(self._pins(host))
        wishes |= {name: getattr(judged.platform, name) for name in GIVEN}
        wishes["release_set"] = judged.release_set
        wishes["python"] = self._option(host, PYTHON_OPTION) or self._default_python()
        if judged.accelerator == "nvidia":
            # Elsewhere the role's method is about vLLM without kernels, which needs no compiler.
            wishes["method"] = engine.get("method")
        wishes["month"] = time.strftime("%Y-%m")
        said = self._option(host, "vllm_build_version") or not judged.release_set
        if said and str(engine.get("distribution", "")).startswith("vllm"):
            wishes["vllm"] = engine["version"]
        return {name: value for name, value in wishes.items() if value is not None}

    def _default_python(self) -> str:
        """Return the interpreter that the role python_runtime brings where nothing is said."""
        return str(self.knowledge.catalog["python"]["default"])

    def _pins(self, host: str) -> Iterator[tuple[str, str]]:
        """Yield the versions that vllm_build_requirements fixes."""
        for line in self._option(host, REQUIREMENTS) or []:
            found = PIN.match(str(line))
            name = found[1].lower().replace("-", "_") if found else ""
            if found and name in PINNED:
                yield name, found[2]

    def _facts(self, platform: Platform, accelerator: str) -> Any:
        """Return the host as the resolver takes it."""
        given = ("os", "arch", "glibc", "gcc", "python", "page_size", "driver", "firmware")
        more = ("kernel_modules", "fabric_manager")
        facts = {name: getattr(platform, name) for name in (*given, *more)}
        pci = [self._pci(word) for word in chip_words(platform)]
        rows = [row for word in chip_words(platform) for row in self.declared.chips(word)]
        capability = next(
            (r["compute_capability"] for r in rows if "compute_capability" in r), None
        )
        return self.knowledge.module("resolver").Host(
            accelerator=accelerator,
            chips=tuple(dict.fromkeys(word for word in pci if word)),
            compute_capability=capability,
            **facts,
        )

    def _pci(self, word: str) -> str:
        """Return an accelerator's PCI id, where it has one."""
        rows = self.declared.chips(word)
        ids = rows[0]["pci"] if rows else word
        return str((ids[0] if ids else "") if isinstance(ids, list) else ids).lower()

    # What is wrong

    def _vendors(self, judged: Judged) -> Iterator[Problem]:
        """Point at an accelerator that does not belong to the host's group."""
        vendors = {"19e5": "ascend", "10de": "nvidia"}
        for word in chip_words(judged.platform):
            rows = self.declared.chips(word)
            kind = "ascend" if rows and "family" in rows[0] else "nvidia" if rows else ""
            kind = kind or vendors.get(word.lower().partition(":")[0], "")
            if kind and kind != judged.accelerator:
                message = f"is {word}, and the host is in group {judged.accelerator}"
                finding = Finding(("chip",), message, f"move it to group {kind}")
                yield self.scene.problem(PLATFORM, judged.hosts, finding)

    def _bad(self, judged: Judged) -> Iterator[Problem]:
        """Turn each broken pair into a problem; the first one names the nearest set that works."""
        nearest = judged.resolution.nearest
        way = _nearest(nearest) if nearest else ""
        for verdict in judged.resolution.bad:
            name, path = self._blame(judged, verdict)
            yield self._told(
                judged, name, path, verdict, " ".join(filter(None, [verdict.remedy, way]))
            )
            way = ""

    def _told(
        self, judged: Judged, name: str, path: tuple[str, ...], verdict: Any, hint: str
    ) -> Problem:
        row = f" [{verdict.row}: {verdict.source}]" if verdict.row else ""
        words = f"{verdict.left} with {verdict.right}: {verdict.verdict}. {verdict.reason}{row}"
        made = self.scene.problem(name, judged.hosts, Finding(path, words, hint))
        if path and self.declared.is_seen(judged.hosts[0], path[0]):
            seen = f"{path[0]} is as a run last saw it; {PLATFORM} says otherwise where it changed"
            hint = "; ".join(filter(None, [hint, seen]))
        return Problem(words, made.file, made.line, made.hosts, made.option, hint)

    def _blame(self, judged: Judged, verdict: Any) -> tuple[str, tuple[str, ...]]:
        """Return the variable, and the part of it, that a verdict is about."""
        text = f"{verdict.left} | {verdict.right}"
        known = self.scene.inventory.variables[judged.hosts[0]]
        for part in ("driver", "firmware", "cann", "cuda", "glibc", "gcc", "chip", "os"):
            words = {"os": "system ", "cann": "CANN ", "cuda": "CUDA ", "chip": "ascend 9"}
            word = words.get(part, f"{part} ")
            if getattr(judged.platform, part) is not None and word.lower() in text.lower():
                return PLATFORM, (part,)
        if judged.platform.os and any(word in text for word in ("gcc ", "glibc ")):
            return PLATFORM, ("os",)
        for name, words_of in BLAME:
            if name in known and any(word in text for word in words_of):
                return name, ()
        if RELEASE_SET in known:
            return RELEASE_SET, ()
        if judged.release_set:
            return SETTINGS, ("release_set",)
        return (PLATFORM if PLATFORM in known else "vllm_build_version"), ()

    def _refused(self, judged: Judged, message: str) -> Problem:
        """Return a wish that cannot be read as a problem."""
        known = self.scene.inventory.variables[judged.hosts[0]]
        name: str = SETTINGS
        path: tuple[str, ...] = ("release_set",)
        if "release set is called" not in message:
            name, path = _of_message(message, known), ()
        elif RELEASE_SET in known:
            name, path = RELEASE_SET, ()
        made = self.scene.problem(name, judged.hosts, Finding(path, message))
        return Problem(message, made.file, made.line, made.hosts, made.option)

    # What is no error

    def notes(self) -> Iterator[Problem]:
        """Yield the pairs about which no row says anything."""
        for judged in self.judged:
            for verdict in judged.resolution.of("unknown") if judged.resolution else []:
                name, path = self._blame(judged, verdict)
                yield self._told(judged, name, path, verdict, verdict.remedy)

    def unsettled(self) -> list[dict[str, Any]]:
        """Return the pairs that only a host can settle, with the hosts that they are about."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for judged in self.judged:
            for item in judged.resolution.of("unsettled") if judged.resolution else []:
                key = (item.left, item.right, item.reason)
                found.setdefault(key, []).extend(judged.hosts)
        return [
            {"left": left, "right": right, "reason": reason, "hosts": hosts}
            for (left, right, reason), hosts in found.items()
        ]


def _nearest(nearest: Any) -> str:
    """Return the nearest set that works, in words."""
    changes = ", ".join(nearest.changes)
    name = f" (release set {nearest.release_set})" if nearest.release_set else ""
    return f"nearest set that works{name}: {changes}"


def _of_message(message: str, known: Iterable[str]) -> str:
    """Return the variable that the words of an error are about."""
    found = re.match(r"(\w+)(?::| is )", message)
    word = found[1] if found else ""
    if word in known:
        return word
    options = {"vllm": "vllm_build_version", "python": PYTHON_OPTION} | dict.fromkeys(
        GIVEN, PLATFORM
    )
    return options.get(word, REQUIREMENTS if word in PINNED else "vllm_build_version")


# ansible-core and the Pythons


class Pythons:
    """The Pythons of controller and hosts, judged for the ansible-core at hand."""

    def __init__(self, scene: Scene, knowledge: Knowledge, declared: Declared, core: str) -> None:
        self.scene = scene
        self.knowledge = knowledge
        self.declared = declared
        self.core = core

    def problems(self) -> Iterator[Problem]:
        """Yield the Pythons that are known to be too old or too new."""
        mine = controller.python_version()
        verdict = self._judge(mine, "controller_python")
        if verdict.verdict == "bad":
            yield Problem(f"this machine: {verdict.left} with {verdict.right}: {verdict.reason}")
        for python, named, hosts in self._pythons():
            verdict = self._judge(python, "target_python") if python else None
            if verdict and verdict.verdict == "bad" and named:
                yield self._told(verdict, hosts)

    def warnings(self) -> Iterator[Problem]:
        """Yield hosts whose system has a Python that is too old, where another may be there."""
        for python, named, hosts in self._pythons():
            verdict = self._judge(python, "target_python") if python else None
            if verdict and verdict.verdict == "bad" and not named:
                found = self._told(verdict, hosts)
                hint = f"name a newer one with {INTERPRETER}, if there is one. {found.hint}"
                yield Problem(found.message, found.file, found.line, hosts, found.option, hint)

    def unsettled(self) -> list[dict[str, Any]]:
        """Return the hosts whose Python only a scan can tell."""
        lost = [host for python, _, hosts in self._pythons() if not python for host in hosts]
        reason = "The host's Python is not known before the host was scanned."
        left, right = "Python of the host", f"ansible-core {self.core}"
        return [{"left": left, "right": right, "reason": reason, "hosts": lost}] if lost else []

    def _judge(self, python: str, side: str) -> Any:
        judge = self.knowledge.module("resolver_engine").judge_python
        return judge(self.knowledge.catalog, self.core, python, side)

    def _told(self, verdict: Any, hosts: tuple[str, ...]) -> Problem:
        known = self.scene.inventory.variables[hosts[0]]
        path: tuple[str, ...] = ()
        name = INTERPRETER if INTERPRETER in known else PLATFORM
        if name == PLATFORM:
            path = ("python",) if self.declared.platform(hosts[0]).python else ("os",)
        words = f"{verdict.left} with {verdict.right}: bad. {verdict.reason}"
        made = self.scene.problem(name, hosts, Finding(path, words))
        return Problem(words, made.file, made.line, hosts, made.option, verdict.remedy)

    def _pythons(self) -> list[tuple[str, bool, tuple[str, ...]]]:
        """Return each Python (empty: not known), whether it was named, and its hosts."""
        found: dict[tuple[str, bool], list[str]] = {}
        for host in self.scene.hosts:
            found.setdefault(self._python(host), []).append(host)
        return [(python, named, tuple(hosts)) for (python, named), hosts in found.items()]

    def _python(self, host: str) -> tuple[str, bool]:
        platform = self.declared.platform(host)
        if platform.python and not self.declared.is_seen(host, "python"):
            return platform.python, True
        if self.scene.value(host, "ansible_connection") == "local":
            return controller.python_version(), True
        system = self.knowledge.systems.get(platform.os or "", {})
        otherwise = platform.python or str(system.get("python", ""))
        return interpreter_version(self.scene.value(host, INTERPRETER), otherwise)


def interpreter_version(interpreter: Any, of_system: str) -> tuple[str, bool]:
    """Return the version of an interpreter by its path, and whether the path says which it is."""
    text = str(interpreter or "auto")
    if found := re.search(r"python(3\.\d+)$", text) or re.search(r"/python/(3\.\d+)[./]", text):
        return found[1], True
    if text.startswith("auto"):
        return of_system, False
    is_system = re.search(r"^/usr/(bin|libexec)/(python3?|platform-python)$", text)
    return (of_system, bool(of_system)) if is_system else ("", False)
