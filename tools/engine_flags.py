#!/usr/bin/env python3
"""Write catalog/engine_flags/vllm.yml: every engine flag of every vLLM release that was read.

    python tools/engine_flags.py vllm-0.23.0.tar.gz vllm-0.33.0.tar.gz ...   # add or renew releases
    python tools/engine_flags.py --compare-help help.txt vllm-0.23.0.tar.gz  # with real --help=all
    python tools/engine_flags.py --compare-parser parser.json vllm-0.23.0.tar.gz  # see
                                                                   # tools/engine_parser_dump.py

Arguments are published source archives or wheels (the version is read from the file name), or
``VERSION=FOLDER``. Nothing of vLLM is imported: the argument parser is followed in the source.
Archives are fetched with ``pip download --no-deps --no-binary vllm vllm==VERSION`` in an
environment that has vLLM's build requirements, with VLLM_TARGET_DEVICE=empty.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml
from engine_source import Field, Found, Hint, Source, Unknown, read_archive

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "catalog/engine_flags/vllm.yml"
SIZES = {
    "max_num_batched_tokens",
    "max_num_scheduled_tokens",
    "max_num_queued_tokens",
    "kv_cache_memory_bytes",
    "safetensors_prefetch_block_size",
}
Option = dict[str, Any]
Table = dict[str, Option]


def field_option(field: Field) -> Option:
    """Return what vLLM makes of a field: mirrors ``_compute_kwargs`` of its arg_utils.py."""
    option: Option = {"default": field.default, "bounds": field.bounds}
    kinds = {hint.kind for hint in field.hints}
    literals = [hint for hint in field.hints if hint.kind == "literal"]
    if "config" in kinds:
        option["type"] = "json"
    elif kinds == {"bool", "str", "none"}:
        option.update(type="str", nargs="?")
    elif "bool" in kinds:
        option["action"] = "BooleanOptionalAction"
    elif literals:
        _literal(option, [v for hint in literals for v in hint.args], "str" in kinds)
    elif kinds & {"list", "tuple", "set"}:
        _collection(option, next(h for h in field.hints if h.kind in ("list", "tuple", "set")))
    elif "int" in kinds:
        option["type"] = _integer(field.name)
    elif "float" in kinds:
        option["type"] = "float"
    elif "dict" in kinds:
        option["type"] = "json or str" if kinds & {"str", "other"} else "json"
    else:
        option["type"] = "str"
    return option


def _integer(name: str) -> str:
    """Return the integer type of a field: some take 1k, 2M, one also takes auto."""
    if name == "max_model_len":
        return "size or auto"
    return "size" if name in SIZES else "int"


def _literal(option: Option, values: list[Any], open_ended: bool) -> None:
    """Add the type and the choices of a Literal; with ``str`` beside it, they are only known."""
    settled = [v for v in values if not isinstance(v, Unknown)]
    option["type"] = "int" if settled and isinstance(settled[0], int) else "str"
    if len(settled) == len(values):
        option["known" if open_ended else "choices"] = sorted(settled)


def _collection(option: Option, hint: Hint) -> None:
    """Add the item type and the count of a list, tuple or set."""
    items = [arg for arg in hint.args if arg is not Ellipsis]
    kinds = {h.kind for h in items[0]} if items else {"str"}
    fixed = hint.kind == "tuple" and Ellipsis not in hint.args
    option["nargs"] = len(items) if fixed else "+"
    option["type"] = next(iter(kinds)) if kinds in ({"int"}, {"float"}) else "str"
    literal = next((h for item in items for h in item if h.kind == "literal"), None)
    if literal is not None:
        _literal(option, list(literal.args), open_ended=False)


class FlagReader:
    """Follows the code that fills the argument parser, and collects the flags."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.flags: dict[str, Option] = {}

    def read(self) -> dict[str, Option]:
        """Return every flag by its long name."""
        candidates = self.source.modules_with("def make_arg_parser")
        module = next(m for m in candidates if "FrontendArgs" in self.source.names(m))
        self._run(module, self.source.names(module)["make_arg_parser"], {})
        return self.flags

    def _run(self, module: str, function: ast.AST, scope: dict[str, Any]) -> None:
        assert isinstance(function, ast.FunctionDef)
        for node in function.body:
            self._statement(module, node, scope)

    def _statement(self, module: str, node: ast.stmt, scope: dict[str, Any]) -> None:
        if isinstance(node, ast.If):
            for inner in [*node.body, *node.orelse]:
                self._statement(module, inner, scope)
        elif isinstance(node, ast.For):
            self._loop(module, node, scope)
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            self._assign(module, node, scope)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self._delete(module, target, scope)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._call(module, node.value, scope)

    def _loop(self, module: str, node: ast.For, scope: dict[str, Any]) -> None:
        """Run a loop over a table of options, or over a list written out in the source."""
        names = [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]
        if isinstance(node.iter, ast.Call) and ast.unparse(node.iter).endswith(".items()"):
            assert isinstance(node.iter.func, ast.Attribute)
            rows: list[Any] = list(self._value(module, node.iter.func.value, scope).items())
        elif isinstance(node.iter, ast.List):
            tuples = [item for item in node.iter.elts if isinstance(item, (ast.Tuple, ast.List))]
            rows = [[self._value(module, e, scope) for e in item.elts] for item in tuples]
        else:
            raise SystemExit(f"{module}: a loop that this tool cannot follow: {ast.unparse(node)}")
        for row in rows:
            inner = {**scope, **dict(zip(names, row, strict=True))}
            for statement in node.body:
                self._statement(module, statement, inner)

    def _assign(self, module: str, node: ast.Assign | ast.AugAssign, scope: dict[str, Any]) -> None:
        target = node.target if isinstance(node, ast.AugAssign) else node.targets[0]
        value = self._value(module, node.value, scope)
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, ast.Subscript):
            option = self._value(module, target.value, scope)
            key = self._value(module, target.slice, scope)
            if isinstance(option, dict):
                adds = isinstance(node, ast.AugAssign) and isinstance(value, list)
                option[key] = option.get(key, []) + value if adds else self._typed(key, value)

    def _typed(self, key: str, value: Any) -> Any:
        """Return a value; the source text of a type becomes the name that we give this type."""
        return _type_name(value) if key == "type" else value

    def _delete(self, module: str, target: ast.AST, scope: dict[str, Any]) -> None:
        if isinstance(target, ast.Subscript):
            option = self._value(module, target.value, scope)
            if isinstance(option, dict):
                option.pop(self._value(module, target.slice, scope), None)

    def _value(self, module: str, node: ast.AST, scope: dict[str, Any]) -> Any:
        """Return an expression's value; tables of options are followed by reference."""
        if isinstance(node, ast.Name) and node.id in scope:
            return scope[node.id]
        if isinstance(node, ast.Subscript):
            table = self._value(module, node.value, scope)
            key = self._value(module, node.slice, scope)
            return table[key] if isinstance(table, dict) and key in table else Unknown(str(key))
        if isinstance(node, ast.Call):
            return self._call(module, node, scope)
        if isinstance(node, ast.Dict) and None in node.keys:
            return self._merged(module, node, scope)
        simple = {k: v for k, v in scope.items() if not isinstance(v, (Unknown, Found))}
        return self.source.value(module, node, simple)

    def _merged(self, module: str, node: ast.Dict, scope: dict[str, Any]) -> Option:
        """Return ``{**option, "default": None}``."""
        merged: Option = {}
        for key, item in zip(node.keys, node.values, strict=True):
            value = self._value(module, item, scope)
            merged.update(value if key is None else {self._value(module, key, scope): value})
        return merged

    def _call(self, module: str, node: ast.Call, scope: dict[str, Any]) -> Any:
        name = ast.unparse(node.func)
        method = name.rsplit(".", 1)[-1]
        if method == "add_argument":
            return self._add(module, node, scope)
        if name == "get_kwargs":
            return self._table(module, node.args[0], scope)
        if method in ("add_cli_args", "_customize_cli_kwargs"):
            return self._method(module, node, method, scope)
        if method in ("append", "remove", "pop", "update") and isinstance(node.func, ast.Attribute):
            return self._change(module, node, method, scope)
        simple = {k: v for k, v in scope.items() if not isinstance(v, (Unknown, Found))}
        return self.source.value(module, node, simple)

    def _change(self, module: str, node: ast.Call, method: str, scope: dict[str, Any]) -> Any:
        """Follow a change of a list or of an option: append, remove, pop, update."""
        assert isinstance(node.func, ast.Attribute)
        target = self._value(module, node.func.value, scope)
        values = [self._value(module, arg, scope) for arg in node.args]
        if method == "pop" and isinstance(target, dict):
            return target.pop(values[0], values[1] if len(values) > 1 else None)
        if isinstance(target, (list, dict)) and not isinstance(values[0], Unknown):
            getattr(target, method)(*values)
        return None

    def _table(self, module: str, node: ast.AST, scope: dict[str, Any]) -> Table:
        found = scope.get(node.id) if isinstance(node, ast.Name) else None
        found = found or self.source.find(module, ast.unparse(node))
        if found is None:
            raise SystemExit(f"{module}: cannot find the class {ast.unparse(node)}")
        return {f.name: field_option(f) for f in self.source.fields(found)}

    def _method(self, module: str, node: ast.Call, method: str, scope: dict[str, Any]) -> Any:
        """Run a class method that adds arguments or customizes a table."""
        assert isinstance(node.func, ast.Attribute)
        owner = ast.unparse(node.func.value)
        if owner == "super()":
            start = self.source.bases(scope["__class__"])
        else:
            found = scope.get(owner) or self.source.find(module, owner)
            start = [found] if found else []
        home = next((f for f in (self._home(c, method) for c in start) if f), None)
        if home is None:
            raise SystemExit(f"{module}: cannot find {ast.unparse(node.func)}")
        function = _function(home, method)
        assert function is not None
        inner = {"cls": scope.get("cls", start[0]) if owner == "super()" else start[0]}
        inner["__class__"] = home
        names = [arg.arg for arg in function.args.args if arg.arg not in ("cls", "self")]
        values = [self._value(module, arg, scope) for arg in node.args]
        inner.update(dict(zip(names, values, strict=False)))
        self._run(home.module, function, inner)
        return values[0] if values else None

    def _home(self, found: Found, method: str) -> Found | None:
        """Return the class that defines ``method``: this one or the nearest base."""
        if _function(found, method):
            return found
        homes = (self._home(base, method) for base in self.source.bases(found))
        return next((home for home in homes if home), None)

    def _add(self, module: str, node: ast.Call, scope: dict[str, Any]) -> None:
        names = self._flag_names(module, node, scope)
        long = [n for n in names if n.startswith("--")]
        if not long:
            return
        option: Option = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                more = self._value(module, keyword.value, scope)
                if not isinstance(more, dict):
                    raise SystemExit(f"{module}: cannot follow {ast.unparse(node)}: {more}")
                option.update(more)
            elif keyword.arg == "type":
                option["type"] = _type_name(_type_source(keyword.value, scope))
            elif keyword.arg == "action":
                option["action"] = ast.unparse(keyword.value).rsplit(".", 1)[-1].strip("'\"")
            elif keyword.arg not in ("help", "metavar", "dest"):
                option[keyword.arg] = self._value(module, keyword.value, scope)
        self.flags[long[0]] = flag_row(option, [n for n in names if n != long[0]])

    def _flag_names(self, module: str, node: ast.Call, scope: dict[str, Any]) -> list[str]:
        names: list[str] = []
        for arg in node.args:
            inner = arg.value if isinstance(arg, ast.Starred) else arg
            value = self._flag_name(module, inner, scope)
            names.extend(value if isinstance(value, list) else [value])
        return names

    def _flag_name(self, module: str, node: ast.AST, scope: dict[str, Any]) -> Any:
        """Return a flag's name; ``--{key.replace('_', '-')}`` is the one computed form."""
        if isinstance(node, ast.JoinedStr) and "replace('_', '-')" in ast.unparse(node):
            return "--" + scope["key"].replace("_", "-")
        return self._value(module, node, scope)


