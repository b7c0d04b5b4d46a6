"""Words and pieces that the tests of ``validate`` share."""

from __future__ import annotations

from typing import Any

A2 = """
vllm_fleet_platform:
  os: openEuler-22.03-SP4
  arch: aarch64
  chip: a2
  devices: 8
"""
SUM = "0" * 64
PYTHON = f"""
python_runtime_source: archive
python_runtime_archive: https://mirror.example/python.tar.gz
python_runtime_archive_sha256: "{SUM}"
"""
SET = "vllm_fleet: {name: demo, release_set: ascend-2026.08}\n"


def told(problems: list[Any]) -> str:
    """Return problems as one text, to look words up in."""
    return "\n".join(f"{p.where()}: {p.message} | {p.hint} | {','.join(p.hosts)}" for p in problems)
