"""The seed disk: what makes the one cached image this machine in this lab.

It is a bare tar archive without a file system; a unit in the image unpacks it over / at the first
boot. Names, keys and addresses belong to a lab, not to the cached image.
"""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

SECTOR = 512


@dataclass(frozen=True)
class Identity:
    """Who the machine is: its name, its place in the network, its keys."""

    name: str
    address: str
    prefix: int
    gateway: str
    host_key: str
    authorized_key: str


def files(who: Identity) -> dict[str, tuple[int, str]]:
    """Return mode and text of every file that the machine takes from the lab."""
    network = (
        "[Match]\nType=ether\n\n"
        f"[Network]\nAddress={who.address}/{who.prefix}\nLinkLocalAddressing=no\nDHCP=no\n"
        f"IPv6AcceptRA=no\n"
    )
    return {
        "etc/hostname": (0o644, f"{who.name}\n"),
        "etc/hosts": (0o644, f"127.0.0.1 localhost\n{who.address} {who.name}\n"),
        "etc/systemd/network/10-lab.network": (0o644, network),
        "etc/chrony/sources.d/lab.sources": (0o644, f"server {who.gateway} iburst\n"),
        "etc/ssh/ssh_host_ed25519_key": (0o600, who.host_key),
        "root/.ssh/authorized_keys": (0o600, who.authorized_key),
    }


def archive(who: Identity) -> bytes:
    """Return the archive, a whole number of sectors long."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        tar.addfile(_folder("root/.ssh"))
        for name, (mode, text) in files(who).items():
            member = tarfile.TarInfo(name)
            member.mode, member.size = mode, len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    data = out.getvalue()
    return data + bytes(-len(data) % SECTOR)


def _folder(name: str) -> tarfile.TarInfo:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, 0o700
    return folder


def write(path: Path, who: Identity) -> None:
    """Write the seed disk; it holds a private key."""
    path.touch(mode=0o600)
    path.write_bytes(archive(who))
