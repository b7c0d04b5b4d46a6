# SPDX-License-Identifier: GPL-3.0-or-later
"""What the files of the catalog must look like: every row has its source and readable values.

``problems(name, document)`` returns one line for each thing that is wrong, with file, section and
row. Plain Python: the collection works without the command's libraries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions

Check = Callable[[Any], str | None]

PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}$")
SHA256 = re.compile(r"[0-9a-f]{64}$")
OS_KEY = re.compile(r"(openEuler|kylin|el|ubuntu|debian)-[A-Za-z0-9.]+(-SP\d(-\d{4})?)?$")


def text(value: Any) -> str | None:
    """Accept a text that is not empty."""
    return None if isinstance(value, str) and value.strip() else "must be a text"


def boolean(value: Any) -> str | None:
    """Accept true and false."""
    return None if isinstance(value, bool) else "must be true or false"


def integer(value: Any) -> str | None:
    """Accept a whole number."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return None if whole else "must be a whole number"


def mapping(value: Any) -> str | None:
    """Accept a mapping."""
    return None if isinstance(value, dict) and value else "must be a mapping"


def version(value: Any) -> str | None:
    """Accept a version; YAML turns an unquoted 22.03 into a number, so that is refused."""
    try:
        versions.parse(value)
    except versions.VersionError as error:
        return str(error)
    return None


def version_range(value: Any) -> str | None:
    """Accept a range of versions."""
    if not isinstance(value, str):
        return f"a range of versions must be a text, not {value!r}: quote it"
    try:
        versions.matches("0", value)
    except versions.VersionError as error:
        return str(error)
    return None


def matching(pattern: re.Pattern[str], what: str) -> Check:
    """Accept a text of one form."""

    def check(value: Any) -> str | None:
        good = isinstance(value, str) and pattern.match(value)
        return None if good else f"must be {what}, not {value!r}"

    return check


def listed(item: Check, empty: bool = True) -> Check:
    """Accept a list whose items pass ``item``."""

    def check(value: Any) -> str | None:
        if not isinstance(value, list) or not (value or empty):
            return "must be a list" if empty else "must be a list with something in it"
        return next((wrong for wrong in map(item, value) if wrong), None)

    return check


def one_of(*words: Any) -> Check:
    """Accept one of the words."""

    def check(value: Any) -> str | None:
        return None if value in words else f"must be one of {', '.join(map(str, words))}"

    return check


def nullable(item: Check) -> Check:
    """Accept null too."""
    return lambda value: None if value is None else item(value)