def _type_source(node: ast.AST, scope: dict[str, Any]) -> Any:
    """Return what an argument's ``type`` says: its text, or what a loop variable holds."""
    if isinstance(node, ast.Name) and node.id in scope:
        return scope[node.id]
    return Unknown(ast.unparse(node))


def _function(found: Found, name: str) -> ast.FunctionDef | None:
    """Return a method that a class itself defines, if it does."""
    assert isinstance(found.node, ast.ClassDef)
    methods = (n for n in found.node.body if isinstance(n, ast.FunctionDef) and n.name == name)
    return next(methods, None)


def _type_name(value: Any) -> str:
    """Return our name for the converter that the source gives as ``type``."""
    text = value.text if isinstance(value, Unknown) else str(value)
    if "json.loads" in text:
        return "json"
    if "human_readable_int" in text:
        return "size or auto" if "auto" in text else "size"
    match = re.fullmatch(r"(?:optional_type\()?(int|float|str|bool)\)?", text)
    return match.group(1) if match else "str"


def flag_row(option: Option, aliases: list[str]) -> Option:
    """Return an option as a row of the catalog."""
    action = str(option.get("action", "")).rsplit(".", 1)[-1]
    row: Option = {}
    if aliases:
        row["aliases"] = aliases
    if action == "BooleanOptionalAction":
        row.update(type="bool", negation=True)
    elif action == "store_true":
        row["type"] = "flag"
    else:
        row["type"] = option.get("type", "str")
    if action == "append":
        row["repeats"] = True
    for key in ("nargs", "choices", "known"):
        if option.get(key) is not None and not isinstance(option[key], Unknown):
            row[key] = option[key]
    return row | _default_and_bounds(option)


