"""Keep one host running: `python -m vllm_fleet.lab.supervisor HOST_FOLDER`.

It is the first process in mount and process namespaces of its own (see ``hosts.start``): the guest
and its mounts end with it. A guest that asks for a reboot is started again.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from vllm_fleet.lab import cgroups, plan, process, seed
from vllm_fleet.lab.plan import Plan

# systemd-nspawn ends with this status when the guest asked for a reboot.
REBOOT = 133


class Supervisor:
    """One host's life, from its first boot to its power-off."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan: Plan = plan.read(folder)
        self.guest: subprocess.Popen[bytes] | None = None
        self.stopping = False

    def run(self) -> int:
        """Boot the host, again after each reboot, until it powers off or we are told to stop."""
        signal.signal(signal.SIGTERM, self._stop)
        cgroups.join(self.plan.cgroup)
        self._mount()
        status = REBOOT
        while status == REBOOT and not self.stopping:
            status = self._boot()
        return status

    def _mount(self) -> None:
        root, upper, work = (self.folder / name for name in ("root", "upper", "work"))
        fresh = not upper.exists()
        for folder in (root, upper, work):
            folder.mkdir(exist_ok=True)
        layers = ":".join(self.plan.layers)
        options = f"lowerdir={layers},upperdir={upper},workdir={work}"
        process.run(["mount", "-t", "overlay", "overlay", "-o", options, root])
        if fresh:
            seed.sow(root, self.plan)
        # systemd-nspawn wants /run/systemd/nspawn on a tmpfs; this also keeps its traces in here.
        process.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"])

    def _boot(self) -> int:
        with (self.folder / "console.log").open("ab") as console:
            self.guest = subprocess.Popen(
                command(self.folder, self.plan),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                preexec_fn=process.die_with_parent(),
            )
        return self.guest.wait()

    def _stop(self, _signum: int, _frame: FrameType | None) -> None:
        """Ask the guest to power off (systemd-nspawn passes this signal on)."""
        self.stopping = True
        if self.guest is not None and self.guest.poll() is None:
            self.guest.send_signal(signal.SIGTERM)


def command(folder: Path, host: Plan) -> list[str]:
    """Return systemd-nspawn's command line."""
    return [
        "systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit",
        f"--directory={folder / 'root'}", f"--machine={host.name}",
        f"--network-bridge={host.bridge}", "--link-journal=no", "--resolv-conf=off",
        "--timezone=off", "--console=pipe", *(f"--bind-ro={bind}" for bind in host.binds),
    ]  # fmt: skip


def main() -> int:
    """Run one supervisor, detached from whoever started it."""
    return Supervisor(Path(sys.argv[1])).run()


if __name__ == "__main__":
    sys.exit(main())
