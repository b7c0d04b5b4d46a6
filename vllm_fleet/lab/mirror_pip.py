"""Carry this machine's pip configuration into the lab's base root.

Whatever lets the controller's pip find packages (a site's index, a folder of wheels, a
certificate) must work inside too: settings are merged into one file, and the local files and
folders that they name are shown at the same place.
"""

from __future__ import annotations

import configparser
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

SECTIONS = ("global", "install", "download")
CPU_TORCH = "VLLM_FLEET_LAB_CPU_TORCH"
NETWORK_NAMES = (
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)
# Settings of the controller that would bend the work inside.
DROPPED = ("PIP_CONFIG_FILE", "PIP_REQUIRE_VIRTUALENV", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")
NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts")


def config_files(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Where pip looks for settings on Linux, the weakest first."""
    system = environment.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    user = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    found = [Path(folder) / "pip/pip.conf" for folder in reversed(system.split(":"))]
    found += [Path("/etc/pip.conf"), home / ".pip/pip.conf", user / "pip/pip.conf"]
    if named := environment.get("PIP_CONFIG_FILE"):
        found.append(Path(named))
    return [path for path in found if path.is_file()]


def settings(files: Iterable[Path]) -> dict[str, dict[str, str]]:
    """The merged settings, by section; a later file wins."""
    parser = configparser.RawConfigParser()
    parser.read(files)
    return {name: dict(parser[name]) for name in SECTIONS if parser.has_section(name)}


def as_file(merged: Mapping[str, Mapping[str, str]]) -> str:
    """The merged settings as one ``pip.conf``."""
    lines = []
    for section, values in merged.items():
        lines.append(f"[{section}]")
        lines += ["{} = {}".format(key, " ".join(value.split())) for key, value in values.items()]
    return "\n".join(lines) + "\n"


def environment_inside(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that pip needs inside."""
    kept = {name: environment[name] for name in NETWORK_NAMES if name in environment}
    for name, value in environment.items():
        if name.startswith("PIP_") and name not in DROPPED:
            kept[name] = value
    return kept


def cpu_torch_options(environment: Mapping[str, str]) -> list[str]:
    """pip's options for the place of CPU builds of torch that the user named."""
    place = environment.get(CPU_TORCH, "")
    if not place:
        return []
    is_index = "://" in place and not place.endswith((".html", ".htm"))
    return ["--extra-index-url" if is_index else "--find-links", place]


def local_paths(values: Iterable[str]) -> list[Path]:
    """Existing local files and folders that these settings name."""
    found = set()
    for value in values:
        for word in value.split():
            path = _as_path(word)
            if path is not None and path.exists():
                found.add(_with_siblings(path))
    return _outermost(found)


def _as_path(word: str) -> Path | None:
    if word.startswith("file://"):
        return Path(unquote(urlsplit(word).path))
    return Path(word) if word.startswith("/") else None


def _with_siblings(path: Path) -> Path:
    """A folder index links to files beside it (``../files/``), so its parent must be seen."""
    if path.is_dir() and len(path.parent.parts) > 2:
        return path.parent
    return path


def _outermost(paths: set[Path]) -> list[Path]:
    return sorted(path for path in paths if not paths.intersection(path.parents))


def paths_to_show(
    environment: Mapping[str, str], merged: Mapping[str, Mapping[str, str]]
) -> list[Path]:
    """Everything local that pip needs inside, and how names are resolved."""
    values = [value for section in merged.values() for value in section.values()]
    values += environment_inside(environment).values()
    values += [environment.get(CPU_TORCH, "")]
    network = [Path(name) for name in NETWORK_FILES if Path(name).exists()]
    return local_paths(values) + network


def home_of(environment: Mapping[str, str]) -> Path:
    """The home folder whose pip settings count."""
    return Path(environment.get("HOME") or Path.home())
