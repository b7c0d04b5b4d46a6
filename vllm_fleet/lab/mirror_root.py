"""Run a command inside the lab's base root, over a throw-away overlay.

The mirror is filled by the base root's own Python, so that the controller's version does not
matter.  Nothing is written into the base root, and since every mount lives in the command's
own namespaces, nothing is left behind when it ends or is killed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vllm_fleet.lab.mirror_files import MirrorError
from vllm_fleet.lab.process import contained, die_with_parent

WORK = "/mirror-work"
# $1: base root, $2: work folder, $3: file with one path to show per line; then the command.
ENTER = """
base=$1 work=$2 shown=$3; shift 3
mkdir -p "$work/.upper" "$work/.overlay" "$work/.root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/.upper,workdir=$work/.overlay" \
    "$work/.root"
root=$work/.root
mkdir -p "$root@WORK@" "$root/proc" "$root/dev" "$root/tmp"
mount --bind "$work" "$root@WORK@"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
while IFS= read -r path; do
    if [ -d "$path" ]; then mkdir -p "$root$path"
    else mkdir -p "$root${path%/*}"; rm -f "$root$path"; : >"$root$path"; fi
    mount --bind "$path" "$root$path"
done <"$shown"
exec chroot "$root" "$@"
""".replace("@WORK@", WORK)


@dataclass
class Root:
    """A base root, the work folder that is seen inside it, and what else it may see."""

    base: Path
    work: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    shown: Sequence[Path] = ()

    def inside(self, path: Path) -> str:
        """How a path of the work folder is called inside."""
        return f"{WORK}/{path.relative_to(self.work)}"

    def run(
        self, command: Sequence[str], limit: float = 1800, extra: Mapping[str, str] | None = None
    ) -> str:
        """Run ``command`` inside; return its standard output, or raise with its last lines."""
        shown = self.work / ".shown"
        shown.write_text("".join(f"{path}\n" for path in self.shown))
        script = ["sh", "-eu", "-c", ENTER, "enter"]
        enter = [*script, *map(str, (self.base, self.work, shown)), *command]
        environment = {**_plain(), **self.environment, **(extra or {})}
        return _run(contained(enter), command, limit, environment)


def _plain() -> dict[str, str]:
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "HOME": "/root", "LC_ALL": "C.UTF-8", "LANGUAGE": "C"}


def _run(
    argv: Sequence[str], shown: Sequence[str], limit: float, environment: Mapping[str, str]
) -> str:
    try:
        done = subprocess.run(
            argv,
            env=environment,
            timeout=limit,
            capture_output=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent(),
        )
    except subprocess.TimeoutExpired as error:
        message = f"no end after {limit:.0f} s: {' '.join(shown)}"
        raise MirrorError(message) from error
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-15:])
        raise MirrorError(f"exit {done.returncode}: {' '.join(shown)}\n{last}")
    return done.stdout
