# SPDX-License-Identifier: GPL-3.0-or-later
"""What is built for a host, by whom, and what the controller already has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.engine_key import (
    build_inputs,
    build_key,
    pick_builder,
    platform,
    platform_text,
    release_id,
)
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.pip_lock import digest
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import versions
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import (
    PlanError,
    check_engine,
    check_sha256,
    is_url,
    sha256_of,
)

Data = dict[str, Any]

ACCELERATORS = ("ascend", "nvidia", "cpu")
WORK = "/var/lib/vllm-fleet/build"


def accelerator_of(groups: Iterable[str]) -> str | None:
    """Return the accelerator group that a host is in."""
    return next((name for name in ACCELERATORS if name in groups), None)


def engine_of(catalog: Data, groups: Iterable[str], options: Mapping[str, Any]) -> Data | None:
    """Return which engine a host gets: the options, then the defaults of its accelerator."""
    accelerator = accelerator_of(groups)
    if accelerator is None:
        return None
    chosen = dict(catalog["accelerators"][accelerator])
    for name in ("method", "target", "distribution", "version", "exclude"):
        if options.get(name) is not None:
            chosen[name] = options[name]
    if not isinstance(chosen["version"], str):
        raise PlanError(
            f"vllm_build_version is the number {chosen['version']!r}: quote it, as in "
            f'vllm_build_version: "{catalog["accelerators"][accelerator]["version"]}"'
        )
    try:
        row = _row(catalog, chosen)
    except versions.VersionError as error:
        raise PlanError(f"vllm_build_version: {error}") from error
    return {
        "accelerator": accelerator,
        "method": chosen["method"],
        "target": chosen["target"],
        "distribution": chosen["distribution"],
        "version": chosen["version"],
        "exclude": list(chosen["exclude"]),
        "requires_python": row.get("requires_python"),
        "row": row,
    }


def _row(catalog: Data, chosen: Data) -> Data:
    """Return what the catalog knows of a version; empty where it knows nothing."""
    wanted = (chosen["distribution"], chosen["version"])
    for row in catalog["versions"]:
        if (row["distribution"], row["version"]) == wanted:
            return dict(row)
    for row in catalog.get("requirements", []):
        if chosen["distribution"] == "vllm" and versions.matches(chosen["version"], row["vllm"]):
            return {"requires_python": row["requires_python"]}
    return {}


def source_of(engine: Data, options: Mapping[str, Any]) -> Data:
    """Return where the source archive is and its checksum; empty for finished wheels."""
    if engine["method"] != "source":
        return {}
    archive = engine["row"].get("archive", {})
    place = options.get("source")
    if not place:
        raise PlanError(
            "vllm_build_method is source: vllm_build_source must be the URL or the path on the "
            f"controller of {archive.get('name', 'the source archive')}"
        )
    if place.endswith("/"):
        if not archive:
            raise PlanError(
                f"the catalog knows no archive of {engine['distribution']} {engine['version']}: "
                "vllm_build_source must name the file"
            )
        place += archive["name"]
    if not is_url(place) and not Path(place).expanduser().is_file():
        raise PlanError(f"there is no file {place} on the controller (vllm_build_source)")
    sha256 = options.get("source_sha256") or archive.get("sha256")
    sha256 = check_sha256("vllm_build_source_sha256", sha256)
    return {"src": place, "local": _local(place, sha256), "sha256": sha256}


def _local(place: str, sha256: str) -> str:
    """Return a path on the controller, compared with its checksum; empty for a URL."""
    if is_url(place):
        return ""
    path = Path(place).expanduser()
    seen = sha256_of(path)
    if seen != sha256:
        raise PlanError(f"wrong checksum: {path} has SHA-256 {seen}, wanted {sha256}")
    return str(path)


def lock_of(options: Mapping[str, Any]) -> Data:
    """Return the finished lock that the options name; empty where pip resolves."""
    place = options.get("lock")
    if not place:
        return {}
    if is_url(place):
        sha256 = check_sha256("vllm_build_lock_sha256", options.get("lock_sha256"))
        return {"src": place, "sha256": sha256}
    path = Path(place).expanduser()
    if not path.is_file():
        raise PlanError(f"there is no file {path} on the controller (vllm_build_lock)")
    content = path.read_text(encoding="utf-8")
    if options.get("lock_sha256") and digest(content) != options["lock_sha256"].lower():
        raise PlanError(f"wrong checksum: {path} has SHA-256 {digest(content)}")
    return {"content": content, "sha256": digest(content)}


def build_requirements(engine: Data, options: Mapping[str, Any]) -> list[str]:
    """Return what the environment that builds needs."""
    if engine["method"] != "source":
        return []
    if options.get("build_requirements") is not None:
        return list(options["build_requirements"])
    known = engine["row"].get("build_requirements")
    if known is None:
        raise PlanError(
            f"the catalog does not know what {engine['distribution']} {engine['version']} needs "
            "to be built: set vllm_build_build_requirements"
        )
    return [*known, engine["row"]["build_torch"][engine["target"]]]


def plan(engine: Data, host: Data, python: Data, options: Mapping[str, Any]) -> Data:
    """Return the build for a host: its key, everything that it is made of, and where it lies."""
    check_engine(python["version"], engine)
    source, lock = source_of(engine, options), lock_of(options)
    requirements = build_requirements(engine, options)
    where = platform(host, python["version"])
    inputs = build_inputs(
        where,
        {
            **{name: engine[name] for name in ("method", "target", "distribution", "version")},
            "source_sha256": source.get("sha256"),
            "lock_sha256": lock.get("sha256"),
            "requirements": list(options.get("requirements") or []),
            "exclude": engine["exclude"],
            "build_requirements": requirements,
            "build_environment": dict(options.get("build_environment") or {}),
        },
    )
    key = build_key(inputs)
    return {
        "key": key,
        "inputs": inputs,
        "platform": where,
        "source": source,
        "lock": lock,
        "work_dir": f"{WORK}/{key}",
        "artifact": artifact(artifacts_dir(options), key, python["executable"]),
    }


def artifacts_dir(options: Mapping[str, Any]) -> Path:
    """Return the directory on the controller that keeps what was built."""
    if options.get("artifacts_dir"):
        return Path(options["artifacts_dir"]).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "vllm-fleet" / "artifacts"


def artifact(directory: Path, key: str, python: str) -> Data:
    """Return what the controller has for a key: files and, where complete, the release's id."""
    folder = directory / key
    found: Data = {"dir": str(folder), "present": False, "wheel": "", "lock": "", "release_id": ""}
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        return found
    data = json.loads(manifest.read_text(encoding="utf-8"))
    wheel, lock = folder / data["wheel"]["file"], folder / "requirements.lock"
    # The wheel's content is compared by pip on each host; its size is enough here.
    whole = wheel.is_file() and wheel.stat().st_size == data["wheel"]["size"]
    if not whole or not lock.is_file() or sha256_of(lock) != data["lock"]["sha256"]:
        raise PlanError(
            f"{folder} was changed since it was built: remove it, and the next run builds it again"
        )
    text = lock.read_text(encoding="utf-8")
    found.update(present=True, wheel=str(wheel), lock=str(lock), sha256=data["wheel"]["sha256"])
    return {**found, "release_id": release_id(text, python)}


