#!/usr/bin/env python3
"""Write docs/doctor.md from catalog/findings.yml.

python tools/doctor_docs.py           # write
python tools/doctor_docs.py --check   # say whether it differs, for the tests
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/doctor.md"
INTRO = """# What the doctor finds

<!-- Written by tools/doctor_docs.py from catalog/findings.yml. Do not edit. -->

```
vllm-fleet doctor -i my-fleet                    # every host
vllm-fleet doctor -i my-fleet --limit npu-01     # one host
vllm-fleet doctor -i my-fleet --json             # one JSON document; with -v also what was read
ansible-playbook -i my-fleet playbooks/doctor.yml
```

The doctor contacts the hosts, reads, and changes nothing. First a probe in plain `sh` looks at the
login and at the interpreters, so that a host without a usable Python gets a finding, and not a
traceback; where another interpreter of the host works, the examination goes on with that one. Then
one module reads the rest. Each tool of a vendor is started by its absolute path, in the C locale,
with a known environment and under a time limit. The rules are applied on the controller. Hosts are
examined at the same time, and one that does not answer holds nobody up.

A finding has a stable code, what was seen, what it means, and the fix.

| exit code | means |
|---|---|
| 0 | every host was examined, and nothing was found |
| 1 | usage, inventory or configuration error: no host was contacted |
| 2 | findings |
| 3 | a host was reached, but the examination broke off, or its result is unknown |
| 4 | a host could not be reached |

Where several apply, 3 wins over 4, and 4 over 2; the JSON carries every count. Hosts that were
reached get their findings in each case.

Known limits: a kernel log is not read in containers, where it is another machine's; file systems
over the network are not asked for their room, since their server may hang; the room of a file
system is called short below 2 GiB and 5 %.
"""
WORDS = {"error": "error 错误", "warning": "warning 警告"}


def load() -> list[dict[str, str]]:
    """Return the rows of the catalog."""
    text = (ROOT / "catalog/findings.yml").read_text(encoding="utf-8")
    rows: list[dict[str, str]] = yaml.safe_load(text)["findings"]
    return rows


def page(rows: list[dict[str, str]]) -> str:
    """Return the whole page."""
    return "\n".join([INTRO, *_index(rows), *_sections(rows)])


def _index(rows: list[dict[str, str]]) -> Iterator[str]:
    yield f"There are {len(rows)} findings.\n"
    yield "| code | what | 说明 |\n|---|---|---|"
    for row in rows:
        yield f"| [{row['code']}](#{row['code']}) | {_cell(row['title'])} | {row['title_zh']} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sections(rows: list[dict[str, str]]) -> Iterator[str]:
    group = ""
    for row in rows:
        if row["group"] != group:
            group = row["group"]
            yield f"## {group}\n"
        yield _section(row)


def _section(row: dict[str, Any]) -> str:
    lines = [
        f"### {row['code']}\n",
        f"**{row['title']}** ({row['title_zh']}) — {WORDS[row['severity']]}\n",
        f"{row['meaning']}\n",
        f"Fix: {row['fix']}\n",
    ]
    if "journal" in row:
        lines.append(f"Looked for in the journal of an instance in trouble: `{row['journal']}`\n")
    return "\n".join(lines)


def main() -> int:
    """Write the page, or say whether it differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    text = page(load())
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if options.check:
        sys.stdout.write("docs/doctor.md differs from catalog/findings.yml (run `make docs`)\n")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
