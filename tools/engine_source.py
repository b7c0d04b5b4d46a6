"""Read vLLM's source without importing it: names, constants, type hints, fields of its classes.

Used by ``tools/engine_flags.py``. Everything works on syntax trees; what a tree cannot tell (an
environment variable, a list that plugins fill) comes back as ``Unknown`` with its source text.
"""

from __future__ import annotations

import ast
import itertools
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUILTINS = {"bool", "int", "float", "str", "dict", "list", "tuple", "set", "bytes"}
WRAPPERS = {"SkipValidation", "InitVar", "Annotated", "Final", "Required", "SerializeAsAny"}
UNIONS = {"Union", "Optional"}
OPERATORS = {"Callable", "Type"}


@dataclass(frozen=True)
class Unknown:
    """A value that the source does not settle."""

    text: str


@dataclass(frozen=True)
class Hint:
    """One type of a union: its kind, and what stands in its brackets."""

    kind: str
    args: tuple[Any, ...] = ()


@dataclass
class Found:
    """A name's definition: a class or an expression, and the module that holds it."""

    module: str
    node: ast.AST


@dataclass
class Field:
    """One field of a configuration class."""

    name: str
    hints: list[Hint]
    default: Any
    bounds: dict[str, Any] = field(default_factory=dict)


def read_archive(path: Path) -> dict[str, str]:
    """Return the Python sources in a source archive, a wheel or an unpacked folder, by module."""
    pairs: Iterator[tuple[str, bytes]]
    if path.is_dir():
        pairs = ((str(p.relative_to(path)), p.read_bytes()) for p in path.rglob("*.py"))
    elif path.suffix in (".whl", ".zip"):
        pairs = _zip_members(path)
    else:
        pairs = _tar_members(path)
    return {name: text.decode("utf-8", "replace") for name, text in _modules(pairs)}


