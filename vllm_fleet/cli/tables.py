"""Plain tables for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from vllm_fleet.text import clean


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows under a heading, in columns as wide as they need (Chinese counts double)."""
    every = [list(head), *([clean(str(cell)) for cell in row] for row in rows)]
    widths = [max(cell_len(row[column]) for row in every) for column in range(len(head))]
    return "\n".join(_line(row, widths) for row in every)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
    return "  ".join(cells).rstrip()