def _default_and_bounds(option: Option) -> Option:
    """Return the default (or the expression that it hangs on), the bounds and the deprecation."""
    row: Option = {}
    default = option.get("default", False if option.get("action") == "store_true" else None)
    if isinstance(default, Unknown):
        row["default_from"] = default.text
    else:
        row["default"] = default
    bounds = {k: v for k, v in option.get("bounds", {}).items() if not isinstance(v, Unknown)}
    if bounds:
        row["range"] = bounds
    if option.get("deprecated") is True:
        row["deprecated"] = True
    return row


# -- history -----------------------------------------------------------------------------------


def version_key(version: str) -> tuple[int, ...]:
    """Order releases (the archives that we read are releases, never candidates)."""
    return tuple(int(n) for n in re.findall(r"\d+", version))


def merge(per_version: dict[str, dict[str, Option]]) -> dict[str, list[Option]]:
    """Return each flag's history: one row for each stretch of releases in which it is the same."""
    history: dict[str, list[Option]] = {}
    order = sorted(per_version, key=version_key)
    for index, version in enumerate(order):
        for name, row in per_version[version].items():
            rows = history.setdefault(name, [])
            same = rows and {k: v for k, v in rows[-1].items() if k not in ("first", "last")} == row
            if same and rows[-1]["last"] == order[index - 1]:
                rows[-1]["last"] = version
            else:
                rows.append({"first": version, "last": version, **row})
    return dict(sorted(history.items()))


