"""How values are written: what YAML and INI change in silence, and secrets in clear text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from vllm_fleet.engine.scrub import URL_CREDENTIAL, is_secret_name
from vllm_fleet.errors import Problem
from vllm_fleet.inventory.marks import EXTRA, Definition, ini_lines
from vllm_fleet.inventory.model import is_template
from vllm_fleet.inventory.scene import Scene
from vllm_fleet.inventory.schema import VARIABLES

OCTAL = re.compile(r"^[-+]?0[0-7_]+$")
INT_TAG, FLOAT_TAG = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
DECIMAL = re.compile(r"^\d+\.\d+$")
VERSION_NAME = re.compile(
    r"version|release|(^|_)(os|cann|cuda|driver|firmware|torch|vllm)(_|$)", re.I
)
# Names that end in _key and are no secrets, and names of places where a secret is kept.
PUBLIC = re.compile(
    r"public|authorized|host_?key|gpg|rpm|sort|primary|(^|_)key_?(id|name|size)$", re.I
)
KEPT_ELSEWHERE = re.compile(
    r"(file|path|dir|url|lookup|command|mechanism|name|id|length|size|limit|count|budget|ttl|timeout"
    r"|prompt)s?$", re.I,
)  # fmt: skip
SECRET_OPTIONS = ("vllm_service_secrets",)
HOW = "encrypt it (ansible-vault encrypt_string), or take it from a lookup"
# One scalar of a value: the keys that lead to it, the text, its line, and its node in YAML.
Scalar = tuple[tuple[str, ...], str, int, yaml.ScalarNode | None]


class Written:
    """Checks values as they stand in the inventory's files."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def problems(self) -> Iterator[Problem]:
        """Yield everything that is wrong with how values are written."""
        for definition in self.scene.marks.definitions:
            for keys, text, line, node in scalars(definition):
                if trap := self._trap(definition.name, node):
                    yield told(
                        definition,
                        keys,
                        line,
                        f"{text} {trap}",
                        "quote it, or write the plain number",
                    )
                elif changed := self._version(definition.name, keys, text, node):
                    yield told(definition, keys, line, *changed)
                if definition.scope != EXTRA and (
                    secret := clear_secret(definition.name, keys, text, node)
                ):
                    yield told(definition, keys, line, secret, HOW)
        yield from self._cut_values()

    def warnings(self) -> Iterator[Problem]:
        """Yield values of INI files that mean something else than they seem to."""
        for file, text in self.scene.marks.ini.items():
            for number, section, line in ini_lines(text):
                name, _, value = line.partition("=")
                if section.endswith(":vars") and re.search(r"\s#", value) and not quoted(value):
                    words = f"{name.strip()}: the comment becomes part of the value"
                    yield Problem(words, file, number, hint="put the comment on a line of its own")
                elif not section.endswith((":vars", ":children")) and quote_inside(line):
                    words = "quotes inside a value are taken away"
                    yield Problem(words, file, number, hint="quote the whole value: name='...'")

    def _trap(self, name: str, node: yaml.ScalarNode | None) -> str:
        """Return what YAML makes of an unquoted scalar that looks like something else."""
        if node is None or node.style or node.tag not in {INT_TAG, FLOAT_TAG}:
            return ""
        if ":" in node.value:
            return f"becomes the number {yaml.safe_load(node.value)} (read as base 60)"
        is_ours = name in self.scene.options or name in VARIABLES
        if is_ours and node.tag == INT_TAG and OCTAL.match(node.value):
            return f"becomes the number {yaml.safe_load(node.value)} (read as octal)"
        return ""

    def _version(
        self, name: str, keys: tuple[str, ...], text: str, node: yaml.ScalarNode | None
    ) -> tuple[str, str] | None:
        """Return message and hint where a version loses its form: 20.10 is the number 20.1."""
        is_checked = name in self.scene.options or name in VARIABLES
        plain = node is None or not node.style
        if is_checked or not plain or not DECIMAL.match(text):
            return None
        named = next((key for key in (name, *keys) if VERSION_NAME.search(key)), "")
        if not named:
            return None
        return f"{text} becomes the number {float(text)}", "quote this value: it is a version"

    def _cut_values(self) -> Iterator[Problem]:
        """Yield lines of INI files whose values end at a # in the middle of a word."""
        for file, text in self.scene.marks.ini.items():
            for number, section, line in ini_lines(text):
                if section.endswith(":children"):
                    continue
                cut = cut_number if section.endswith(":vars") else cut_at_hash
                if name := cut(line):
                    words = (
                        f"{name}: an unquoted # cuts the value, and the rest of the line is lost"
                    )
                    yield Problem(words, file, number, option=name, hint="quote the value")


