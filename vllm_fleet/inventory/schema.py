"""The variables of the fleet itself: ``vllm_fleet`` in group ``all``, and ``vllm_fleet_*``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from vllm_fleet.inventory.hints import did_you_mean
from vllm_fleet.inventory.specs import Finding

NAME = r"^[a-z][a-z0-9-]{0,31}$"
Percent = Annotated[str, StringConstraints(pattern=r"^(100|[1-9][0-9]?)%$", strict=True)]
Count = Annotated[int, Field(ge=1, strict=True)]
Batch = Count | Percent


class Strict(BaseModel):
    """Settings in which an unknown name or another type is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Rollout(Strict):
    """How many hosts at once, and how many of them may fail."""

    serial: Batch | list[Batch] = "100%"
    max_fail_percentage: Annotated[int, Field(ge=0, le=100)] = 0


class Drift(Strict):
    """Reserved."""


class FleetSettings(Strict):
    """The settings of one fleet, in group all."""

    name: Annotated[str, StringConstraints(pattern=NAME)] = Field(description="Name of the fleet.")
    release_set: str | None = Field(
        default=None, description="Versions that belong together, by one word (docs/catalog.md)."
    )
    rollout: Rollout = Field(default=Rollout(), description="How an apply goes through the fleet.")
    drift: Drift = Drift()


class Platform(Strict):
    """What a host is, as far as it is known before the first scan. Every part may be left out."""

    os: str | None = Field(
        default=None, description="Key of the operating system: openEuler-22.03-SP4."
    )
    arch: Literal["aarch64", "x86_64"] | None = Field(default=None, description="Machine name.")
    glibc: str | None = Field(
        default=None, description="Version of glibc, where it is not the system's."
    )
    gcc: str | None = Field(
        default=None, description="Version of gcc, where it is not the system's."
    )
    python: str | None = Field(
        default=None, description="Version of the Python that Ansible uses there."
    )
    page_size: int | None = Field(default=None, description="Bytes of a memory page of the kernel.")
    chip: str | list[str] | None = Field(
        default=None,
        description="Accelerator: name or family in the catalog, or PCI id (19e5:d802).",
    )
    devices: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Number of devices that engines see (an Atlas A3 card shows two)."
    )
    memory_gib: float | None = Field(
        default=None, gt=0, description="Memory of one device, in GiB."
    )
    driver: str | None = Field(default=None, description="Version of the accelerator's driver.")
    firmware: str | None = Field(default=None, description="Version of the NPU's firmware.")
    cann: str | None = Field(default=None, description="Version of CANN.")
    cuda: str | None = Field(
        default=None, description="Version of CUDA that engines are to be built for."
    )
    kernel_modules: Literal["open", "proprietary"] | None = Field(
        default=None, description="Kind of NVIDIA's kernel modules."
    )
    fabric_manager: str | None = Field(
        default=None, description="Version of NVIDIA's Fabric Manager."
    )


class ModelFacts(Strict):
    """What the controller knows of a model that hosts keep in a folder."""

    config: str | dict[str, Any] = Field(
        description="Path of the model's config.json on the controller, or its content."
    )
    scheme: str | None = Field(
        default=None,
        description="Quantization that config.json does not tell: w8a8, w4a8, fp8 and so on.",
    )


Models = dict[str, ModelFacts]
# The variables beside ``vllm_fleet``, with what each must be.
VARIABLES: Mapping[str, tuple[Any, str]] = {
    "vllm_fleet_release_set": (str, "Release set of a host or group, instead of the fleet's."),
    "vllm_fleet_platform": (Platform, "What a host is, as far as it is known before a scan."),
    "vllm_fleet_models": (Models, "For model folders on hosts: what the controller knows of them."),
    "vllm_fleet_artifacts_dir": (str, "Folder on the controller with the vendor's files."),
}
WORDS = {
    "missing": "is missing, and required",
    "string_pattern_mismatch": "must be lower-case letters, digits and hyphens, at most 32",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
}


def read_settings(value: Any) -> tuple[FleetSettings | None, list[Finding]]:
    """Return the fleet's settings, or what is wrong with them."""
    return read(FleetSettings, value)


def read_variable(name: str, value: Any) -> tuple[Any, list[Finding]]:
    """Return the value of one of VARIABLES, or what is wrong with it."""
    return read(VARIABLES[name][0], value)


def read(kind: Any, value: Any) -> tuple[Any, list[Finding]]:
    """Return a value as what it must be, or what is wrong with it."""
    try:
        return TypeAdapter(kind).validate_python(value, strict=True), []
    except ValidationError as error:
        told = (_finding(kind, item) for item in error.errors())
        # A value that may be of several kinds is complained about once for each of them.
        findings = {finding.path: finding for finding in told}
        return None, list(findings.values())


def _finding(kind: Any, error: Any) -> Finding:
    """Turn one of pydantic's errors into words."""
    path = tuple(step for step in error["loc"] if not _is_union_branch(step))
    seen = error.get("input")
    if path[:2] == ("rollout", "serial"):
        words = "must be a number of hosts from 1, a percentage like '20%', or a list of these"
        return Finding(path[:2], f"{words}; is {seen!r}")
    if error["type"] == "extra_forbidden":
        return Finding(path, "is no setting here", did_you_mean(str(path[-1]), _known(kind, path)))
    words = WORDS.get(error["type"], str(error["msg"]).lower())
    shown = "" if error["type"] == "missing" else f"; is {seen!r}"
    return Finding(path, f"{words}{shown}", _hint(error["type"], seen))


def _hint(kind: str, seen: Any) -> str:
    """Return how a value is probably to be written."""
    if kind == "string_type" and isinstance(seen, (bool, int, float)):
        return "quote it: YAML makes a number or a boolean of it"
    if kind == "literal_error":
        meant = {"arm64": "aarch64", "amd64": "x86_64", "x86": "x86_64", "x64": "x86_64"}
        return f"did you mean {meant[seen]}?" if seen in meant else ""
    return ""


def _is_union_branch(step: Any) -> bool:
    """Say whether pydantic put the name of a type into the path."""
    if not isinstance(step, str):
        return False
    return "[" in step or "constrained" in step or step in {"str", "int", "float"}


def _known(kind: Any, path: tuple[Any, ...]) -> list[str]:
    """Return the settings that there are at a place."""
    inner = {"rollout": Rollout}.get(str(path[0])) if len(path) > 1 else None
    model = inner or (ModelFacts if kind is Models else kind)
    return list(getattr(model, "model_fields", ()))
