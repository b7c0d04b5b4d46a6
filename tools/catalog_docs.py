#!/usr/bin/env python3
"""Write the pages of the documentation that come from the catalog.

    python tools/catalog_docs.py           # write
    python tools/catalog_docs.py --check   # say what differs, for the tests

docs/from-older-guides.md and its Chinese page are written whole; in docs/catalog.md the parts
between the marks ``<!-- name start -->`` and ``<!-- name end -->``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
WRITTEN = "<!-- Written by tools/catalog_docs.py from catalog/old_names.yml. Do not edit. -->"
ENGLISH = """# From older guides

{written}

[中文](from-older-guides.zh-CN.md)

Guides on the net teach names that do not exist, or no longer. `vllm-fleet validate` knows them. A
name is **translated** when its value can be moved into an argument of today as it is: the message
then names this argument. It is **refused** when a person has to decide. Nothing is replaced
silently.
"""
CHINESE = """# 旧指南中的名称

{written}

[English](from-older-guides.md)

网上的指南会教一些不存在或已经取消的名称，`vllm-fleet validate` 能识别它们。
如果其值可以原样移到今天的参数中，则为**可转换**，提示信息会给出该参数；如果需要人来决定，则为**拒绝**。任何名称都不会被悄悄替换。
"""
HEADS = {
    "en": ("Name", "What happens", "Why", "Today"),
    "zh": ("名称", "处理", "原因", "今天的写法"),
}
VERDICTS = {
    "en": {"translated": "translated", "refused": "refused"},
    "zh": {"translated": "可转换", "refused": "拒绝"},
}
KINDS = {
    "en": {
        "argument": "Engine arguments",
        "argument value": "Engine arguments",
        "request field": "Fields of a request",
        "symbol": "Code and files",
        "file": "Code and files",
        "version": "Packages and versions",
        "package": "Packages and versions",
        "path": "Paths and repositories",
        "repository": "Paths and repositories",
    },
    "zh": {
        "argument": "引擎参数",
        "argument value": "引擎参数",
        "request field": "请求字段",
        "symbol": "代码与文件",
        "file": "代码与文件",
        "version": "软件包与版本",
        "package": "软件包与版本",
        "path": "路径与软件仓库",
        "repository": "路径与软件仓库",
    },
}


def load(name: str) -> dict[str, Any]:
    """Return one file of the catalog."""
    document = yaml.safe_load((ROOT / f"catalog/{name}.yml").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def cell(text: Any) -> str:
    """Return a text as the cell of a table."""
    return str(text).replace("|", "\\|").replace("\n", " ").strip()


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """Return a table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell(c) for c in line) + " |" for line in lines)


def old_names_page(language: str) -> str:
    """Return the page of old names in one language."""
    intro = (ENGLISH if language == "en" else CHINESE).format(written=WRITTEN)
    groups: dict[str, list[tuple[Any, ...]]] = {}
    for row in load("old_names")["names"]:
        groups.setdefault(KINDS[language][row["kind"]], []).append(_name_row(row, language))
    parts = [f"## {title}\n\n{table(HEADS[language], rows)}" for title, rows in groups.items()]
    return intro + "\n" + "\n\n".join(parts) + "\n"


def _name_row(row: Mapping[str, Any], language: str) -> tuple[Any, ...]:
    suffix = "_zh" if language == "zh" else ""
    reason = row["reason" + suffix]
    today = row.get("today" + suffix) or row.get("today") or ""
    return f"`{row['name']}`", VERDICTS[language][row["verdict"]], reason, today


def release_sets() -> str:
    """Return the table of release sets."""
    rows = []
    for row in load("release_sets")["sets"]:
        wanted = ", ".join(f"{key} {value}" for key, value in row["wanted"].items())
        rows.append((f"`{row['name']}`", row["status"], wanted, row.get("note", "")))
    return table(("Set", "Status", "Fixes", "Note"), rows)


def releases() -> str:
    """Return the table of the stable releases of vllm-ascend."""
    keys = ("vllm_ascend", "vllm", "cann", "torch", "torch_npu", "triton_ascend", "python")
    rows = [
        tuple(row.get(key, "none") for key in keys)
        for row in load("ascend")["releases"]
        if row["stable"]
    ]
    return table(
        ("vllm-ascend", "vLLM", "CANN", "torch", "torch_npu", "triton-ascend", "Python"), rows
    )


def drivers() -> str:
    """Return the table of CANN and drivers."""
    rows = [
        (row["cann"], row["paired"], row["good"].replace("|", ", "),
         row.get("bad", "").replace("|", ", "), "yes" if row.get("inferred") else "")
        for row in load("ascend")["cann_hdk"]
    ]  # fmt: skip
    return table(("CANN", "Released with", "Good", "Bad", "Inferred"), rows)


def flags() -> str:
    """Return the line that says which releases' flags are known."""
    document = load("engine_flags/vllm")
    known = ", ".join(document["versions"])
    return f"{len(document['flags'])} flags of these releases: {known}."


TABLES = {
    "release sets": release_sets,
    "releases": releases,
    "drivers": drivers,
    "flags": flags,
}


def catalog_page() -> str:
    """Return docs/catalog.md with its generated parts renewed."""
    text = (DOCS / "catalog.md").read_text(encoding="utf-8")
    for name, make in TABLES.items():
        start, end = f"<!-- {name} start -->\n", f"<!-- {name} end -->"
        if start not in text or end not in text:
            raise SystemExit(f"docs/catalog.md: the marks of {name!r} are missing")
        head, rest = text.split(start, 1)
        text = f"{head}{start}{make()}\n{end}{rest.split(end, 1)[1]}"
    return text


def pages() -> dict[Path, str]:
    """Return every page with its text."""
    return {
        DOCS / "from-older-guides.md": old_names_page("en"),
        DOCS / "from-older-guides.zh-CN.md": old_names_page("zh"),
        DOCS / "catalog.md": catalog_page(),
    }


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    check = parser.parse_args().check
    stale = []
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.relative_to(ROOT))
            if not check:
                path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{name}: {'differs from the catalog' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
