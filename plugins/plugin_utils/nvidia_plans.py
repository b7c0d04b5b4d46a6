# SPDX-License-Identifier: GPL-3.0-or-later
"""Which NVIDIA driver and toolkits a host gets, and what brings them. Pure: rows in, plan out."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import nvidia_state
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import os_support, versions
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.python_plans import (
    PlanError,
    check_sha256,
)

Data = dict[str, Any]
_DRIVER = re.compile(r"^[0-9]{3,4}\.[0-9]+(\.[0-9]+)?$")
_TOOLKIT = re.compile(r"^[0-9]+\.[0-9]+$")
_ANSWERS = 200


def quoted(option: str, value: Any, form: re.Pattern[str], example: str) -> str:
    """Return a version that must be a text of some form, or raise PlanError."""
    if not isinstance(value, str):
        raise PlanError(f'{option} is the number {value!r}: quote it, as in "{example}"')
    if not form.match(value):
        raise PlanError(f'{option} is {value!r}; wanted is a version as "{example}"')
    return value


def branch_of(version: str) -> str:
    """Return the branch of a driver."""
    return version.split(".")[0]


# -- where packages come from ------------------------------------------------------------------


def repository(catalogs: Data, host: Data, version: str | None, root: str | None) -> Data:
    """Return the vendor's repository for a host: where it is, or why there is none."""
    system, known = host["os"], catalogs["nvidia_packages"]
    row = next((r for r in catalogs["nvidia"]["repositories"] if system["key"] in r["os"]), None)
    why = _no_repository(row, system["key"], host["arch"], version)
    if why or row is None:
        return {"url": "", "index": "", "why": why}
    url = (root or known["repository_root"]["url"]).rstrip("/")
    url = f"{url}/{row['path']}/{known['arches'][host['arch']]}"
    key = next((r["key"] for r in known["keys"] if system["key"] in r["os"]), "")
    return {
        "url": url,
        "index": f"{url}/{known['index'][system['family']]}",
        "why": "",
        "install": row["install"],
        "key": f"{url}/{key}" if key else "",
        "keyring": f"{url}/{known['keyring']['file']}" if root is None else "",
        "source": row["source"],
    }


def _no_repository(row: Data | None, key: str, arch: str, version: str | None) -> str:
    """Return why there is no repository; '' where there is one."""
    if row is None:
        return f"the catalog knows no repository of NVIDIA for {key}"
    if not row["path"]:
        return f"{row.get('note') or 'NVIDIA publishes no repository'} ({key})"
    if arch not in row["arches"]:
        return f"NVIDIA's repository for {key} is not known to have {arch} ({row['source']})"
    drivers = row.get("drivers")
    if version and drivers and not versions.matches(version, drivers):
        return f"NVIDIA's repository for {key} has drivers {drivers} only ({row['source']})"
    return ""


def choose_source(asked: str, found: Data, answered: int | None, runfile: str | None) -> str:
    """Return repository or runfile, or raise PlanError. An unasked repository is 'probe'."""
    if asked == "runfile":
        return "runfile"
    if found["why"]:
        if asked == "repository":
            raise PlanError(f"the source is 'repository', and {found['why']}. Use a runfile")
        return "runfile"
    if answered is None:
        return "probe"
    if answered == _ANSWERS:
        return "repository"
    if asked == "auto" and runfile:
        return "runfile"
    got = answered if answered > 0 else "no answer"
    raise PlanError(
        f"the host asked {found['index']} and got {got}: name "
        "a mirror that the host reaches (nvidia_driver_repository_url), or a runfile"
    )


# -- the driver --------------------------------------------------------------------------------


def gpu_rows(catalogs: Data, gpus: list[Data]) -> list[Data]:
    """Return the catalog's rows of the host's GPUs."""
    ids = {gpu["pci"] for gpu in gpus}
    return [row for row in catalogs["nvidia"]["gpus"] if ids & set(row["pci"])]


def choose_modules(catalogs: Data, version: str, gpus: list[Data], asked: str) -> str:
    """Return open or proprietary by GPU and branch, or raise PlanError where none will do."""
    rows = gpu_rows(catalogs, gpus)
    rules = {
        name: rule
        for rule in catalogs["nvidia"]["kernel_modules"]
        for name in rule["architectures"]
    }
    ruled = [row for row in rows if row["architecture"] in rules]
    stands = {rules[row["architecture"]]["open"]: row for row in ruled}
    if "impossible" in stands and ("required" in stands or asked == "open"):
        raise PlanError(_unfit("open", stands["impossible"], rules))
    if "required" in stands and asked == "proprietary":
        raise PlanError(_unfit("proprietary", stands["required"], rules))
    wanted = asked if asked != "auto" else "proprietary" if "impossible" in stands else "open"
    limit = catalogs["nvidia"]["proprietary_modules"]
    if wanted == "proprietary" and not versions.matches(version, limit["driver"]):
        raise PlanError(
            f"driver {version} has no proprietary modules any more (only {limit['driver']} has, "
            f"{limit['source']}): choose an older branch, or open modules on GPUs that run them"
        )
    return wanted