def split(history: dict[str, list[Option]], versions: list[str]) -> dict[str, dict[str, Option]]:
    """Return the flags of each release again: the inverse of ``merge``."""
    result: dict[str, dict[str, Option]] = {version: {} for version in versions}
    for name, rows in history.items():
        for row in rows:
            spec = {k: v for k, v in row.items() if k not in ("first", "last")}
            low, high = version_key(row["first"]), version_key(row["last"])
            for version in versions:
                if low <= version_key(version) <= high:
                    result[version][name] = spec
    return result


class _Dumper(yaml.SafeDumper):
    """Writes YAML that yamllint accepts: sequences are indented, no anchors."""

    def increase_indent(self, flow: bool = False, *_indentless: bool, **_more: bool) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, *_data: Any) -> bool:
        return True


def write(per_version: dict[str, dict[str, Option]], path: Path) -> None:
    """Write the catalog file."""
    document = {
        "source": "published source archives of vllm, read by tools/engine_flags.py",
        "versions": sorted(per_version, key=version_key),
        "flags": merge(per_version),
    }
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    head = "---\n# Written by tools/engine_flags.py from vLLM's published source. Do not edit.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + text, encoding="utf-8")


def load(path: Path) -> dict[str, dict[str, Option]]:
    """Return the flags of each release that the catalog file holds."""
    if not path.exists():
        return {}
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return split(document["flags"], document["versions"])


