"""The JSON Schema of an inventory's variables, from the roles' options and our own settings.

It is for files of variables (group_vars, host_vars); docs/validate.md says how editors use it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from vllm_fleet.inventory import yamls
from vllm_fleet.inventory.schema import VARIABLES, FleetSettings

DRAFT = "https://json-schema.org/draft/2020-12/schema"
TYPES: Mapping[str, Any] = {
    "str": {"type": "string"},
    "path": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array"},
    "dict": {"type": "object"},
}
TEMPLATE = {"type": "string", "pattern": r"\{[{%]"}


def text(root: Path) -> str:
    """Return the schema as text."""
    return json.dumps(build(root / "roles"), indent=2, ensure_ascii=False) + "\n"


def build(roles: Path) -> dict[str, Any]:
    """Return the schema of variables for a folder of roles."""
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    own = {"vllm_fleet": (FleetSettings, "The fleet's settings, in group all.")} | dict(VARIABLES)
    for name, (kind, words) in own.items():
        schema = TypeAdapter(kind).json_schema(ref_template="#/$defs/{model}")
        definitions |= schema.pop("$defs", {})
        properties[name] = {"description": words, "anyOf": [schema, {"$ref": "#/$defs/template"}]}
    for file in sorted(roles.glob("*/meta/argument_specs.yml")):
        properties |= _role(file)
    return {
        "$schema": DRAFT,
        "title": "Variables of a vllm-fleet inventory",
        "type": "object",
        "properties": properties,
        "$defs": {**definitions, "template": {**TEMPLATE, "description": "Settled at run."}},
    }


def _role(file: Path) -> dict[str, Any]:
    """Return the options of a role, of all its entry points."""
    entries = yamls.read(file)["argument_specs"]
    found: dict[str, Any] = {}
    for entry in sorted(entries, key=lambda name: name == "main"):
        options = entries[entry].get("options") or {}
        found |= {name: _option(spec) for name, spec in options.items()}
    return found


def _option(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return one option."""
    schema = _value(spec)
    described = {"description": _words(spec.get("description", ""))}
    if "default" in spec:
        described["default"] = spec["default"]
    if not schema:
        return described
    return {**described, "anyOf": [schema, {"$ref": "#/$defs/template"}]}


def _value(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the value of an option may be."""
    kind = spec.get("type", "str")
    schema = dict(TYPES.get(kind, {}))
    if kind == "list":
        inner = {"type": spec.get("elements", "raw"), "options": spec.get("options"),
                 "choices": spec.get("choices")}  # fmt: skip
        item = _value(inner)
        return (
            {**schema, "items": {"anyOf": [item, {"$ref": "#/$defs/template"}]}} if item else schema
        )
    if spec.get("choices"):
        schema["enum"] = list(spec["choices"])
    options = spec.get("options") or {}
    if options:
        schema["properties"] = {name: _option(inner) for name, inner in options.items()}
        schema["additionalProperties"] = False
        schema["required"] = sorted(n for n, inner in options.items() if inner.get("required"))
    return schema


def _words(description: Any) -> str:
    """Return a description as one text."""
    return " ".join(description) if isinstance(description, list) else str(description)
