"""The sources of a host's variables in Ansible's order, with values that may be shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_fleet.engine.scrub import MASK, URL_CREDENTIAL
from vllm_fleet.inventory.hints import closest
from vllm_fleet.inventory.marks import Definition
from vllm_fleet.inventory.model import Vaulted
from vllm_fleet.inventory.precedence import defaults, rendered
from vllm_fleet.inventory.scene import Scene
from vllm_fleet.inventory.written import SECRET_OPTIONS, is_secret


@dataclass(frozen=True)
class Line:
    """One variable of a host: its sources, the winner first, and what is odd about it."""

    name: str
    sources: list[dict[str, Any]]
    hint: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it for a JSON document."""
        return {"name": self.name, "sources": self.sources, "hint": self.hint}


def lines(scene: Scene, roles: Path, host: str, variable: str = "") -> list[Line]:
    """Return one variable of a host, or all that the inventory gives it."""
    names = [variable] if variable else scene.precedence.names(host)
    return [_line(scene, roles, host, name) for name in names]


def _line(scene: Scene, roles: Path, host: str, name: str) -> Line:
    ranked = scene.precedence.sources(host, name)
    found = [_source(source.definition, source.kind) for source in ranked]
    has = name in scene.inventory.variables[host]
    hint = ""
    if has and not ranked:
        # An encrypted file, or a program; from the former nothing may be shown.
        place = {"file": scene.inventory.sources[0], "line": 0}
        found = [{"value": MASK, "kind": "no file that can be read as text", **place}]
    elif ranked and is_odd(scene.value(host, name), found[0]["value"]):
        hint = "the value that Ansible has is another one: a file that could not be read wins"
    found += [_source(item, f"default of role {item.scope}") for item in defaults(roles, name)]
    for number, source in enumerate(found):
        source["wins"] = number == 0
    return Line(name, found, hint)


def _source(definition: Definition, kind: str) -> dict[str, Any]:
    value = masked(definition.name, rendered(definition.node, definition.text))
    return {"value": value, "kind": kind, "file": definition.file, "line": definition.line}


def is_odd(seen: Any, told: Any) -> bool:
    """Say whether a plain value differs from the one that Ansible has."""
    plain = isinstance(seen, (int, float, str)) and isinstance(told, (int, float, str))
    if not plain or isinstance(seen, Vaulted) or told == MASK or str(told).startswith("("):
        return False
    return str(seen).strip() != str(told).strip("\"'").strip() and type(seen) is type(told)


def masked(name: str, value: Any) -> Any:
    """Return a value without what is secret in it."""
    if isinstance(value, dict):
        hide = name in SECRET_OPTIONS
        return {k: masked(name if hide else str(k), item) for k, item in value.items()}
    if isinstance(value, list):
        return [masked(name, item) for item in value]
    if isinstance(value, Vaulted) or ((is_secret(name) or name in SECRET_OPTIONS) and value):
        return MASK
    return URL_CREDENTIAL.sub(rf"\1:{MASK}", value) if isinstance(value, str) else value


def unknown(word: str, known: Iterable[str]) -> str:
    """Return the hint for a name that is not there."""
    meant = closest(word, known, 0.6)
    return f"did you mean {meant}?" if meant else ""
