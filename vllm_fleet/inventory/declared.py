"""What the inventory says of each host beside the roles' options: platform, release set, models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vllm_fleet.errors import Problem
from vllm_fleet.inventory.hints import closest
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.model import Locked, is_template
from vllm_fleet.inventory.scene import Scene
from vllm_fleet.inventory.schema import VARIABLES, FleetSettings, Platform, read_variable
from vllm_fleet.inventory.specs import Finding

PLATFORM, RELEASE_SET = "vllm_fleet_platform", "vllm_fleet_release_set"
MODELS, ARTIFACTS = "vllm_fleet_models", "vllm_fleet_artifacts_dir"
NOTHING = Platform()
PCI = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{4}$", re.IGNORECASE)
# Words of npu-smi that mean more than one generation.
SHOWN_WRONG = {
    "910b": "910B is taken for the Atlas A2; npu-smi shows first-generation cards so, too",
    "ascend910b": "910B is taken for the Atlas A2; npu-smi shows first-generation cards so, too",
}


class Declared:
    """The variables ``vllm_fleet_*`` of every host, read once for hosts that say the same."""

    def __init__(
        self,
        scene: Scene,
        knowledge: Knowledge,
        settings: FleetSettings | None = None,
        seen: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.scene = scene
        self.knowledge = knowledge
        self.settings = settings
        self._seen = {host: seen_platform(facts) for host, facts in (seen or {}).items()}
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.notes: list[Problem] = []
        self._values: dict[str, dict[str, Any]] = {name: {} for name in VARIABLES}
        for name in VARIABLES:
            self._read(name)
        self.warnings += self._contradictions()

    def _read(self, name: str) -> None:
        for value, hosts in self.scene.distinct(name):
            known = settled(value)
            if known is None:
                continue
            read, findings = read_variable(name, known)
            self.problems += [self.scene.problem(name, hosts, item) for item in findings]
            self._values[name].update(dict.fromkeys(hosts, read))
            if name == PLATFORM and read is not None:
                self._check_platform(read, hosts)

    def _check_platform(self, platform: Platform, hosts: tuple[str, ...]) -> None:
        """Check what the catalog has to say of a platform's names."""
        if platform.os and platform.os not in self.knowledge.systems:
            self._unknown_system(platform.os, hosts)
        for number, chip in enumerate(chip_words(platform)):
            path = ("chip", number) if isinstance(platform.chip, list) else ("chip",)
            if plain(chip) in SHOWN_WRONG:
                finding = Finding(path, SHOWN_WRONG[plain(chip)], "write the PCI id (19e5:d802)")
                self.notes.append(self.scene.problem(PLATFORM, hosts, finding))
            elif not self.chips(chip) and not PCI.match(chip):
                hint = did_you_mean_chip(chip, self.knowledge)
                finding = Finding(path, f"{chip} is no accelerator of the catalog", hint)
                self.problems.append(self.scene.problem(PLATFORM, hosts, finding))

    def _unknown_system(self, key: str, hosts: tuple[str, ...]) -> None:
        """Tell a misspelt system from one that the catalog does not know."""
        by_word = {plain(known): known for known in self.knowledge.systems}
        meant = by_word.get(plain(key)) or closest(key, self.knowledge.systems, 0.7)
        hint = f"did you mean {meant}?" if meant else ""
        finding = Finding(("os",), f"{key} is no system of the catalog", hint)
        found = self.problems if plain(key) in by_word else self.warnings
        found.append(self.scene.problem(PLATFORM, hosts, finding))

    def platform(self, host: str) -> Platform:
        """Return what is said of a host's platform; what is not said is as a run last saw it."""
        said = self._said(host)
        seen = self._seen.get(host)
        return said if seen is None else Platform(**{**seen, **said.model_dump(exclude_none=True)})

    def is_seen(self, host: str, part: str) -> bool:
        """Say whether a part of a platform is known from a run only."""
        return part in self._seen.get(host, {}) and getattr(self._said(host), part) is None

    def _said(self, host: str) -> Platform:
        found: Platform | None = self._values[PLATFORM].get(host)
        return found or NOTHING

    def _contradictions(self) -> Iterator[Problem]:
        """Point at parts of a platform that a run saw otherwise."""
        for host in self.scene.hosts:
            said = self._said(host).model_dump(exclude_none=True)
            for part, value in self._seen.get(host, {}).items():
                # Which Python is meant, a newer line of the inventory may have changed.
                if part != "python" and said.get(part, value) != value:
                    words = f"is {said[part]}, and a run last saw {value}"
                    yield self.scene.problem(PLATFORM, (host,), Finding((part,), words))

    def release_set(self, host: str) -> str | None:
        """Return the release set of a host: its own, else the fleet's."""
        own: str | None = self._values[RELEASE_SET].get(host)
        if own is None and self.settings and not is_template(self.settings.release_set):
            return self.settings.release_set
        return own

    def models(self, host: str) -> Mapping[str, Any]:
        """Return what the controller knows of the models of a host."""
        found: Mapping[str, Any] | None = self._values[MODELS].get(host)
        return found or {}

    def artifacts_dir(self, host: str) -> str | None:
        """Return the controller's folder with the vendor's files."""
        found: str | None = self._values[ARTIFACTS].get(host)
        return found

    def chips(self, word: str) -> list[Mapping[str, Any]]:
        """Return the catalog's rows for an accelerator: by PCI id, name, family or product."""
        return [row for names, row in chip_names(self.knowledge) if plain(word) in names]


