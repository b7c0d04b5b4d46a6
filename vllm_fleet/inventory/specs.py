"""The options of the roles, from their ``meta/argument_specs.yml``, and checks against them.

Types are strict: Ansible would turn the string "no" into false in one place and take it for true
in another, and YAML turns 0644 into 420 without a word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from vllm_fleet.errors import ConfigError, Problem
from vllm_fleet.inventory import yamls
from vllm_fleet.inventory.hints import did_you_mean
from vllm_fleet.inventory.model import Locked, is_template

Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Option:
    """One option of a role, or a part of one."""

    type: str = "str"
    required: bool = False
    choices: tuple[Any, ...] = ()
    elements: str = ""
    options: Mapping[str, Option] = field(default_factory=dict)

    def element(self) -> Option:
        """Return what each element of a list must be."""
        kind = self.elements or ("dict" if self.options else "raw")
        return Option(type=kind, choices=self.choices, options=self.options)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a value; ``path`` leads to the part that is meant."""

    path: Path_
    message: str
    hint: str = ""


def option(spec: Mapping[str, Any]) -> Option:
    """Return an option from its entry in argument_specs."""
    return Option(
        type=str(spec.get("type", "str")),
        required=bool(spec.get("required", False)),
        choices=tuple(spec.get("choices") or ()),
        elements=str(spec.get("elements", "")),
        options={name: option(inner) for name, inner in (spec.get("options") or {}).items()},
    )


def load_specs(roles: Path) -> dict[str, dict[str, Option]]:
    """Return the options of every role in a folder of roles."""
    specs = {}
    for file in sorted(roles.glob("*/meta/argument_specs.yml")):
        entries = _content(file).get("argument_specs") or {}
        specs[file.parent.parent.name] = _options(entries)
    return specs


def _options(entries: Mapping[str, Any]) -> dict[str, Option]:
    """Return the options of all entry points; only the main one can require some."""
    found: dict[str, Option] = {}
    for entry in sorted(entries, key=lambda name: name == "main"):
        for name, spec in ((entries[entry] or {}).get("options") or {}).items():
            found[name] = option(spec if entry == "main" else {**spec, "required": False})
    return found


def _content(file: Path) -> dict[str, Any]:
    try:
        return yamls.read(file) or {}
    except yaml.YAMLError as error:
        problem = Problem(str(error).replace("\n", " "), file=str(file))
        raise ConfigError("the collection is damaged", [problem]) from error


def check(wanted: Option, value: Any, path: Path_ = ()) -> Iterator[Finding]:
    """Yield what is wrong with a value; what only a run can settle is let through."""
    if is_template(value) or isinstance(value, Locked):
        return
    if value is None:
        yield Finding(path, "has no value", "give one, or remove the line")
        return
    wrong = _type_problem(wanted.type, value)
    if wrong is not None:
        yield Finding(path, *wrong)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from check(wanted.element(), item, (*path, number))
    elif isinstance(value, Mapping):
        yield from _check_mapping(wanted, value, path)
    elif wanted.choices and value not in wanted.choices:
        allowed = ", ".join(map(str, wanted.choices))
        yield Finding(path, f"is {value!r}, allowed: {allowed}", did_you_mean_value(value, wanted))


def did_you_mean_value(value: Any, wanted: Option) -> str:
    """Return the choice that was probably meant."""
    hint = did_you_mean(str(value), map(str, wanted.choices))
    return hint if hint.startswith("did") else ""


def _check_mapping(wanted: Option, value: Mapping[str, Any], path: Path_) -> Iterator[Finding]:
    """Yield what is wrong inside a mapping whose keys are known."""
    if not wanted.options:
        return
    for name, item in value.items():
        if name in wanted.options:
            yield from check(wanted.options[name], item, (*path, name))
        else:
            yield Finding((*path, name), "is no option here", did_you_mean(name, wanted.options))
    for name, inner in wanted.options.items():
        if inner.required and name not in value:
            yield Finding(path, f"lacks {name}, which is required")


KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a string"),
    "path": ((str,), "a path"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "list": ((list,), "a list"),
    "dict": ((Mapping,), "a mapping"),
    "bytes": ((str, int), "a size"),
    "bits": ((str, int), "a size"),
}


def _type_problem(kind: str, value: Any) -> tuple[str, str] | None:
    """Return message and hint where a value has the wrong type."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"became {value}, which is no value", "quote it: a hash or MAC looks like a number"
    if kind not in KINDS:
        return None
    types, words = KINDS[kind]
    is_kind = isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))
    if is_kind:
        return None
    return f"must be {words}, and is {describe(value)}", _type_hint(kind, value)


def _type_hint(kind: str, value: Any) -> str:
    """Return how a value of the wrong type is probably to be written."""
    if kind in {"str", "path"} and isinstance(value, (bool, int, float)):
        return "quote it"
    if kind == "bool" and isinstance(value, str):
        return "write true or false without quotes (in an INI file: True or False)"
    if kind in {"int", "float"} and isinstance(value, str):
        return "write a number without quotes"
    if kind == "list" and isinstance(value, str):
        return f"write [{value}]"
    return ""


def describe(value: Any) -> str:
    """Return a value and its type in words."""
    names = ((bool, "the boolean"), (int, "the number"), (float, "the number"), (str, "the string"))
    for kind, words in names:
        if isinstance(value, kind):
            return f"{words} {str(value).lower() if kind is bool else repr(value)}"
    return "a list" if isinstance(value, list) else "a mapping"