def fields(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Accept a mapping with these keys and no others."""

    def check(value: Any) -> str | None:
        return next(_field_problems(value, required, optional or {}), None)

    return check


def _field_problems(
    value: Any, required: Mapping[str, Check], optional: Mapping[str, Check]
) -> Iterator[str]:
    if not isinstance(value, dict):
        yield "must be a mapping"
        return
    for key in sorted(set(required) - set(value)):
        yield f"{key} is missing"
    for key, item in value.items():
        known = required.get(key) or optional.get(key)
        wrong = known(item) if known else "is not a key of such a row"
        if wrong:
            yield f"{key}: {wrong}"


@dataclass(frozen=True)
class Rows:
    """A section that is a list of rows; each row also needs ``source``."""

    required: Mapping[str, Check]
    optional: Mapping[str, Check] = field(default_factory=dict)
    unique: tuple[str, ...] = ()


PCI_ID = matching(PCI, "a PCI id such as 19e5:d802")
OS_KEYS = listed(matching(OS_KEY, "an operating system's key"), empty=False)
FAMILY = one_of("310", "310p", "310b", "910a", "a2", "a3", "a5")
ARCH = one_of("aarch64", "x86_64")
NOTES: dict[str, Check] = {"note": text, "inferred": boolean}
LEAST = fields({"families": listed(FAMILY), "driver": version}, {"firmware": version})
GLIBC = fields({}, {"aarch64": nullable(version), "x86_64": nullable(version)})
WHEEL = fields({"glibc": GLIBC, "pythons": listed(version), "families": listed(FAMILY)})

ASCEND: dict[str, Rows] = {
    "chips": Rows(
        {"pci": PCI_ID, "family": FAMILY, "name": text, "supported": boolean, "dies": integer,
         "memory_gib": listed(integer), "tag": text, "ops": text,
         "products": listed(fields({"subsystem": PCI_ID, "name": text}))},
        {"soc": text, "soc_versions": listed(text), "note": text},
        unique=("pci",),
    ),
    "releases": Rows(
        {"vllm_ascend": version, "vllm": version, "python": version_range, "cann": version,
         "torch": version, "torch_npu": version, "stable": boolean},
        {"triton_ascend": version, "mooncake": version, "date": text, "note": text,
         "wheel": WHEEL},
        unique=("vllm_ascend",),
    ),
    "torch_npu": Rows(
        {"versions": listed(version, empty=False), "cann": version}, unique=("cann",)
    ),
    "torch": Rows({"versions": version_range, "python": version_range}, {"glibc": version}),
    "cann_hdk": Rows(
        {"cann": version_range, "paired": version, "good": version_range},
        {"bad": version_range, "families": listed(FAMILY), **NOTES},
        unique=("cann",),
    ),
    "cann": Rows(
        {"versions": version_range, "operators": one_of("ops", "kernels"), "root": text,
         "downgrade": one_of("uninstall first", "direct")},
        {"python": version_range},
    ),
    "driver_firmware": Rows({"driver": version, "firmware": version, "families": listed(FAMILY)}),
    "os_cards": Rows(
        {"os": OS_KEYS, "arch": ARCH, "families": listed(FAMILY)},
        {"bad": listed(FAMILY), "least": listed(LEAST)},
    ),
    "engine_arguments": Rows(
        {"argument": text}, {"adds": listed(text), "keeps": listed(text), "note": text}
    ),
    "features": Rows(
        {"name": text},
        {"driver": version_range, "cann": version_range, "families": listed(FAMILY), "note": text},
    ),
}  # fmt: skip

NVIDIA: dict[str, Rows] = {
    "branches": Rows(
        {"branch": version, "kind": one_of("long-term", "production"),
         "eol": matching(re.compile(r"\d{4}-\d\d$"), "a month such as 2028-06"),
         "cuda_major": integer},
        unique=("branch",),
    ),
    "cuda": Rows({"cuda": version_range, "driver": version_range}, NOTES, unique=("cuda",)),
    "minor_compatibility": Rows({"cuda": version_range, "driver": version_range}),
    "forward_compatibility": Rows(
        {"cuda": version_range, "branches": listed(version), "datacenter": boolean},
        {"kernel": version_range},
    ),
    "engines": Rows({"vllm": version_range, "cuda": version, "compute_capability": version}),
    "gpus": Rows(
        {"name": text, "pci": listed(PCI_ID), "compute_capability": version,
         "architecture": text, "memory_gb": listed(integer)},
        {"nvswitch": boolean},
        unique=("name",),
    ),
    "capabilities": Rows({"compute_capability": version_range, "cuda": version_range}),
    "kernel_modules": Rows(
        {"architectures": listed(text), "open": one_of("impossible", "possible", "required")},
        {"driver": version_range},
    ),
    "repositories": Rows(
        {"os": OS_KEYS, "path": nullable(text), "arches": listed(ARCH),
         "install": one_of("module-stream", "version-lock", "apt", "runfile")},
        {"drivers": version_range, "note": text},
    ),
}  # fmt: skip

ANSIBLE: dict[str, Rows] = {
    "cores": Rows(
        {"core": version, "newest": version, "controller_python": version_range,
         "target_python": version_range, "dnf": one_of("respawn", "none", "embedded")},
        {"community": version, "eol": text},
        unique=("core",),
    ),
    "symptoms": Rows({"core": version_range, "python": version_range, "text": text}),
}  # fmt: skip

COMPONENTS: dict[str, Check] = dict.fromkeys(
    ("vllm_ascend", "vllm", "cann", "torch", "torch_npu", "driver", "firmware", "cuda", "python"),
    version,
)

RELEASE_SETS: dict[str, Rows] = {
    "sets": Rows(
        {"name": matching(re.compile(r"[a-z]+-\d{4}\.\d\d$"), "a name such as ascend-2026.08"),
         "accelerator": one_of("ascend", "nvidia", "cpu"), "wanted": fields({}, COMPONENTS),
         "status": one_of("recommended", "maintained", "retired")},
        {"note": text},
        unique=("name",),
    ),
}  # fmt: skip

OLD_NAMES: dict[str, Rows] = {
    "names": Rows(
        {"name": text, "kind": one_of("argument", "argument value", "request field", "variable",
                                      "package", "version", "path", "repository", "file", "symbol"),
         "verdict": one_of("translated", "refused"), "reason": text, "reason_zh": text},
        {"today": nullable(text), "today_zh": text, "argument": text, "also": listed(text),
         "value": text, "since": text, "match": text, "on": text},
        unique=("name",),
    ),
}  # fmt: skip

ARTIFACTS: dict[str, Rows] = {
    "files": Rows(
        {"name": text, "release": version, "version": version, "folder": text,
         "kind": one_of("toolkit", "kernels", "ops", "nnae", "nnrt", "hdk", "mcu", "toolbox"),
         "sha256": matching(SHA256, "a SHA-256 sum")},
        {"chip": text, "arch": ARCH},
        unique=("name", "sha256"),
    ),
}  # fmt: skip

VLLM: dict[str, Rows] = {
    "requirements": Rows(
        {"vllm": version_range, "requires_python": version_range, "cxx": integer, "rust": boolean,
         "numa_bind": boolean, "wheel_glibc": GLIBC},
        {
            "torch": version_range, "gcc": version_range, "gcc_cuda": version_range,
        },
        unique=("vllm",),
    ),
    "closure": Rows({"vllm": version_range, "package": text, "glibc": version}, {"needs": text}),
    "source_overrides": Rows({"vllm": version, "variables": mapping}),
}  # fmt: skip

# Sections that other files of this catalog have are checked by their own tests.
SCHEMAS: dict[str, dict[str, Rows]] = {
    "ascend": ASCEND,
    "nvidia": NVIDIA,
    "ansible": ANSIBLE,
    "release_sets": RELEASE_SETS,
    "old_names": OLD_NAMES,
    "artifacts/ascend": ARTIFACTS,
    "vllm": VLLM,
}
# Files whose rows share one source, named at the top.
ONE_SOURCE = {"artifacts/ascend"}


def problems(name: str, document: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the catalog file ``name``.yml."""
    found: list[str] = []
    if document.get("schema") != 1:
        found.append(f"{name}.yml: schema must be 1")
    if name in ONE_SOURCE and text(document.get("source")):
        found.append(f"{name}.yml: source is missing")
    for section, rows in SCHEMAS.get(name, {}).items():
        where = f"{name}.yml {section}"
        listing = document.get(section)
        if not isinstance(listing, list) or not listing:
            found.append(f"{where}: must be a list with something in it")
            continue
        found += _row_problems(where, listing, rows, name not in ONE_SOURCE)
    return found


def _row_problems(where: str, listing: list[Any], rows: Rows, source: bool) -> list[str]:
    """Return what is wrong with the rows of one section."""
    required = {**rows.required, **({"source": text} if source else {})}
    found = [
        f"{where}[{index}]: {wrong}"
        for index, row in enumerate(listing)
        for wrong in _field_problems(row, required, rows.optional)
    ]
    for key in rows.unique:
        seen: dict[str, int] = {}
        for index, row in enumerate(listing):
            value = str(row.get(key)) if isinstance(row, dict) else ""
            if value in seen:
                found.append(f"{where}[{index}]: {key} {value} stands in row {seen[value]} too")
            seen[value] = index
    return found
