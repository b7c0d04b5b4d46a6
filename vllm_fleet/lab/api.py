"""The lab for Python callers: up, status, reset, down. Each is idempotent, and one runs at a time.

Everything that a host mounts lies in a mount namespace of its own and ends with its processes;
what else there is (folders, bridge, control groups, processes) `down` finds by the lab's names,
so that it cleans up just as well after an `up` that was killed at any point.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from vllm_fleet.lab import (
    base,
    cgroups,
    faults,
    fleet,
    hosts,
    inventory,
    keys,
    limits,
    machine,
    mirror,
    network,
    personas,
    planning,
    process,
    state,
    vm,
)
from vllm_fleet.lab.errors import LabRefusal
from vllm_fleet.lab.plan import Plan
from vllm_fleet.lab.settings import Lab, current
from vllm_fleet.lab.state import Host

Tell = Callable[[str], None]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Raised:
    """What `up` leaves: the inventory file, and the hosts that it was asked for."""

    inventory: Path
    hosts: tuple[str, ...]


def silent(_line: str) -> None:
    """Tell nobody."""


def up(
    asked: dict[str, str] | None = None,
    *,
    lab: Lab | None = None,
    hardware: str = "",
    python: str = "",
    binds: Iterable[str] = (),
    contents: bool = False,
    tell: Tell = silent,
) -> Raised:
    """Raise hosts (name: persona; None is the demo fleet) and return once they answer.

    `hardware`, `python` and `binds` (SOURCE:TARGET, read-only) hold for hosts that are new;
    `contents` also fills the mirror with everything that an engine needs (some minutes at first).
    """
    lab = lab or current()
    machine.require()
    if contents:
        mirror.ensure(lab, _base(lab), tell)
    with state.locked(lab):
        present = state.load(lab)
        wanted = fleet.wanted(asked, present)
        fresh = {name: host for name, host in wanted.items() if name not in present}
        for name, host in fresh.items():
            wanted[name] = replace(
                host, hardware=hardware or host.hardware, python=python, binds=tuple(binds)
            )
            if name != fleet.MACHINE:
                planning.check(wanted[name])
        _raise(lab, {**present, **wanted}, [*wanted], tell)
    _raise_machine(lab, wanted)
    return Raised(lab.inventory_file, tuple(wanted))


def _raise(lab: Lab, known: dict[str, Host], names: list[str], tell: Tell) -> None:
    state.save(lab, known)
    keys.ensure(lab, {name: lab.address(host.number) for name, host in known.items()})
    tell("lab: base root and personas")
    chosen = [known[name] for name in names if name != fleet.MACHINE]
    plans = _plans(lab, [host for host in chosen if not _pids(lab, host.name)])
    limits.lift(lab)
    network.raise_bridge(lab)
    _serve(lab)
    tell(f"lab: booting {', '.join(names)}")
    _together(lambda plan: hosts.start(lab, plan), plans)
    _together(lambda host: _await(lab, host), chosen)
    _write_inventory(lab, known)


def _base(lab: Lab) -> Path:
    with state.locked(lab, "build"):
        return base.ensure(lab)


def _plans(lab: Lab, chosen: list[Host]) -> list[Plan]:
    """Work the hosts out, and build what the cache has not."""
    root = _base(lab)
    with state.locked(lab, "build"):
        personas.remove_leftovers(lab)
        return [planning.plan(lab, root, host) for host in chosen]


def _write_inventory(lab: Lab, known: dict[str, Host]) -> None:
    """Write the inventory of those hosts that run."""
    inventory.write(lab, {name: host for name, host in known.items() if _pids(lab, name)})


def _pids(lab: Lab, name: str) -> list[int]:
    """Return the processes that keep a host running."""
    if name != fleet.MACHINE:
        return hosts.supervisors(lab.host_dir(name))
    return [pid for pid in [vm.status(lab)["pid"]] if isinstance(pid, int)]


def _serve(lab: Lab) -> None:
    lab.mirror_root.mkdir(parents=True, exist_ok=True)
    mirror.start(lab)


def _await(lab: Lab, host: Host) -> None:
    hosts.wait_ready(lab, host.name, lab.address(host.number))


def _raise_machine(lab: Lab, wanted: dict[str, Host]) -> None:
    """Raise the emulated machine; this takes long, so others need not wait for it."""
    if fleet.MACHINE in wanted:
        with state.locked(lab, "machine"):
            vm.up(lab)
        write_inventory(lab)


def _together(work: Callable[[Item], None], items: list[Item]) -> None:
    if not items:
        return
    with ThreadPoolExecutor(max_workers=len(items)) as pool:
        for done in [pool.submit(work, item) for item in items]:
            done.result()


def down(
    names: Iterable[str] | None = None, *, lab: Lab | None = None, purge: bool = False
) -> None:
    """Take hosts down (None: all, and the lab with them); `purge` also empties the cache."""
    lab = lab or current()
    machine.refuse_unless_able()
    with state.locked(lab):
        present = state.load(lab)
        there = {*present, *_found(lab)}
        going = there if names is None else {*fleet.named(names, there)}
        _together(lambda name: _lower(lab, name), sorted(going))
        left = {name: host for name, host in present.items() if name not in going}
        if left:
            _keep(lab, left)
        else:
            _close(lab)
        if purge:
            shutil.rmtree(lab.cache)


def _found(lab: Lab) -> set[str]:
    """Return hosts by what there is of them: a killed `up` may have listed some nowhere."""
    folders = {path.name for path in (lab.home / "hosts").glob("*")}
    return folders | cgroups.names(hosts.cgroup(lab, ""))


def _lower(lab: Lab, name: str) -> None:
    if name == fleet.MACHINE:
        vm.down(lab)
    else:
        hosts.stop(lab, name)
        hosts.remove(lab, name)


def _keep(lab: Lab, left: dict[str, Host]) -> None:
    state.save(lab, left)
    _write_inventory(lab, left)


def _close(lab: Lab) -> None:
    """Remove what belongs to no single host."""
    mirror.stop(lab)
    _end_servers(lab)
    network.remove_bridge(lab)
    limits.restore(lab)
    with state.locked(lab, "build"):
        base.remove_leftovers(lab)
        personas.remove_leftovers(lab)
        if not cgroups.any_left():
            personas.remove_outdated(lab)
    if lab.home.exists():
        shutil.rmtree(lab.home)


def _end_servers(lab: Lab) -> None:
    """End a mirror whose pid is written nowhere (its `up` was killed, or its folder removed)."""
    for pid, argv in process.commands().items():
        if mirror.MODULE in argv and lab.gateway in argv:
            process.tell(pid, signal.SIGTERM)


def reset(names: Iterable[str] | None = None, *, lab: Lab | None = None) -> None:
    """Drop what hosts have written (None: all) and boot them as new."""
    lab = lab or current()
    machine.require()
    with state.locked(lab):
        present = state.load(lab)
        chosen = fleet.named(present if names is None else names, present)
        plans = _plans(lab, [present[name] for name in chosen if name != fleet.MACHINE])
        limits.lift(lab)
        network.raise_bridge(lab)
        _serve(lab)
        _together(lambda plan: _renew(lab, plan), plans)
    if fleet.MACHINE in chosen:
        with state.locked(lab, "machine"):
            vm.reset(lab)


def _renew(lab: Lab, plan: Plan) -> None:
    hosts.stop(lab, plan.name)
    hosts.forget_changes(lab, plan.name)
    hosts.start(lab, plan)
    hosts.wait_ready(lab, plan.name, plan.address)


def status(*, lab: Lab | None = None) -> list[dict[str, Any]]:
    """Return one row per host that the lab remembers."""
    lab = lab or current()
    return [_row(lab, host) for _, host in sorted(state.load(lab).items())]


def _row(lab: Lab, host: Host) -> dict[str, Any]:
    address = lab.address(host.number)
    runs = _pids(lab, host.name)
    answers = bool(runs) and hosts.answers(address)
    state_now = "up" if answers else "running, no ssh" if runs else "stopped"
    return {
        "name": host.name,
        "persona": host.persona,
        "address": address,
        "hardware": host.hardware,
        "state": state_now,
        "faults": sorted(faults.load(lab, host.name)),
        "pid": runs[0] if runs else None,
    }


def break_host(name: str, fault: str, option: str = "", *, lab: Lab | None = None) -> None:
    """Put a fault into a host (`faults.FAULTS` has them all)."""
    lab = lab or current()
    machine.refuse_unless_able()
    with state.locked(lab):
        faults.inject(lab, _breakable(lab, name), fault, option)


def heal_host(name: str, fault: str = "", *, lab: Lab | None = None) -> list[str]:
    """Heal a fault of a host ("": all of them); return which were healed."""
    lab = lab or current()
    machine.refuse_unless_able()
    with state.locked(lab):
        return faults.heal(lab, _breakable(lab, name), fault)


def _breakable(lab: Lab, name: str) -> str:
    fleet.named([name], state.load(lab))
    if name == fleet.MACHINE:
        raise LabRefusal(f"{name} is an emulated machine: the lab has no faults for it")
    return name


def write_inventory(lab: Lab) -> Path:
    """Write the inventory of the hosts that are there; return the file."""
    with state.locked(lab):
        _write_inventory(lab, state.load(lab))
    return lab.inventory_file
