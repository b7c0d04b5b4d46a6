"""Whether an instance's model fits on its devices, where config.json and the devices are known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from vllm_fleet.inventory.declared import Declared, chip_words
from vllm_fleet.inventory.knowledge import Knowledge
from vllm_fleet.inventory.resolution import Judged
from vllm_fleet.inventory.specs import Path_

SIZES = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
}
EXPERTS = "enable-expert-parallel"
# What a check has to say: the list it goes to, the part of the instance, message and hint.
Says = tuple[str, Path_, str, str]


class Fitting:
    """Judges instances by what the inventory says of models and platforms."""

    def __init__(self, knowledge: Knowledge, declared: Declared) -> None:
        self.declared = declared
        self.fit = knowledge.module("fit")

    def judge(self, instance: Mapping[str, Any], judged: Judged) -> Iterator[Says]:
        """Yield what there is to say of one instance; nothing where its model is not declared."""
        facts = self.declared.models(judged.hosts[0]).get(str(instance.get("model")))
        if facts is None:
            return
        config, why = (
            read_config(facts.config) if isinstance(facts.config, str) else (facts.config, "")
        )
        devices = self._devices(instance, judged)
        if config is None:
            yield "problems", ("model",), f"cannot be judged for size: {why}", ""
        elif devices is None:
            words = "cannot be judged for size: vllm_fleet_platform does not say"
            yield "notes", ("model",), f"{words} chip (or memory_gib) and devices", ""
        else:
            asked = arguments_of(instance)
            yield from self._sized(config, facts.scheme, devices, asked)

    def _devices(self, instance: Mapping[str, Any], judged: Judged) -> Any:
        """Return the devices of an instance; None where they are not known."""
        platform = judged.platform
        rows = [row for word in chip_words(platform) for row in self.declared.chips(word)]
        sizes = (rows[0].get("memory_gib") or rows[0].get("memory_gb") or []) if rows else []
        memory = platform.memory_gib or (sizes[0] if len(sizes) == 1 else None)
        wanted = instance.get("devices", "all")
        count = len(wanted) if isinstance(wanted, list) else platform.devices
        if memory is None or not count:
            return None
        fraction = instance.get("memory_fraction")
        share = {"fraction": float(fraction)} if isinstance(fraction, (int, float)) else {}
        return self.fit.Devices(count, float(memory), **share)

    def _sized(
        self, config: Mapping[str, Any], scheme: str | None, devices: Any, asked: Mapping[str, Any]
    ) -> Iterator[Says]:
        """Judge the sizes that are asked for: the engine uses that many devices, no more."""
        sizes = {key: number_of(asked.get(flag)) or 1 for key, flag in SIZES.items()}
        count = sizes["tp"] * sizes["pp"] * sizes["dp"]
        words = " x ".join(f"{SIZES[key]} {value}" for key, value in sizes.items() if value > 1)
        if count > devices.count:
            message = f"ask for {count} devices ({words}), and the instance has {devices.count}"
            yield "problems", ("arguments",), message, ""
            return
        load = self._load(config, asked, sizes["dp"])
        used = self.fit.Devices(count, devices.memory_gib, devices.fraction)
        try:
            report = self.fit.check(config, used, load, scheme)
            whole = self.fit.check(config, devices, load, scheme)
        except self.fit.FitError as error:
            yield "notes", ("model",), f"cannot be judged for size: {error}", ""
            return
        yield from tell(report, whole, sizes, bool(asked.get(EXPERTS)), words)

    def _load(self, config: Mapping[str, Any], asked: Mapping[str, Any], ranks: int) -> Any:
        """Return what is asked of the instance: how many sequences at once, and how long."""
        length = number_of(asked.get("max-model-len"))
        context = length or int(config.get("max_position_embeddings", 4096))
        batched = number_of(asked.get("max-num-batched-tokens"))
        # The limit of sequences counts for each data-parallel rank.
        return self.fit.Load(
            context=context,
            concurrency=(number_of(asked.get("max-num-seqs")) or 1) * ranks,
            kv_dtype=str(asked.get("kv-cache-dtype") or "auto"),
            mtp=isinstance(asked.get("speculative-config"), Mapping),
            **({"batched_tokens": batched} if batched else {}),
        )


def tell(
    report: Any, whole: Any, sizes: Mapping[str, int], experts: bool, words: str
) -> Iterator[Says]:
    """Yield the verdict for the asked sizes; where it is bad, which sizes would work."""
    mine = [item for item in report.layouts if has_sizes(item, sizes, experts)]
    ways = (
        " ".join(f"{k}: {v}" for k, v in whole.layouts[0].arguments().items())
        if whole.layouts
        else ""
    )
    if mine:
        best = mine[0]
        room = f"{best.verdict}, with room for {best.room} sequences of the asked length at once"
        used = f"{best.weights:.1f} of {best.usable:.1f} GiB on each device are weights"
        yield "notes", ("model",), f"{room} ({used})", ""
    elif whole.verdict == "too big":
        yield "problems", ("model",), f"is too big for these devices. {whole.reason}", ""
    elif report.verdict == "too big":
        asked = f"with {words}" if words else "on one device, and the arguments ask for no more"
        yield (
            "problems",
            ("model",),
            f"does not fit {asked}. {report.reason}",
            f"this works: {ways}",
        )
    else:
        yield (
            "notes",
            ("model",),
            f"cannot be judged for these sizes ({words})",
            f"this works: {ways}",
        )


def has_sizes(layout: Any, sizes: Mapping[str, int], experts: bool) -> bool:
    """Say whether a layout has the sizes that were asked for."""
    same = all(getattr(layout, key) == value for key, value in sizes.items())
    return same and (layout.ep > 1) is (experts and layout.tp * layout.dp > 1 and layout.ep > 0)


@lru_cache
def read_config(name: str) -> tuple[Mapping[str, Any] | None, str]:
    """Return the content of a config.json on the controller, or why there is none."""
    path = Path(name).expanduser()
    path = path / "config.json" if path.is_dir() else path
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    except ValueError as error:
        return None, f"{path} is no JSON: {error}"
    return (content, "") if isinstance(content, dict) else (None, f"{path} holds no mapping")


def arguments_of(instance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an instance under the long names of their flags."""
    short = {**SIZES, "ep": EXPERTS}
    names = ((flag_name(name), value) for name, value in (instance.get("arguments") or {}).items())
    return {short.get(name, name): value for name, value in names}


def flag_name(name: object) -> str:
    """Return a flag as all its spellings share it."""
    return str(name).lstrip("-").replace("_", "-")


def number_of(value: Any) -> int | None:
    """Return a whole number, also one written like 8k; None where it is none."""
    text = str(value).strip()
    factor = {"k": 10**3, "m": 10**6, "K": 2**10, "M": 2**20}.get(text[-1:], 1)
    digits = text[:-1] if factor > 1 else text
    return int(digits) * factor if digits.isdigit() else None