def scalars(definition: Definition) -> Iterator[Scalar]:
    """Yield every scalar of a definition."""
    if definition.node is None:
        text = definition.text
        yield (), text if not quoted(text) else text[1:-1], definition.line, None
        return
    yield from _scalars(definition.node, ())


def _scalars(node: yaml.Node, keys: tuple[str, ...]) -> Iterator[Scalar]:
    if isinstance(node, yaml.ScalarNode):
        yield keys, node.value, node.start_mark.line + 1, node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item, keys)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _scalars(value, (*keys, str(key.value)))


def told(
    definition: Definition, keys: tuple[str, ...], line: int, message: str, hint: str
) -> Problem:
    """Return a finding with the place of the scalar that it is about."""
    label = ".".join([definition.name, *keys])
    return Problem(f"{label}: {message}", definition.file, line, option=definition.name, hint=hint)


def clear_secret(name: str, keys: tuple[str, ...], text: str, node: yaml.ScalarNode | None) -> str:
    """Say that a scalar is a secret in clear text; the text itself is never told."""
    if node is not None and (node.tag.startswith("!") or node.tag.endswith((":bool", ":null"))):
        return ""
    if not text.strip() or is_template(text) or text.startswith("$ANSIBLE_VAULT"):
        return ""
    if URL_CREDENTIAL.search(text):
        return "holds a password in an address, in clear text"
    if name in SECRET_OPTIONS:
        return "is a secret in clear text"
    last = (name, *keys)[-1]
    if text.isdigit() and "pass" not in last.lower():
        return ""
    return "is a secret in clear text" if is_secret(last) else ""


def is_secret(name: str) -> bool:
    """Say whether a name tells that its value itself is a secret."""
    plain = name.replace("-", "_")
    if KEPT_ELSEWHERE.search(plain) or PUBLIC.search(plain):
        return False
    return is_secret_name(plain) or plain.lower().endswith(
        ("_key", "_pass", "_passwd", "_credential")
    )


def quoted(text: str) -> bool:
    """Say whether a text of an INI file is quoted as a whole."""
    return len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"


def cut_at_hash(line: str) -> str:
    """Return the name of the value that an unquoted # inside a word cuts, if one does."""
    quote, before, word = "", " ", ""
    for letter in line:
        if not quote and letter == "#":
            return word.partition("=")[0] if not before.isspace() else ""
        if letter in "\"'" and quote in ("", letter):
            quote = "" if quote else letter
        word = "" if letter.isspace() and not quote else word + letter
        before = letter
    return ""


def cut_number(line: str) -> str:
    """Return the name of a group's variable of which only a number before a # is left."""
    name, _, value = line.partition("=")
    return name.strip() if re.match(r"\s*[-+]?[\d.]+#", value) else ""


def quote_inside(line: str) -> bool:
    """Say whether a quote begins in the middle of a value (Ansible takes it away)."""
    quote, before = "", " "
    for letter in line:
        if not quote and letter == "#":
            return False
        if letter in "\"'" and quote in ("", letter):
            if not quote and before not in "= \t":
                return True
            quote = "" if quote else letter
        before = letter
    return False
