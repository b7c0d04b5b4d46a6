# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell an NPU's family from what a host shows of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def classify(
    catalog: Mapping[str, Any],
    pci: str | None = None,
    name: str = "",
    memory_mb: int | None = None,
    hbm_mb: int | None = None,
) -> str | None:
    """Return the family of an NPU: by its PCI id, else by memory, and by the name at the last.

    A first-generation card calls itself 910B in npu-smi. It has 32 GB of HBM *and* memory of its
    own (a total that is not 0); no card of the Atlas A2 or A3 shows that.
    """
    if pci:
        rows = catalog["chips"]
        return next((r["family"] for r in rows if r["pci"] == pci.lower()[:9]), None)
    return _by_name(name.replace(" ", "").lower().removeprefix("ascend"), memory_mb, hbm_mb)


def _by_name(word: str, memory_mb: int | None, hbm_mb: int | None) -> str | None:
    """Return the family by the name's word and the two totals of npu-smi."""
    if word.startswith("950"):
        return "a5"
    if word.startswith("310"):
        return {"310p": "310p", "310b": "310b"}.get(word[:4], "310")
    if not word.startswith("910"):
        return None
    if memory_mb and hbm_mb:
        return "910a"
    if word in ("910a", "910proa", "910prob"):
        return "910a"
    if word == "910b" and memory_mb is None:
        return None
    if word.startswith("910b"):
        return "a2"
    return "a3" if word in ("910", "910c") else None