def queue(me: str, plans: Mapping[str, Data], builders: Mapping[str, Data]) -> list[Data]:
    """Return what the builder ``me`` builds: wanted by a host of its platform, and not there yet.

    ``plans`` holds the plan of each serving host, ``builders`` the platform of each builder. One
    key is built once, by one builder, whoever asks.
    """
    mine: dict[str, Data] = {}
    for wanted in plans.values():
        if not wanted["artifact"]["present"] and builder_of(wanted, builders) == me:
            mine.setdefault(wanted["key"], wanted)
    return [mine[key] for key in sorted(mine)]


def builder_of(wanted: Data, builders: Mapping[str, Data]) -> str | None:
    """Return the builder that makes this build, or None where no platform is the same."""
    same = [name for name, where in builders.items() if where == wanted["platform"]]
    return pick_builder(wanted["key"], same)


def missing(host: str, wanted: Data, builders: Mapping[str, Data], absent: list[str]) -> str:
    """Return why a host cannot get its build, and what to do."""
    text = (
        f"nothing is built for host {host}: the controller has no {wanted['artifact']['dir']}, and "
        f"no host of group builders in this run has its platform "
        f"({platform_text(wanted['platform'])}). "
    )
    others = "; ".join(f"{name}: {platform_text(where)}" for name, where in builders.items())
    if others:
        text += f"Builders in this run: {others}. "
    if absent:
        text += f"Builders outside this run: {', '.join(absent)} (widen --limit). "
    return text + "Add a host of this platform to group builders"
