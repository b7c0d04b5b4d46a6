"""What the lab needs of this machine: Linux, root, and programs, which it installs itself."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from vllm_fleet.lab.errors import LabError, LabRefusal
from vllm_fleet.lab.process import run

# Program -> the Debian or Ubuntu package that brings it.
PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    # With it mmdebstrap finds Debian's keys on Ubuntu, whose apt does not trust them.
    "gpg": "gpg",
    "ip": "iproute2",
    "createrepo_c": "createrepo-c",
    "rpmbuild": "rpm",
    "dpkg-scanpackages": "dpkg-dev",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
# mmdebstrap checks Debian's signatures with it, on Ubuntu too.
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
KEYRING_PACKAGE = "debian-archive-keyring"
INSTALL_LIMIT_S = 900


def require(programs: Mapping[str, str] = PROGRAMS) -> None:
    """Refuse without Linux or root; then see to it that every program is there."""
    refuse_unless_able()
    missing = missing_packages(programs)
    if missing:
        _install(missing)


def refuse_unless_able() -> None:
    """Refuse clearly where the lab cannot work at all."""
    if platform.system() != "Linux":
        raise LabRefusal(
            f"the lab needs Linux, and this is {platform.system()}",
            hint="run it in a Linux machine or VM; the other commands work here",
        )
    if os.geteuid() != 0:
        raise LabRefusal(
            "the lab needs root: it mounts, boots hosts and makes a network bridge",
            hint="run it with sudo, or in a VM of its own",
        )


def missing_packages(programs: Mapping[str, str] = PROGRAMS) -> list[str]:
    """Return the packages whose programs are not on this machine."""
    missing = {package for program, package in programs.items() if not shutil.which(program)}
    if not KEYRING.exists():
        missing.add(KEYRING_PACKAGE)
    return sorted(missing)


def _install(packages: list[str]) -> None:
    if not shutil.which("apt-get"):
        raise LabRefusal(
            f"the lab misses programs of the packages {', '.join(packages)}",
            hint="install what brings them (on Debian and Ubuntu the lab does so itself)",
        )
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    try:
        run(command, limit=INSTALL_LIMIT_S, env=quiet)
    except LabError:
        # The machine's package lists are missing or old.
        run(["apt-get", "update"], limit=INSTALL_LIMIT_S, env=quiet)
        run(command, limit=INSTALL_LIMIT_S, env=quiet)