def _unfit(flavour: str, gpu: Data, rules: Data) -> str:
    rule = rules[gpu["architecture"]]
    return (
        f"{flavour} kernel modules do not run a {gpu['name']} ({gpu['architecture']}): "
        f"open ones are {rule['open']} there ({rule['source']})"
    )


def ended(catalogs: Data, version: str, today: date) -> str:
    """Return what is to be said of the driver's branch: past its end, or unknown; '' otherwise."""
    branch = branch_of(version)
    row = next((r for r in catalogs["nvidia"]["branches"] if r["branch"] == branch), None)
    if row is None:
        return ""
    year, month = map(int, row["eol"].split("-"))
    if (today.year, today.month) <= (year, month):
        return ""
    return (
        f"branch {branch} ended in {row['eol']} (nvidia.yml branches: {branch}, {row['source']}): "
        "no more fixes are made for it"
    )


def driver(catalogs: Data, host: Data, seen: Data, options: Data, today: date) -> Data:
    """Return the plan of a host's driver, or raise PlanError with what to do."""
    version = quoted("nvidia_driver_version", options["version"], _DRIVER, "580.95.05")
    end = ended(catalogs, version, today)
    if end and options["ended_branch"] == "refuse":
        raise PlanError(f"{end}. Choose a later one, or set nvidia_driver_ended_branch: warn")
    modules = choose_modules(catalogs, version, seen["gpus"], options["modules"])
    where = repository(catalogs, host, version, options["repository_url"])
    source = choose_source(
        options["source"], where, options["answered"], options["runfile"].get("src")
    )
    plan = {
        "version": version,
        "branch": branch_of(version),
        "modules": modules,
        "source": source,
        "repository": where,
        "warnings": [text for text in (end, competition(seen, options["hold"])) if text],
        "packages": [],
        "names": [],
        "stream": "",
        "runfile": {},
        **_build(catalogs, host, options["build"]),
    }
    if source == "repository":
        plan.update(_packages(catalogs, host, plan, options["build"]))
    elif source == "runfile":
        plan["runfile"] = _runfile(catalogs, plan, options)
    plan["step"] = _step(plan, seen)
    plan["fabric_manager"] = _fabric_manager(catalogs, host, seen, plan, options)
    return plan


def competition(seen: Data, hold: bool) -> str:
    """Return who moves the driver beside us: an automatic upgrade, where nothing holds it."""
    if hold or not seen["competitors"]:
        return ""
    timers = ", ".join(seen["competitors"])
    return f"{timers} may move the driver, and nvidia_driver_hold is false: nothing holds it"


def _step(plan: Data, seen: Data) -> str:
    """Return the step from what is on disk to the plan; another origin is a repair."""
    step = nvidia_state.step_to(seen["seen"], plan["version"], plan["modules"])
    packages = seen["seen"]["packages"]
    lacking = [name for name in plan["names"] if packages.get(name) != plan["version"]]
    other = plan["source"] == "runfile" and seen["seen"]["runfile"] != plan["version"]
    return "repair" if step == "none" and (lacking or other) else str(step)


def _build(catalogs: Data, host: Data, build: str) -> Data:
    """Return what builds the modules: nothing where they are precompiled."""
    if build == "precompiled":
        return {"dkms": False, "headers": "", "build_packages": []}
    family = host["os"]["family"]
    row = os_support.verdict(host["os"], catalogs["operating_systems"])["row"]
    return {
        "dkms": build == "dkms",
        "headers": os_support.kernel_headers(host["kernel"], family, row),
        "build_packages": [
            name
            for name in catalogs["nvidia_packages"]["build_packages"][family]
            if build == "dkms" or name != "dkms"
        ],
    }


def _packages(catalogs: Data, host: Data, plan: Data, build: str) -> Data:
    """Return the packages with their version, and the module stream that has them."""
    build = "precompiled" if build == "precompiled" else "dkms"
    wanted = (plan["repository"]["install"], plan["modules"], build)
    for row in catalogs["nvidia_packages"]["driver"]:
        same = (row["install"], row["modules"], row["build"]) == wanted
        if same and versions.matches(plan["version"], row.get("drivers", ">=0")):
            names = [name.format(branch=plan["branch"]) for name in row["packages"]]
            return {
                "names": names,
                "packages": [exact(name, plan["version"], host) for name in names],
                "stream": row.get("stream", "").format(branch=plan["branch"]),
            }
    raise PlanError(
        f"the catalog knows no packages of driver {plan['version']} with {plan['modules']} "
        f"modules, {build}, for {host['os']['key']}: choose other ones, or a runfile"
    )


def exact(name: str, version: str, host: Data) -> str:
    """Return how the package manager is asked for exactly one version."""
    return f"{name}={version}-*" if host["os"]["family"] == "deb" else f"{name}-{version}"