def read(argument: str) -> tuple[str, dict[str, Option]]:
    """Return the version and the flags of one archive."""
    version, _, folder = argument.rpartition("=")
    path = Path(folder)
    if not version:
        found = re.match(r"vllm(?:_cpu)?-(\d+(?:\.\d+)*)", path.name)
        if found is None:
            raise SystemExit(f"{path.name}: no version in the file name; say VERSION={path}")
        version = found.group(1)
    return version, FlagReader(Source(read_archive(path))).read()


# -- against the real parser -------------------------------------------------------------------


def help_flags(text: str) -> set[str]:
    """Return the long flags that a real ``--help=all`` lists in its option column."""
    names: set[str] = set()
    for line in text.splitlines():
        if re.match(r"\s{2,4}-", line):
            names.update(re.findall(r"(?<![\w-])(--[a-z0-9][\w-]*)", line))
    return names


def compare_help(flags: dict[str, Option], text: str) -> int:
    """Print how the flags that were read differ from a real help text; return their number."""
    ours = set(flags)
    for name, row in flags.items():
        ours.update(a for a in row.get("aliases", []) if a.startswith("--"))
        if row.get("negation"):
            ours.add("--no-" + name.removeprefix("--"))
    real = help_flags(text) - {"--help"}
    print(f"read: {len(ours)} names, real: {len(real)}")
    for name in sorted(real - ours):
        print(f"only in the real parser: {name}")
    for name in sorted(ours - real):
        print(f"only read here: {name}")
    return len(real ^ ours)


def parser_differences(flags: dict[str, Option], real: list[dict[str, Any]]) -> list[str]:
    """Return where flags that were read differ from the real parser's: one line each."""
    rows = {next(n for n in row["names"] if n.startswith("--")): row for row in real}
    found = [f"only in the real parser: {name}" for name in sorted(set(rows) - set(flags))]
    found += [f"only read here: {name}" for name in sorted(set(flags) - set(rows))]
    for name in sorted(set(rows) & set(flags)):
        ours, theirs = _comparable(flags[name]), _comparable_action(name, rows[name])
        found += [
            f"{name}: {key} read as {ours[key]}, really {theirs[key]}"
            for key in ours
            if ours[key] != theirs[key]
        ]
    return found


def _comparable(row: Option) -> Option:
    """Return what both sides know of a flag."""
    return {
        "aliases": sorted(row.get("aliases", [])),
        "switch": row["type"] if row["type"] in ("bool", "flag") and "nargs" not in row else "",
        "values": row.get("nargs"),
        "choices": _without_none(row.get("choices", [])),
    }


def _comparable_action(name: str, row: dict[str, Any]) -> Option:
    names = [n for n in row["names"] if n != name and not n.startswith("--no-")]
    kinds = {"BooleanOptionalAction": "bool", "_StoreTrueAction": "flag"}
    switch = kinds.get(row["action"], "")
    return {
        "aliases": sorted(names),
        "switch": switch,
        "values": None if switch else row["nargs"],
        "choices": _without_none(row["choices"] or []),
    }


def _without_none(choices: list[Any]) -> list[Any]:
    return [choice for choice in choices if choice not in (None, "None")]


def main() -> int:
    """Read the archives named on the command line and write the catalog file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("archives", nargs="+", metavar="ARCHIVE")
    parser.add_argument("--compare-help", type=Path, help="output of the real --help=all")
    parser.add_argument("--compare-parser", type=Path, help="output of engine_parser_dump.py")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    if options.compare_help:
        flags = read(options.archives[0])[1]
        return 1 if compare_help(flags, options.compare_help.read_text(encoding="utf-8")) else 0
    if options.compare_parser:
        real = json.loads(options.compare_parser.read_text(encoding="utf-8"))
        differences = parser_differences(read(options.archives[0])[1], real)
        print(f"{len(real)} flags, {len(differences)} differences", *differences, sep="\n")
        return 1 if differences else 0
    per_version = load(options.output)
    for archive in options.archives:
        version, flags = read(archive)
        per_version[version] = flags
        print(f"vllm {version}: {len(flags)} flags")
    write(per_version, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
