"""One qemu process: its command line, its control socket, its tap, its end.

The process runs detached and is found again by the path of its control socket in its command
line, so a lost pid file or a killed ``up`` hides nothing.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vllm_fleet.lab.errors import LabError
from vllm_fleet.lab.process import run

QEMU = "qemu-system-x86_64"
NODES = 2
NODE_MB = 512
QMP_LIMIT_S = 60.0
END_LIMIT_S = 10.0
TRANSLATION_CACHE_MB = 192


@dataclass(frozen=True)
class Machine:
    """Where one emulated machine keeps its files, and how the network knows it."""

    name: str
    home: Path
    bridge: str
    mac: str

    @property
    def overlay(self) -> Path:
        return self.home / "disk.qcow2"

    @property
    def seed(self) -> Path:
        return self.home / "seed.tar"

    @property
    def console(self) -> Path:
        return self.home / "console.log"

    @property
    def control(self) -> Path:
        return self.home / "qmp.sock"

    @property
    def tap(self) -> str:
        """Name the tap, unlike that of another lab; an interface name holds 15 characters."""
        return f"{self.bridge[:12]}-vm"


def command_line(machine: Machine) -> list[str]:
    """Return qemu's command line: two CPUs, one a NUMA node, a disk of its own, a seed disk."""
    line = [
        QEMU, "-name", f"vllm-fleet-{machine.name}", "-nodefaults", "-no-user-config",
        "-machine", "pc", "-accel", f"tcg,thread=multi,tb-size={TRANSLATION_CACHE_MB}",
        "-cpu", "max", "-smp", f"{NODES},sockets={NODES},cores=1,threads=1",
        "-m", str(NODES * NODE_MB),
    ]  # fmt: skip
    for node in range(NODES):
        line += ["-object", f"memory-backend-ram,id=memory{node},size={NODE_MB}M"]
        line += ["-numa", f"node,nodeid={node},cpus={node},memdev=memory{node}"]
    return [
        *line, "-display", "none", "-serial", f"file:{machine.console}",
        "-drive", f"file={machine.overlay},format=qcow2,if=virtio,cache=unsafe",
        "-drive", f"file={machine.seed},format=raw,if=virtio,readonly=on",
        "-netdev", f"tap,id=net0,ifname={machine.tap},script=no,downscript=no",
        "-device", f"virtio-net-pci,netdev=net0,mac={machine.mac},romfile=",
        "-device", "virtio-rng-pci", "-qmp", f"unix:{machine.control},server=on,wait=off",
        "-pidfile", str(machine.home / "pid"), "-daemonize",
    ]  # fmt: skip


def create_overlay(machine: Machine, image: Path) -> None:
    """Put an empty layer over the image; a half-made one never bears the final name."""
    making = machine.home / "disk.making"
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(image), str(making)])
    making.replace(machine.overlay)


def start(machine: Machine) -> None:
    """Plug the tap into the bridge and start the process in the background."""
    plug(machine)
    run(command_line(machine))


def stop(machine: Machine) -> None:
    """Cut the power, wait for the process to go, and pull the tap."""
    for pid in pids(machine):
        _end(machine, pid)
    unplug(machine)


def pids(machine: Machine) -> list[int]:
    """Return the processes that run this machine (one, or none)."""
    mark = f"unix:{machine.control},".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _runs_qemu(entry, mark):
            found.append(int(entry.name))
    return found


def _runs_qemu(process: Path, mark: bytes) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:  # the process went while we looked
        return False
    return Path(os.fsdecode(words[0])).name == QEMU and any(w.startswith(mark) for w in words)


def _end(machine: Machine, pid: int) -> None:
    try:
        Control(machine, limit=3.0).execute("quit")
    except (OSError, LabError):
        _signal(pid, signal.SIGTERM)
    if not _gone(pid, END_LIMIT_S):
        _signal(pid, signal.SIGKILL)
        _gone(pid, END_LIMIT_S)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _gone(pid: int, limit: float) -> bool:
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if not Path(f"/proc/{pid}").exists() or _is_zombie(pid):
            return True
        time.sleep(0.05)
    return False


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def plug(machine: Machine) -> None:
    """Make the tap anew, as a port of the lab's bridge."""
    unplug(machine)
    run(["ip", "tuntap", "add", "dev", machine.tap, "mode", "tap"])
    run(["ip", "link", "set", machine.tap, "master", machine.bridge, "up"])


def unplug(machine: Machine) -> None:
    """Remove the tap if there is one."""
    if Path(f"/sys/class/net/{machine.tap}").exists():
        run(["ip", "link", "delete", machine.tap])


class Control:
    """The machine's control socket (QMP): one command, one answer."""

    def __init__(self, machine: Machine, limit: float = QMP_LIMIT_S) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(limit)
        try:
            self._socket.connect(str(machine.control))
        except OSError:
            self._socket.close()
            raise
        self._stream = self._socket.makefile("rw", encoding="utf-8")
        self._stream.readline()  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: object) -> Any:
        """Run one command and return its answer; events in between are passed over."""
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._stream.flush()
        while line := self._stream.readline():
            said = json.loads(line)
            if "error" in said:
                raise LabError(f"the emulated machine refused {command}: {said['error']['desc']}")
            if "return" in said:
                return said["return"]
        return None  # "quit" may close the socket before it answers

    def monitor(self, line: str) -> str:
        """Run one line of the human monitor, which answers with text."""
        return str(self.execute("human-monitor-command", **{"command-line": line})).strip()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_reason: object) -> None:
        self.close()