def _runfile(catalogs: Data, plan: Data, options: Data) -> Data:
    """Return the runfile and how its installer is told which modules to build."""
    src = options["runfile"].get("src")
    if not src:
        why = plan["repository"]["why"] or "a runfile was asked for"
        raise PlanError(
            f"{why}: nvidia_driver_runfile must be the URL or path of NVIDIA-Linux-ARCH-"
            f"{plan['version']}.run, and nvidia_driver_runfile_sha256 its checksum"
        )
    if plan["version"] not in src:
        raise PlanError(
            f"nvidia_driver_runfile is {src!r}, whose name lacks nvidia_driver_version "
            f"{plan['version']}: give the runfile of that version"
        )
    if options["build"] == "precompiled":
        raise PlanError("a runfile brings no precompiled modules: set nvidia_driver_build: dkms")
    sha256 = check_sha256("nvidia_driver_runfile_sha256", options["runfile"].get("sha256"))
    rows = catalogs["nvidia_packages"]["runfile_modules"]
    row = next(r for r in rows if versions.matches(plan["version"], r["drivers"]))
    return {"src": src, "sha256": sha256, "modules_argument": row[plan["modules"]]}


def _fabric_manager(catalogs: Data, host: Data, seen: Data, plan: Data, options: Data) -> Data:
    """Return the Fabric Manager of the driver's exact version, where an NVSwitch wants it."""
    wanted = options["fabric_manager"]
    if wanted == "off" or (wanted == "auto" and not seen["nvswitches"]):
        return {}
    row, version = catalogs["nvidia"]["fabric_manager"], plan["version"]
    name = row[host["os"]["family"]].format(branch=plan["branch"])
    package = options["fabric_manager_package"]
    if plan["source"] == "runfile" and seen["fabric_manager"] != version and not package:
        raise PlanError(
            f"{len(seen['nvswitches'])} NVSwitches want Fabric Manager {version}, which a runfile "
            "does not bring: nvidia_driver_fabric_manager_package must be the URL or path of "
            f"{name}"
        )
    spec = package if package else exact(name, version, host)
    # A package that is there already in this version needs no file to come from.
    local = package if seen["fabric_manager"] != version else ""
    return {"name": name, "package": spec, "local": local, "unit": row["unit"]}


# -- toolkits ----------------------------------------------------------------------------------


def toolkits(catalogs: Data, host: Data, options: Data) -> Data:
    """Return the plan of a host's CUDA toolkits, or raise PlanError."""
    where = repository(catalogs, host, None, options["repository_url"])
    rows = [_toolkit(catalogs, row, options["root"]) for row in options["toolkits"]]
    for row in rows:
        _check_driver(catalogs, row["version"], options.get("driver") or "")
    need = [row for row in rows if not row["src"]]
    source = "none"
    if need and options["source"] != "runfile":
        source = choose_source("repository", where, options["answered"], None)
    elif need:
        names = ", ".join(row["version"] for row in need)
        raise PlanError(f"cuda_source is runfile: cuda_toolkits needs src and sha256 for {names}")
    known = [row["version"] for row in rows]
    if len(set(known)) != len(known):
        raise PlanError(f"cuda_toolkits names a version twice: {', '.join(known)}")
    default = options.get("default") or ""
    if default and default not in known:
        raise PlanError(f"cuda_default is {default!r}; cuda_toolkits has {', '.join(known)}")
    return {"source": source, "repository": where, "toolkits": rows, "default": default,
            "packages": [row["package"] for row in need]}  # fmt: skip


def _toolkit(catalogs: Data, asked: Data, root: str) -> Data:
    """Return one toolkit: its folder, and the package or runfile that brings it."""
    version = quoted("cuda_toolkits version", asked["version"], _TOOLKIT, "12.9")
    src, sha256 = asked.get("src") or "", asked.get("sha256")
    name = catalogs["nvidia_packages"]["toolkit"]["package"]
    return {
        "version": version,
        "path": f"{root}/cuda-{version}",
        "package": name.format(dashed=version.replace(".", "-")),
        "src": src,
        "sha256": check_sha256(f"the sha256 of CUDA {version}", sha256) if src else "",
    }


def _check_driver(catalogs: Data, cuda: str, installed: str) -> None:
    """Raise PlanError where the installed driver is too old for a toolkit, by rows."""
    known = catalogs["nvidia"]
    if not installed:
        return
    rows = [
        row
        for section in ("cuda", "minor_compatibility")
        for row in known[section]
        if versions.matches(cuda, row["cuda"])
    ]
    if rows and not any(versions.matches(installed, row["driver"]) for row in rows):
        told = "; ".join(f"{row['driver']} ({row['source']})" for row in rows)
        raise PlanError(
            f"CUDA {cuda} needs a driver {told}, and driver {installed} is installed: upgrade the "
            "driver first, or choose an older toolkit"
        )
