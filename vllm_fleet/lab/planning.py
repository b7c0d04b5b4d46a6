"""Work out a host's plan: its layers, its files, its hardware, its Python."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from vllm_fleet.lab import hardware, hosts, keys, labdata, personas
from vllm_fleet.lab.errors import LabRefusal
from vllm_fleet.lab.plan import Plan
from vllm_fleet.lab.settings import Lab
from vllm_fleet.lab.state import Host

REPOSITORY = """\
[{id}]
name={title}
baseurl={url}
enabled=1
gpgcheck=0
"""


def plan(lab: Lab, base: Path, host: Host) -> Plan:
    """Return the plan of one host; what it needs from the cache is built."""
    layer = personas.ensure(lab, base, host.persona)
    return Plan(
        name=host.name,
        address=lab.address(host.number),
        bridge=lab.bridge,
        cgroup=hosts.cgroup(lab, host.name),
        layers=[str(layer), str(base)],
        host_key=lab.host_key(host.name).read_text(encoding="utf-8"),
        authorized_key=keys.public_key(lab.client_key),
        files=_sources(lab, host.persona),
        hardware_tree=_hardware(lab, host),
        binds=[*map(_checked, host.binds), *_shared(lab), *_python_binds(host.python)],
        python=_python(host.python),
    )


def check(host: Host) -> None:
    """Refuse a host that asks for what is not there, before anything is done."""
    labdata.persona(host.persona)
    if host.hardware:
        hardware.load(host.hardware)
    _python(host.python)
    for bind in host.binds:
        _checked(bind)


def _sources(lab: Lab, name: str) -> dict[str, str]:
    """Return the one package source that a blank host has: the lab's mirror."""
    persona = labdata.persona(name)
    url = f"{lab.mirror_url}/{persona['family']}/{name}/"
    repository = persona["repository"]
    if persona["family"] == "deb":
        return {f"/etc/apt/sources.list.d/{repository['file']}": f"deb [trusted=yes] {url} ./\n"}
    entry = REPOSITORY.format(id=repository["id"], title=persona["title"], url=url)
    return {f"/etc/yum.repos.d/{repository['file']}": entry}


def _hardware(lab: Lab, host: Host) -> str:
    """Write the host's hardware beside its plan; return where it is, or nothing."""
    if not host.hardware:
        return ""
    data = hardware.load(host.hardware)
    target = lab.host_dir(host.name) / "hardware"
    if target.exists():
        shutil.rmtree(target)
    hardware.write(target, data)
    return str(target)


def _shared(lab: Lab) -> list[str]:
    """Return what every host sees: the models, as from a site's share, and the stand-in engine."""
    models = lab.mirror_root / "models"
    models.mkdir(parents=True, exist_ok=True)
    engine = labdata.DATA / "engine"
    return [f"{models}:/srv/models", f"{engine}:/usr/local/lib/vllm-fleet-lab"]


def _python(version: str) -> str:
    """Return where an older Python is on this machine (its builds run from where they are)."""
    if not version:
        return ""
    found = sorted(pyenv().glob(f"{version}*/bin/python3"))
    if not found:
        raise LabRefusal(
            f"there is no Python {version} in {pyenv()}", hint=f"pyenv install {version}"
        )
    return str(found[-1].parents[1])


def pyenv() -> Path:
    """Return where pyenv keeps its Pythons."""
    return Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def _python_binds(version: str) -> list[str]:
    place = _python(version)
    return [f"{place}:{place}"] if place else []


def _checked(bind: str) -> str:
    source, _, target = bind.partition(":")
    if not Path(source).is_absolute() or not target.startswith("/"):
        raise LabRefusal(f"{bind!r} is no bind", hint="give SOURCE:TARGET, both absolute paths")
    if not Path(source).exists():
        raise LabRefusal(f"bind {bind!r}: there is no {source}")
    return bind