def seen_platform(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the fact vllm_fleet_host says of a platform."""
    parts = {name: identity.get(name) for name in ("arch", "glibc", "page_size")}
    parts["os"] = (identity.get("os") or {}).get("key")
    parts["python"] = (identity.get("python") or {}).get("version")
    return {name: value for name, value in parts.items() if value}


def settled(value: Any) -> Any:
    """Return a value without the parts that only a run can settle; None where all of it is one."""
    if value is None or is_template(value) or isinstance(value, Locked):
        return None
    if isinstance(value, Mapping):
        kept = {key: settled(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None}
    if isinstance(value, list):
        return [item for item in map(settled, value) if item is not None]
    return value


def plain(word: str) -> str:
    """Return a word as all its spellings share it."""
    return "".join(letter for letter in word.lower() if letter.isalnum())


def chip_words(platform: Platform) -> list[str]:
    """Return the accelerators of a platform as they are written."""
    if platform.chip is None:
        return []
    return [platform.chip] if isinstance(platform.chip, str) else list(platform.chip)


def chip_names(knowledge: Knowledge) -> Iterator[tuple[set[str], Mapping[str, Any]]]:
    """Yield each accelerator of the catalog with the words that mean it."""
    for row in knowledge.catalog["ascend"]["chips"]:
        short = row["name"].split(" (")[0]
        # Ascend 910 is the word for two generations, so it means none.
        names = {row["name"], row["pci"], row["family"]}
        names |= set() if short == "Ascend 910" else {short, short.removeprefix("Ascend ")}
        names |= {product["name"] for product in row["products"]}
        yield {plain(name) for name in names}, row
    for row in knowledge.catalog["nvidia"]["gpus"]:
        words = {*row["pci"], row["name"], f"NVIDIA {row['name']}"}
        yield {plain(name) for name in words}, row


def did_you_mean_chip(word: str, knowledge: Knowledge) -> str:
    """Return the accelerator that was probably meant."""
    names = [row["name"] for _, row in chip_names(knowledge)]
    names += [row["family"] for row in knowledge.catalog["ascend"]["chips"]]
    by_word = {name.lower(): name for name in names}
    begun = [name for name in sorted(by_word) if name.startswith(word.lower())]
    meant = begun[0] if begun else closest(word.lower(), by_word, 0.5)
    return f"did you mean {by_word[meant]}? A PCI id is written like 19e5:d802" if meant else ""
