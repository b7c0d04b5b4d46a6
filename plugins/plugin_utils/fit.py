# SPDX-License-Identifier: GPL-3.0-or-later
"""Will a model fit: weights, KV cache and overhead against devices, memory and fraction.

Pure. An estimate on the safe side, checked against published cases (tests/unit/test_fit.py).
Verdicts: ``fits`` (the asked number of sequences at the asked length, all at once), ``starts``
(the engine starts and serves, but some sequences wait for room), ``too big``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.model_shape import (
    SCHEMES,
    FitError,
    Model,
    read,
)

__all__ = ["Devices", "FitError", "Layout", "Load", "Report", "check", "read"]

GIB = 1024**3
FITS, STARTS, TOO_BIG = "fits", "starts", "too big"
ORDER = (FITS, STARTS, TOO_BIG)
KV_BYTES = {"auto": 2.0, "bf16": 2.0, "bfloat16": 2.0, "float16": 2.0, "fp8": 1.0, "int8": 1.0}
# What the runtime, captured graphs and collective buffers take on each device, in bytes.
RUNTIME = 1.5 * GIB
# Values of 16 bits that live at once for each token of a step: in units of the hidden size, and of
# the feed-forward size.
LIVE_HIDDEN, LIVE_FEED = 10, 4


@dataclass(frozen=True)
class Devices:
    """The devices of one serving group: nodes, devices on each, memory of each."""

    count: int
    memory_gib: float
    fraction: float = 0.92
    per_node: int | None = None

    @property
    def node(self) -> int:
        """Return the number of devices on one node."""
        return self.per_node or self.count

    @property
    def usable(self) -> float:
        """Return the bytes that the engine may use on one device."""
        return self.memory_gib * self.fraction * GIB


@dataclass(frozen=True)
class Load:
    """What is asked of the group: sequences at once (all ranks together), and their length."""

    context: int
    concurrency: int = 1
    batched_tokens: int = 8192
    kv_dtype: str = "auto"
    # Keep the layer for multi-token prediction in memory too.
    mtp: bool = False


@dataclass(frozen=True)
class Layout:
    """One way to spread a model over the devices, and what it takes on each of them (GiB)."""

    tp: int
    pp: int
    dp: int
    # Devices that the experts are shared out over; 1 is no expert parallelism.
    ep: int
    verdict: str
    weights: float
    kv_cache: float
    overhead: float
    usable: float
    # Sequences of the asked length that have room at once, over all ranks.
    room: int

    @property
    def used(self) -> float:
        """Return what the asked load takes on one device."""
        return self.weights + self.kv_cache + self.overhead

    def as_dict(self) -> dict[str, Any]:
        """Return the layout for a JSON document."""
        return {k: round(v, 2) if isinstance(v, float) else v for k, v in asdict(self).items()}

    def arguments(self) -> dict[str, Any]:
        """Return the engine arguments that give this layout."""
        found: dict[str, Any] = {"tensor-parallel-size": self.tp}
        if self.pp > 1:
            found["pipeline-parallel-size"] = self.pp
        if self.dp > 1:
            found["data-parallel-size"] = self.dp
        if self.ep > 1:
            found["enable-expert-parallel"] = True
        return found


@dataclass(frozen=True)
class Report:
    """The verdict, the ways that work (best first), and the numbers behind them."""

    verdict: str
    reason: str
    scheme: str
    parameters: int
    weights_gib: float
    layouts: tuple[Layout, ...]
    # The nearest miss, where nothing works.
    closest: Layout | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the report for a JSON document."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "scheme": self.scheme,
            "parameters": self.parameters,
            "weights_gib": round(self.weights_gib, 1),
            "layouts": [layout.as_dict() for layout in self.layouts],
            "closest": self.closest.as_dict() if self.closest else None,
        }


def check(
    config: Mapping[str, Any], devices: Devices, load: Load, scheme: str | None = None
) -> Report:
    """Return whether the model of a config.json fits on the devices under the load."""
    model = read(config, scheme)
    scheme = model.scheme
    if scheme not in SCHEMES:
        raise FitError(f"no scheme is called {scheme}; one of: {', '.join(SCHEMES)}")
    if load.kv_dtype not in KV_BYTES:
        raise FitError(f"KV cache type {load.kv_dtype} is not covered: {', '.join(KV_BYTES)}")
    layouts = [_judge(model, scheme, devices, load, *sizes) for sizes in _sizes(model, devices)]
    layouts.sort(key=lambda it: (ORDER.index(it.verdict), -it.room, it.pp, it.tp))
    good = tuple(layout for layout in layouts if layout.verdict != TOO_BIG)
    total = sum(model.weight_bytes(scheme).values()) / GIB
    verdict = good[0].verdict if good else TOO_BIG
    return Report(
        verdict=verdict,
        reason=_reason(verdict, layouts, devices, load),
        scheme=scheme,
        parameters=model.parameters.total,
        weights_gib=total,
        layouts=good,
        closest=None if good else min(layouts, key=lambda it: it.weights + it.overhead,
                                      default=None),
    )  # fmt: skip


def _reason(verdict: str, layouts: list[Layout], devices: Devices, load: Load) -> str:
    if not layouts:
        return "No parallel sizes divide this model over the devices."
    best = layouts[0]
    if verdict == TOO_BIG:
        best = min(layouts, key=lambda it: it.weights + it.overhead)
        return (
            f"At best {best.weights:.1f} GiB of weights and {best.overhead:.1f} GiB of overhead "
            f"meet {best.usable:.1f} GiB on each device; one sequence of {load.context} tokens "
            "has no room."
        )
    room = f"room for {best.room} sequences of {load.context} tokens, {load.concurrency} asked"
    sizes = f"{devices.count} devices, {best.weights:.1f} of {best.usable:.1f} GiB are weights"
    return f"{room} ({sizes})."


def _sizes(model: Model, devices: Devices) -> Iterator[tuple[int, int, int, int]]:
    """Return the parallel sizes (tp, pp, dp, ep) that divide the model over the devices.

    Tensor parallelism stays on one node; nodes are joined by pipeline stages, or for models with
    experts by data parallelism with the experts shared out over all.
    """
    nodes = max(1, devices.count // devices.node)
    for tp in range(1, devices.node + 1):
        if devices.node % tp or not _divides(model, tp):
            continue
        for pp in sorted({1, nodes}):
            rest = devices.count // (tp * pp)
            if rest < 1 or tp * pp * rest != devices.count or pp > model.layers:
                continue
            for ep in sorted({1, tp * rest} if model.moe else {1}):
                if _blocks_fit(model, tp, ep):
                    yield tp, pp, rest, ep


def _divides(model: Model, tp: int) -> bool:
    """Say whether heads and feed-forward layers divide by ``tp``."""
    heads = model.heads % tp == 0
    kv = model.attention == "mla" or model.kv_heads % tp == 0 or tp % model.kv_heads == 0
    return heads and kv and model.intermediate % tp == 0


def _blocks_fit(model: Model, tp: int, ep: int) -> bool:
    """Say whether each part of an FP8 matrix is made of whole blocks of its scales."""
    size = model.expert_size if model.moe else model.intermediate
    if not model.fp8_block or ep > 1:
        return True
    return size % tp == 0 and (size // tp) % model.fp8_block == 0


def _judge(
    model: Model, scheme: str, devices: Devices, load: Load, tp: int, pp: int, dp: int, ep: int
) -> Layout:
    """Return one layout with what it takes on the fullest device."""
    weights = _weights(model, scheme, load, tp, pp, ep)
    overhead = RUNTIME + _activations(model, load, tp)
    one = model.kv_bytes(load.context, tp, KV_BYTES[load.kv_dtype]) / pp
    free = devices.usable - weights - overhead
    room = max(0, int(free // one)) * dp
    asked = -(-load.concurrency // dp)
    verdict = FITS if room >= asked * dp else (STARTS if room >= dp else TOO_BIG)
    return Layout(
        tp=tp,
        pp=pp,
        dp=dp,
        ep=ep,
        verdict=verdict,
        weights=weights / GIB,
        kv_cache=asked * one / GIB,
        overhead=overhead / GIB,
        usable=devices.usable / GIB,
        room=room,
    )


def _weights(model: Model, scheme: str, load: Load, tp: int, pp: int, ep: int) -> float:
    """Return the bytes of weights on the fullest device."""
    parts = model.weight_bytes(scheme)
    stages = -(-model.layers // pp) / model.layers
    total = stages * (
        (parts["attention"] + parts["dense"]) / tp
        + parts["experts"] * _expert_share(model, tp, ep)
        + parts["small"]
    )
    total += parts["embedding"] / tp
    if load.mtp and model.draft is not None:
        draft = model.weight_bytes(scheme, model.draft)
        total += (draft["attention"] + draft["dense"]) / tp
        total += draft["experts"] * _expert_share(model, tp, ep) + draft["small"]
    return total


def _expert_share(model: Model, tp: int, ep: int) -> float:
    """Return the part of the experts on one device: whole experts where they are shared out."""
    if not model.moe:
        return 0.0
    return -(-model.experts // ep) / model.experts if ep > 1 else 1 / tp


def _activations(model: Model, load: Load, tp: int) -> float:
    """Return the bytes that a step's values take: the residual stream, one layer, the logits."""
    feed = max(model.intermediate, model.expert_size * max(1, model.active_experts))
    values = load.batched_tokens * (LIVE_HIDDEN * model.hidden + LIVE_FEED * feed / tp) * 2
    logits = max(1, load.concurrency) * model.vocabulary / tp * 4 * 2
    return values + logits
