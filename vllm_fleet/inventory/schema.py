"""The fleet's own settings: the mapping ``vllm_fleet`` in group ``all``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

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
    """The settings of one fleet."""

    name: Annotated[str, StringConstraints(pattern=NAME)]
    rollout: Rollout = Rollout()
    drift: Drift = Drift()


WORDS = {
    "missing": "is missing, and required",
    "string_pattern_mismatch": "must be lower-case letters, digits and hyphens, at most 32",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "model_type": "must be a mapping",
}


def read_settings(value: Any) -> tuple[FleetSettings | None, list[Finding]]:
    """Return the fleet's settings, or what is wrong with them."""
    try:
        return FleetSettings.model_validate(value), []
    except ValidationError as error:
        findings = {finding.path: finding for finding in map(_finding, error.errors())}
        return None, list(findings.values())


def _finding(error: Any) -> Finding:
    """Turn one of pydantic's errors into words."""
    path = tuple(step for step in error["loc"] if not _is_union_branch(step))
    seen = error.get("input")
    if path[:2] == ("rollout", "serial"):
        words = "must be a number of hosts from 1, a percentage like '20%', or a list of these"
        return Finding(path[:2], f"{words}; is {seen!r}")
    if error["type"] == "extra_forbidden":
        return Finding(path, "is no setting here", did_you_mean(str(path[-1]), _known(path)))
    words = WORDS.get(error["type"], str(error["msg"]).lower())
    shown = "" if error["type"] == "missing" else f"; is {seen!r}"
    return Finding(path, f"{words}{shown}")


def _is_union_branch(step: Any) -> bool:
    """Say whether pydantic put the name of a type into the path."""
    return isinstance(step, str) and ("[" in step or "constrained" in step)


def _known(path: tuple[Any, ...]) -> list[str]:
    """Return the settings that there are at a place."""
    models: dict[tuple[Any, ...], type[BaseModel]] = {(): FleetSettings, ("rollout",): Rollout}
    model = models.get(path[:-1])
    return list(model.model_fields) if model else []
