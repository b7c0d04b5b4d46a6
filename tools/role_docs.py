"""Keep a role's three descriptions of its options in agreement.

``meta/argument_specs.yml`` is the reference. ``defaults/main.yml`` must hold exactly the defaults
that it names, and the option tables in ``README.md`` are generated from it.

Usage: role_docs.py [--check]   (without --check the README tables are rewritten)
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
START, END = "<!-- options start -->", "<!-- options end -->"
NOTHING = object()


def load(path: Path) -> Any:
    """Return the YAML document of a file, or an empty mapping where there is none."""
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {} if path.exists() else {}


def flat(options: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every option with its dotted name, sub-options after their parent."""
    for name, option in options.items():
        yield prefix + name, option
        brackets = "[]" if option.get("type") == "list" else ""
        yield from flat(option.get("options", {}), f"{prefix}{name}{brackets}.")


def cell(text: Any) -> str:
    """Return text that fits into one cell of a Markdown table, without Ansible's markup."""
    words = " ".join(text if isinstance(text, list) else [str(text)])
    plain = re.sub(r"\b[A-Z]\(([^)]*)\)", r"`\1`", words)
    return " ".join(plain.split()).replace("|", "\\|")


def row(name: str, option: dict[str, Any]) -> str:
    """Return the table row of one option."""
    kind = option.get("type", "str")
    if kind == "list":
        kind = f"list of {option.get('elements', 'str')}"
    if option.get("choices"):
        kind += ": " + ", ".join(f"`{choice}`" for choice in option["choices"])
    default = option.get("default", NOTHING)
    shown = "" if default is NOTHING else f"`{cell(yaml_inline(default))}`"
    if option.get("required"):
        shown = "**required**"
    return f"| `{name}` | {kind} | {shown} | {cell(option.get('description', ''))} |"


def yaml_inline(value: Any) -> str:
    """Return a value as YAML on one line, as a user would write it."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...").strip()


def tables(specs: dict[str, Any]) -> str:
    """Return the option tables of a role, one for each entry point."""
    parts = []
    for entry, spec in specs.items():
        parts.append(f"### Entry point `{entry}`: {spec['short_description']}\n")
        rows = [row(name, option) for name, option in flat(spec.get("options", {}))]
        head = ["| option | type | default | meaning |", "|---|---|---|---|"]
        parts.append("\n".join(head + rows) + "\n" if rows else "No options.\n")
    return "\n".join(parts)


def disagreements(role: Path) -> Iterator[str]:
    """Yield every point in which specs and defaults of a role differ."""
    specs = load(role / "meta/argument_specs.yml").get("argument_specs")
    if not specs:
        yield f"{role.name}: meta/argument_specs.yml is missing or empty"
        return
    options: dict[str, Any] = {}
    for spec in specs.values():
        options.update(spec.get("options", {}))
    defaults = load(role / "defaults/main.yml")
    for name, option in options.items():
        if not name.startswith(f"{role.name}_"):
            yield f"{role.name}: option {name} does not start with {role.name}_"
        if not option.get("description"):
            yield f"{role.name}: option {name} has no description"
        wanted, seen = option.get("default", NOTHING), defaults.get(name, NOTHING)
        if wanted is not NOTHING and seen is NOTHING:
            yield f"{role.name}: {name} has a default in argument_specs but not in defaults"
        elif wanted is NOTHING and seen is not NOTHING:
            yield f"{role.name}: {name} has a default in defaults but not in argument_specs"
        elif wanted is not NOTHING and wanted != seen:
            yield f"{role.name}: {name} is {seen!r} in defaults, {wanted!r} in argument_specs"
    for name in defaults.keys() - options.keys():
        yield f"{role.name}: {name} is in defaults but not in argument_specs"


def documented(readme: str, specs: dict[str, Any]) -> str:
    """Return the README with its option tables written anew."""
    before, _, rest = readme.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{tables(specs)}\n{END}{after}"


def check_readme(role: Path, write: bool) -> Iterator[str]:
    """Rewrite a role's README tables, or yield what is wrong with them."""
    path = role / "README.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if START not in text or END not in text:
        yield f"{role.name}: README.md lacks the lines {START} and {END}"
        return
    new = documented(text, load(role / "meta/argument_specs.yml")["argument_specs"])
    if new == text:
        return
    if write:
        path.write_text(new, encoding="utf-8")
    else:
        yield f"{role.name}: README.md differs from argument_specs (run `make docs`)"


def main() -> int:
    """Check or rewrite every role; return 1 where something disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    problems: list[str] = []
    roles = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())
    for role in roles:
        found = list(disagreements(role))
        problems += found or check_readme(role, write=not options.check)
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems or not roles else 0


if __name__ == "__main__":
    sys.exit(main())
