"""Work out a host's plan: its layers, its files, its hardware, its Python."""

from __future__ import annotations

from pathlib import Path

from vllm_fleet.lab import hosts, keys, labdata, personas
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
        binds=[_checked(bind) for bind in host.binds],
    )


def _sources(lab: Lab, name: str) -> dict[str, str]:
    """Return the one package source that a blank host has: the lab's mirror."""
    persona = labdata.persona(name)
    url = f"{lab.mirror_url}/{persona['family']}/{name}/"
    repository = persona["repository"]
    if persona["family"] == "deb":
        return {f"/etc/apt/sources.list.d/{repository['file']}": f"deb [trusted=yes] {url} ./\n"}
    entry = REPOSITORY.format(id=repository["id"], title=persona["title"], url=url)
    return {f"/etc/yum.repos.d/{repository['file']}": entry}


def _checked(bind: str) -> str:
    source, _, target = bind.partition(":")
    if not Path(source).is_absolute() or not target.startswith("/"):
        raise LabRefusal(f"{bind!r} is no bind", hint="give SOURCE:TARGET, both absolute paths")
    if not Path(source).exists():
        raise LabRefusal(f"bind {bind!r}: there is no {source}")
    return bind
