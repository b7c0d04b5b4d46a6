"""Start, stop and look at lab hosts."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from vllm_fleet.lab import cgroups, network
from vllm_fleet.lab.errors import LabError
from vllm_fleet.lab.plan import Plan
from vllm_fleet.lab.process import commands, contained, tell
from vllm_fleet.lab.settings import Lab

MODULE = "vllm_fleet.lab.supervisor"
BOOT_LIMIT_S = 90
POWER_OFF_LIMIT_S = 8
STEP_S = 0.1


def start(lab: Lab, plan: Plan) -> None:
    """Start a host's supervisor, unless it runs already."""
    folder = lab.host_dir(plan.name)
    if supervisors(folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    plan.write(folder)
    with (folder / "supervisor.log").open("ab") as log:
        # setsid forks: the supervisor is nobody's child. It is the first process in namespaces of
        # its own: however it ends, the kernel ends the guest and clears the mounts with it.
        subprocess.run(
            [
                "setsid", "--fork", *contained([sys.executable, "-m", MODULE, folder]),
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=_environment(),
            check=True,
        )  # fmt: skip


def _environment() -> dict[str, str]:
    """Return what a supervisor needs: this package, wherever it stands, and a plain locale."""
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C",
    }


def supervisors(folder: Path) -> list[int]:
    """Return the processes that keep this host running (by the folder on their command line)."""
    return [*_supervisors(folder)]


def _supervisors(folder: Path) -> dict[int, str]:
    """Return the same with their programs: the supervisor itself, and what put it in its place."""
    found = commands()
    return {pid: argv[0] for pid, argv in found.items() if argv[-2:] == [MODULE, str(folder)]}


def wait_ready(lab: Lab, name: str, address: str, limit: float = BOOT_LIMIT_S) -> None:
    """Return when the host answers on its ssh port; else say what its console says."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if _answers_soon(address):
            return
        if not supervisors(lab.host_dir(name)):
            raise LabError(f"{name}: the host ended\n{last_words(lab, name)}")
    raise LabError(f"{name}: no ssh at {address} after {limit:.0f} s\n{last_words(lab, name)}")


def _answers_soon(address: str, tries: int = 20) -> bool:
    """Try for about two seconds; looking through all processes between tries would cost more."""
    for _ in range(tries):
        if answers(address):
            return True
        time.sleep(STEP_S)
    return False


def answers(address: str, limit: float = 2) -> bool:
    """Say whether an ssh server answers there."""
    try:
        with socket.create_connection((address, 22), timeout=limit) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def last_words(lab: Lab, name: str) -> str:
    """Return the end of what the host and its supervisor wrote."""
    folder = lab.host_dir(name)
    logs = (folder / "supervisor.log", folder / "console.log")
    lines = [
        line
        for log in logs
        if log.exists()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
    ]
    return "\n".join(lines)


def stop(lab: Lab, name: str) -> None:
    """Power a host off, or cut its power where it does not end; nothing of it runs afterwards."""
    folder = lab.host_dir(name)
    for pid, program in _supervisors(folder).items():
        if Path(program).name not in ("setsid", "unshare"):
            tell(pid, signal.SIGTERM)
    deadline = time.monotonic() + POWER_OFF_LIMIT_S
    while (left := supervisors(folder)) and time.monotonic() < deadline:
        time.sleep(STEP_S)
    for pid in left:
        tell(pid, signal.SIGKILL)
    cgroups.kill(cgroup(lab, name))
    network.remove_link(name)


def forget_changes(lab: Lab, name: str) -> None:
    """Drop everything that a stopped host has written: it boots as new."""
    for part in ("upper", "work", "root"):
        _remove(lab.host_dir(name) / part)
    (lab.host_dir(name) / "faults.json").unlink(missing_ok=True)


def remove(lab: Lab, name: str) -> None:
    """Remove every file of a stopped host."""
    _remove(lab.host_dir(name))


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def cgroup(lab: Lab, name: str) -> str:
    """Return the name of a host's control group, unlike that of any other lab's host."""
    return f"{lab.bridge}-{name}"


def cgroup_processes(lab: Lab, name: str) -> set[int]:
    """Return every process of a host."""
    return cgroups.processes(cgroup(lab, name))