def _zip_members(path: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                yield name, archive.read(name)


def _tar_members(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            handle = archive.extractfile(member) if member.name.endswith(".py") else None
            if handle is not None:
                yield member.name, handle.read()


def _modules(pairs: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Name members as modules of the package vllm; leave out everything else."""
    for name, text in pairs:
        parts = Path(name).with_suffix("").parts
        root = next((i for i, part in enumerate(parts[:2]) if part == "vllm"), None)
        if root is not None:
            yield ".".join(p for p in parts[root:] if p != "__init__"), text


class Source:
    """The source of one version of vLLM."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self._trees: dict[str, ast.Module] = {}
        self._names: dict[str, dict[str, ast.AST]] = {}

    def modules_with(self, text: str) -> list[str]:
        """Return the modules whose source holds ``text``."""
        return sorted(name for name, source in self._texts.items() if text in source)

    def tree(self, module: str) -> ast.Module:
        if module not in self._trees:
            self._trees[module] = ast.parse(self._texts.get(module, ""))
        return self._trees[module]

    def names(self, module: str) -> dict[str, ast.AST]:
        """Return what a module defines at its top level, also under ``if`` and ``try``."""
        if module not in self._names:
            names: dict[str, ast.AST] = {}
            _collect(self.tree(module).body, names)
            self._names[module] = names
        return self._names[module]

    def find(self, module: str, name: str, depth: int = 0) -> Found | None:
        """Return the definition that ``name`` has in ``module``, through imports."""
        node = self.names(module).get(name)
        if node is None or depth > 8:
            return None
        if not isinstance(node, ast.ImportFrom):
            return Found(module, node)
        target = self._absolute(module, node)
        original = next(a.name for a in node.names if name in (a.asname, a.name))
        return self.find(target, original, depth + 1)

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = module.split(".")
        is_package = any(name.startswith(f"{module}.") for name in self._texts)
        keep = len(package) - node.level + (1 if is_package else 0)
        return ".".join([*package[:keep], *([node.module] if node.module else [])])

    # -- constants -----------------------------------------------------------------------------

    def value(self, module: str, node: ast.AST, scope: dict[str, Any] | None = None) -> Any:
        """Return the value of an expression, or Unknown."""
        try:
            return self._value(module, node, scope or {})
        except (LookupError, TypeError, ValueError, AttributeError):
            return Unknown(ast.unparse(node))

    def _value(self, module: str, node: ast.AST, scope: dict[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return [self._known(module, item, scope) for item in node.elts]
        if isinstance(node, ast.Dict):
            keys = [self._known(module, key, scope) for key in node.keys if key is not None]
            return dict(
                zip(keys, (self._known(module, v, scope) for v in node.values), strict=True)
            )
        if isinstance(node, ast.Name):
            return self._name_value(module, node.id, scope)
        if isinstance(node, ast.Attribute):
            return self._attribute(module, node)
        if isinstance(node, ast.JoinedStr):
            return "".join(self._piece(module, part, scope) for part in node.values)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._comprehension(module, node, scope)
        return self._operation(module, node, scope)

    def _operation(self, module: str, node: ast.AST, scope: dict[str, Any]) -> Any:
        if isinstance(node, ast.UnaryOp):
            operand = self._known(module, node.operand, scope)
            return -operand if isinstance(node.op, ast.USub) else not operand
        if isinstance(node, ast.BinOp):
            return self._binary(module, node, scope)
        if isinstance(node, ast.Call):
            return self._call(module, node, scope)
        if isinstance(node, ast.Subscript):
            return self._known(module, node.value, scope)[self._known(module, node.slice, scope)]
        raise ValueError(node)

    def _known(self, module: str, node: ast.AST, scope: dict[str, Any]) -> Any:
        value = self._value(module, node, scope)
        if isinstance(value, Unknown):
            raise ValueError(value.text)
        return value

    def _name_value(self, module: str, name: str, scope: dict[str, Any]) -> Any:
        if name in scope:
            return scope[name]
        found = self.find(module, name)
        if found is None or isinstance(found.node, (ast.ClassDef, ast.FunctionDef)):
            raise LookupError(name)
        return self._value(found.module, found.node, {})

    def _attribute(self, module: str, node: ast.Attribute) -> Any:
        """Return ``Class.name``: a class attribute's value, or an enumeration member's."""
        if ast.unparse(node) == "ssl.CERT_NONE":
            return 0
        if not isinstance(node.value, ast.Name):
            raise LookupError(ast.unparse(node))
        found = self.find(module, node.value.id)
        if found is None or not isinstance(found.node, ast.ClassDef):
            raise LookupError(ast.unparse(node))
        if self.is_enum(found):
            return node.attr
        defaults = {f.name: f.default for f in self.fields(found)}
        return defaults[node.attr]

    def _piece(self, module: str, node: ast.AST, scope: dict[str, Any]) -> str:
        inner = node.value if isinstance(node, ast.FormattedValue) else node
        return str(self._known(module, inner, scope))

    def _binary(self, module: str, node: ast.BinOp, scope: dict[str, Any]) -> Any:
        left = self._known(module, node.left, scope)
        right = self._known(module, node.right, scope)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.LShift):
            return left << right
        if isinstance(node.op, ast.Pow):
            return left**right
        raise ValueError(node)

    def _comprehension(
        self, module: str, node: ast.ListComp | ast.GeneratorExp, scope: dict[str, Any]
    ) -> list[Any]:
        loop = node.generators[0]
        if len(node.generators) != 1 or loop.ifs or not isinstance(loop.target, ast.Name):
            raise ValueError(node)
        name = loop.target.id
        return [
            self._known(module, node.elt, {**scope, name: item})
            for item in self._known(module, loop.iter, scope)
        ]

    def _call(self, module: str, node: ast.Call, scope: dict[str, Any]) -> Any:
        name = ast.unparse(node.func)
        if name == "get_args":
            return list(self._literal(module, node.args[0]))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "join":
            separator = self._known(module, node.func.value, scope)
            return separator.join(self._known(module, node.args[0], scope))
        values = [self._known(module, arg, scope) for arg in node.args]
        options = {k.arg: self._known(module, k.value, scope) for k in node.keywords if k.arg}
        if name == "permutations":
            return [list(p) for p in itertools.permutations(*values, **options)]
        if name in ("list", "tuple", "sorted"):
            return sorted(values[0]) if name == "sorted" else list(values[0] if values else [])
        if name in ("int", "float", "str") and len(values) == 1:
            return {"int": int, "float": float, "str": str}[name](values[0])
        raise ValueError(name)

    def _literal(self, module: str, node: ast.AST) -> tuple[Any, ...]:
        """Return the members of the Literal that a name stands for."""
        hints = self.hints(module, node)
        return tuple(itertools.chain.from_iterable(h.args for h in hints if h.kind == "literal"))

    def _members(self, module: str, node: ast.AST) -> list[Any]:
        """Return what one part of a Literal stands for: a value, or another Literal's members."""
        if isinstance(node, (ast.Name, ast.Subscript)):
            return list(self._literal(module, node)) or [Unknown(ast.unparse(node))]
        return [self.value(module, node)]

    # -- type hints ----------------------------------------------------------------------------

    def hints(self, module: str, node: ast.AST) -> list[Hint]:
        """Return the types that an annotation allows, unions and aliases taken apart."""
        if isinstance(node, ast.Constant):
            if node.value is None:
                return [Hint("none")]
            return self.hints(module, ast.parse(str(node.value), mode="eval").body)
        if isinstance(node, ast.BinOp):
            return [*self.hints(module, node.left), *self.hints(module, node.right)]
        if isinstance(node, ast.Subscript):
            return self._subscript(module, node)
        if isinstance(node, ast.Name):
            return self._named_hint(module, node.id)
        return [Hint("other", (ast.unparse(node),))]

    def _subscript(self, module: str, node: ast.Subscript) -> list[Hint]:
        name = ast.unparse(node.value).rsplit(".", 1)[-1]
        inner = node.slice
        parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
        if name == "Literal":
            return [Hint("literal", tuple(v for p in parts for v in self._members(module, p)))]
        if name in UNIONS:
            hints = [hint for part in parts for hint in self.hints(module, part)]
            return [*hints, *([Hint("none")] if name == "Optional" else [])]
        if name in WRAPPERS:
            return self.hints(module, parts[0])
        kind = name.lower()
        if kind in ("list", "tuple", "set", "dict", "sequence"):
            return [Hint(kind, tuple(self._item(module, part) for part in parts))]
        return [Hint("other", (ast.unparse(node),))]

    def _item(self, module: str, node: ast.AST) -> Any:
        """Return the hints of one item type, or an ellipsis."""
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return Ellipsis
        return tuple(self.hints(module, node))

    def _named_hint(self, module: str, name: str) -> list[Hint]:
        if name in BUILTINS:
            return [Hint(name)]
        if name == "Any":
            return [Hint("other", ("Any",))]
        found = self.find(module, name)
        if found is None:
            return [Hint("other", (name,))]
        if not isinstance(found.node, ast.ClassDef):
            return self.hints(found.module, found.node)
        if self.is_dict(found):
            return [Hint("dict")]
        return [Hint("config" if self.is_dataclass(found) else "other", (name,))]

    # -- classes -------------------------------------------------------------------------------

    def bases(self, found: Found) -> list[Found]:
        assert isinstance(found.node, ast.ClassDef)
        names = [base.id for base in found.node.bases if isinstance(base, ast.Name)]
        every = [self.find(found.module, name) for name in names]
        return [base for base in every if base and isinstance(base.node, ast.ClassDef)]

    def is_dataclass(self, found: Found) -> bool:
        assert isinstance(found.node, ast.ClassDef)
        decorators = [ast.unparse(d).split("(")[0] for d in found.node.decorator_list]
        return any(d.rsplit(".", 1)[-1] in ("dataclass", "config") for d in decorators)

    def is_dict(self, found: Found) -> bool:
        assert isinstance(found.node, ast.ClassDef)
        return any(ast.unparse(base).split("[")[0] == "dict" for base in found.node.bases)

    def is_enum(self, found: Found) -> bool:
        assert isinstance(found.node, ast.ClassDef)
        names = [ast.unparse(base) for base in found.node.bases]
        return any("Enum" in n for n in names) or any(self.is_enum(b) for b in self.bases(found))

    def fields(self, found: Found) -> list[Field]:
        """Return the fields of a configuration class, inherited ones first."""
        fields: dict[str, Field] = {}
        for base in reversed(self.bases(found)):
            fields.update({f.name: f for f in self.fields(base)})
        assert isinstance(found.node, ast.ClassDef)
        constants: dict[str, Any] = {}
        for node in found.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                if "ClassVar" in ast.unparse(node.annotation):
                    if node.value is not None:
                        constants[name] = self.value(found.module, node.value, constants)
                    continue
                fields[name] = self._field(found.module, name, node, constants)
        return list(fields.values())

    def _field(
        self, module: str, name: str, node: ast.AnnAssign, constants: dict[str, Any]
    ) -> Field:
        default, bounds = self._default(module, node.value, constants)
        return Field(name, self.hints(module, node.annotation), default, bounds)

    def _default(
        self, module: str, node: ast.AST | None, constants: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return a field's default and its bounds (``ge``, ``gt``, ``le``, ``lt``)."""
        if node is None:
            return Unknown("none given"), {}
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("Field", "field"):
            return self.value(module, node, constants), {}
        options = {k.arg: k.value for k in node.keywords if k.arg}
        if node.args:
            options.setdefault("default", node.args[0])
        bounds: dict[str, Any] = {
            key: self.value(module, options[key], constants)
            for key in ("ge", "gt", "le", "lt")
            if key in options
        }
        if "default" in options:
            return self.value(module, options["default"], constants), bounds
        return self._factory(module, options.get("default_factory")), bounds

    def _factory(self, module: str, node: ast.AST | None) -> Any:
        if isinstance(node, ast.Lambda):
            return self.value(module, node.body)
        if isinstance(node, ast.Name) and node.id in ("list", "dict", "set"):
            return {} if node.id == "dict" else []
        return Unknown(ast.unparse(node) + "()" if node is not None else "none given")


def _collect(body: list[ast.stmt], names: dict[str, ast.AST]) -> None:
    """Collect definitions; of two, the first wins (TYPE_CHECKING's comes before its stand-in)."""
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.setdefault(node.name, node)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names.setdefault(alias.asname or alias.name, node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names.setdefault(node.targets[0].id, node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            names.setdefault(node.target.id, node.value)
        elif isinstance(node, ast.If):
            _collect([*node.body, *node.orelse], names)
        elif isinstance(node, ast.Try):
            _collect([*node.body, *node.orelse, *node.finalbody], names)
