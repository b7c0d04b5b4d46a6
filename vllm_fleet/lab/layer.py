"""Build a persona's layer: `python -m vllm_fleet.lab.layer PERSONA BASE SCRATCH`.

It runs in namespaces of its own (see ``process.contained``); SCRATCH/upper is the layer.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from vllm_fleet.lab import labdata, rootfs
from vllm_fleet.lab.process import run

PLATFORM_PYTHON = "/usr/libexec/platform-python"


def main() -> None:
    """Mount the overlay and make the persona in it."""
    name, base, scratch = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    root = mount(base, scratch)
    persona = labdata.persona(name)
    make(root, persona, labdata.read(f"families/{persona['family']}"))
    run(["umount", root])


def mount(base: Path, scratch: Path) -> Path:
    """Mount an overlay whose changes come to lie in SCRATCH/upper."""
    root, upper, work = (scratch / part for part in ("root", "upper", "work"))
    for folder in (root, upper, work):
        folder.mkdir(parents=True)
    options = f"lowerdir={base},upperdir={upper},workdir={work}"
    run(["mount", "-t", "overlay", "overlay", "-o", options, root])
    return root


def make(root: Path, persona: dict[str, Any], family: dict[str, Any]) -> None:
    """Turn the base root into the persona."""
    rootfs.customise(root, family)
    rootfs.customise(root, persona)
    if persona["system_python"] == "hidden":
        hide_python(root)


def hide_python(root: Path) -> None:
    """Move the system's Python where EL8 has it: /usr/bin/python3.11 is then free."""
    source = root / "usr/bin/python3.11"
    target = rootfs.below(root, PLATFORM_PYTHON)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
    target.chmod(0o755)
    source.unlink()
    rootfs.link(root, "/usr/bin/python3", PLATFORM_PYTHON)


if __name__ == "__main__":
    main()
