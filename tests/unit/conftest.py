"""A fleet in a folder, checked as ``validate`` checks it, against this checkout's roles."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vllm_fleet.inventory.preflight import Preflight, Wanted, inspect

HOSTS = """\
all:
  children:
    {group}:
      hosts:
        n1:
        n2:
    serving: {{children: {{{group}: }}}}
    builders: {{hosts: {{n1: }}}}
"""
SETTINGS = "vllm_fleet: {name: demo}\n"
ASCEND = "vllm_build_source: https://mirror.example/sources/\n"
Judge = Callable[..., Preflight]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Return a function that checks a fleet: variables of group all, and more files."""

    def judge(
        variables: str = "",
        group: str = "cpu",
        settings: str = SETTINGS,
        files: dict[str, str] | None = None,
        **wanted: Any,
    ) -> Preflight:
        folder = tmp_path / "inventory"
        more = ASCEND if group == "ascend" and "vllm_build_source" not in variables else ""
        text = settings + more + textwrap.dedent(variables)
        given = {"hosts.yml": HOSTS.format(group=group), "group_vars/all.yml": text} | (files or {})
        for name, content in given.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return inspect(Wanted((str(folder),), **wanted))

    return judge
