"""The disk image of the emulated machine: built once, then cached under its recipe's digest.

mmdebstrap fills a directory, ``mkfs.ext4 -d`` turns it into a partition of a plain file, and the
machine itself, started once with the kernel handed in from outside, writes its own boot loader to
its own disk. So the building machine needs neither loop devices nor mounts nor GRUB, and a killed
build leaves only a directory behind, which the next call removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import struct
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from vllm_fleet.lab.errors import LabError
from vllm_fleet.lab.process import contained, run

SUITE = "bookworm"
DATA = Path(__file__).parent / "data" / "vm"
ROOT_UUID = uuid.UUID("5a1ab000-0000-4000-8000-000000000014")
DISK_SIZE = 4 << 30
PARTITION_START = 1 << 20
SECTOR = 512
LINUX_PARTITION = 0x83
BUILD_LIMIT_S = 1800
SEAL_LIMIT_S = 600
PROGRAMS = (
    "etc/initramfs-tools/hooks/vllm-fleet-lab",
    "usr/local/lib/vllm-fleet-lab/seal",
    "usr/local/lib/vllm-fleet-lab/seed",
)
STEP_LIMIT_S = 600
RECIPE = 2  # raise it when this file changes what the image holds


def digest() -> str:
    """Name the recipe: everything in data/vm and the constants above."""
    total = hashlib.sha256(f"{RECIPE} {SUITE} {DISK_SIZE} {ROOT_UUID}".encode())
    for path in sorted(DATA.rglob("*")):
        if path.is_file():
            total.update(f"\n{path.relative_to(DATA)}\n".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def image_path(cache: Path) -> Path:
    """Return where the image of the present recipe lies, built or not."""
    return cache / f"vm-{digest()}.qcow2"


def ensure_image(cache: Path) -> Path:
    """Return the cached image, and build it first where there is none."""
    image = image_path(cache)
    if image.exists():
        return image
    cache.mkdir(parents=True, exist_ok=True)
    with _build_lock(cache):
        if not image.exists():
            _build(image)
            _remove_old_images(image)
    return image


def clean_leftovers(cache: Path) -> None:
    """Remove what a killed build left; a build that still runs holds the lock and is let be."""
    if not any(cache.glob("vm-build-*")):
        return
    with (cache / "vm-build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        _remove_builds(cache)


@contextmanager
def _build_lock(cache: Path) -> Iterator[None]:
    with (cache / "vm-build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _remove_builds(cache)
        yield


def _remove_builds(cache: Path) -> None:
    for left in cache.glob("vm-build-*"):
        if left.is_dir():
            shutil.rmtree(left)


def _remove_old_images(image: Path) -> None:
    for old in image.parent.glob("vm-*.qcow2"):
        if old != image:
            old.unlink()


def _build(image: Path) -> None:
    work = image.parent / f"vm-build-{os.getpid()}"
    work.mkdir()
    try:
        root, disk = work / "root", work / "disk.raw"
        _make_root(root)
        _make_disk(disk, root)
        _seal(disk, root, work / "seal.log")
        _step(["qemu-img", "convert", "-O", "qcow2", str(disk), str(work / "image.qcow2")])
        (work / "image.qcow2").replace(image)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _make_root(root: Path) -> None:
    """Fill ``root`` with Debian and our few files."""
    _step(mmdebstrap_argv(root), limit=BUILD_LIMIT_S)


def mmdebstrap_argv(root: Path) -> list[str]:
    """Return the command that makes the root file system (mirrors: those of this machine)."""
    packages = _words(DATA / "packages")
    masked = " ".join(_words(DATA / "masked"))
    inside = 'chroot "$1"'
    no_device = "grub-pc grub-pc/install_devices_empty boolean true"
    essential = [
        f'umask 022 && cp -R --no-preserve=mode,ownership "{DATA}/root/." "$1/"',
        "chmod 755 " + " ".join(f'"$1/{program}"' for program in PROGRAMS),
        f"echo {no_device} | {inside} debconf-set-selections",
    ]
    customize = [
        f"{inside} systemctl enable systemd-networkd vllm-fleet-lab-seed chrony ssh",
        f"{inside} systemctl mask {masked}",
        f"{inside} systemctl set-default multi-user.target",
        'rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/resolv.conf "$1"/etc/apt/sources.list',
        'echo localhost >"$1"/etc/hostname; : >"$1"/etc/machine-id',
    ]
    return [
        "mmdebstrap", "--quiet", "--mode=root", "--variant=apt", "--format=directory",
        "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*", f"--include={','.join(packages)}",
        *[f"--essential-hook={hook}" for hook in essential],
        *[f"--customize-hook={hook}" for hook in customize],
        SUITE, str(root),
    ]  # fmt: skip


def _words(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _make_disk(disk: Path, root: Path) -> None:
    """Write a plain file with a partition table and one file system filled from ``root``."""
    with disk.open("wb") as file:
        file.write(partition_table(PARTITION_START // SECTOR, DISK_SIZE // SECTOR))
        file.truncate(DISK_SIZE)
    blocks = (DISK_SIZE - PARTITION_START) // 1024
    _step(
        ["mkfs.ext4", "-q", "-F", "-L", "root", "-U", str(ROOT_UUID), "-d", str(root),
         "-E", f"offset={PARTITION_START},lazy_itable_init=0", str(disk), f"{blocks}k"],
        env={"MKE2FS_CONFIG": str(DATA / "mke2fs.conf")},
    )  # fmt: skip


def partition_table(start: int, end: int) -> bytes:
    """Return a master boot record with one bootable Linux partition (sectors start to end)."""
    no_chs = b"\xfe\xff\xff"
    entry = struct.pack("<B3sB3sII", 0x80, no_chs, LINUX_PARTITION, no_chs, start, end - start)
    signature = struct.pack("<I", 0x14F1EE70)
    return bytes(440) + signature + bytes(2) + entry + bytes(48) + b"\x55\xaa"


def _seal(disk: Path, root: Path, log: Path) -> None:
    """Start the machine once, with the kernel from outside; it installs its boot loader."""
    kernel = next((root / "boot").glob("vmlinuz-*"))
    initrd = next((root / "boot").glob("initrd.img-*"))
    command = (
        f"root=UUID={ROOT_UUID} ro console=ttyS0,115200 mitigations=off panic=1 quiet "
        "init=/usr/local/lib/vllm-fleet-lab/seal"
    )
    argv = [
        "qemu-system-x86_64", "-accel", "tcg", "-m", "512", "-nodefaults", "-no-user-config",
        "-display", "none", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initrd),
        "-append", command, "-serial", f"file:{log}",
        "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe",
    ]  # fmt: skip
    _step(argv, limit=SEAL_LIMIT_S)
    said = log.read_text(errors="replace") if log.exists() else ""
    if "vllm-fleet-lab-seal: OK" not in said:
        raise LabError(
            f"the machine did not install its boot loader; its console says:\n{said[-2000:]}"
        )


def _step(
    argv: list[str], limit: float = STEP_LIMIT_S, env: Mapping[str, str] | None = None
) -> None:
    """Run one step of the build in namespaces that end with us, whatever ends us."""
    run(["nice", "-n", "10", *contained(argv)], limit=limit, env=env)
