"""Measure ``validate`` on a generated fleet: seconds and peak memory.

    python tests/bench/validate.py [HOSTS] [--own]

With --own every host has files of its own with a platform, instances and a mistake in them.

The target is 1,000 hosts in at most 5 s and 300 MB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOSTS = """---
all:
  vars:
    vllm_fleet: {name: bench, release_set: ascend-2026.08}
    ansible_python_interpreter: /usr/bin/python3
    vllm_build_source: https://mirror.example/sources/
    python_runtime_source: archive
    python_runtime_archive: https://mirror.example/python.tar.gz
    python_runtime_archive_sha256: "%(sum)s"
    vllm_fleet_platform:
      {os: openEuler-22.03-SP4, arch: aarch64, chip: a3, devices: 16, driver: 26.0.RC1}
    vllm_service_instances:
      - name: deepseek-r1
        model: /data/models/DeepSeek-R1-W8A8
        port: 8000
        arguments:
          {quantization: ascend, tensor-parallel-size: 16, max-num-seqs: 16, max-model-len: 16384}
  children:
    ascend:
      hosts:
%(hosts)s
    serving: {children: {ascend: }}
    builders: {hosts: {npu-0000: }}
%(racks)s
"""

OWN = """---
vllm_fleet_platform:
  {os: openEuler-22.03-SP4, arch: aarch64, chip: a3, devices: 16, driver: "25.0.%(n)d"}
vllm_service_instances:
  - name: r1-%(n)d
    model: /data/models/DeepSeek-R1-W8A8
    port: %(port)d
    arguments: {quantization: ascend, max-num-seq: %(n)d, swap_space: 4, tensor-parallel-size: 16}
"""


def inventory(count: int) -> str:
    """Return an inventory in which every host has values of its own, and a rack."""
    hosts = "\n".join(
        f"        npu-{n:04}: {{ansible_host: 10.{n // 250}.{n % 250}.1, rack_note: r{n}}}"
        for n in range(count)
    )
    racks = "\n".join(
        f"    rack_{r}:\n      vars: {{os_baseline_time_servers: [10.9.{r % 250}.1]}}\n"
        + "      hosts:\n"
        + "\n".join(f"        npu-{n:04}:" for n in range(r * 20, min(count, r * 20 + 20)))
        for r in range(-(-count // 20))
    )
    return HOSTS % {"hosts": hosts, "racks": racks, "sum": "0" * 64}


def own_files(folder: Path, count: int) -> None:
    """Write a file for each host in which hardly anything is another host's."""
    folder.mkdir()
    for n in range(count):
        text = OWN % {"n": n, "port": 8000 + n % 1000}
        (folder / f"npu-{n:04}.yml").write_text(text, encoding="utf-8")


def main() -> int:
    """Measure once, and say whether the target is met."""
    args = [arg for arg in sys.argv[1:] if arg != "--own"]
    count = int(args[0]) if args else 1000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hosts.yml"
        path.write_text(inventory(count), encoding="utf-8")
        if "--own" in sys.argv:
            own_files(Path(folder) / "host_vars", count)
        began = time.monotonic()
        command = [sys.executable, "-m", "vllm_fleet", "validate", "-i", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(done.stdout.strip().splitlines()[-1] if done.stdout else done.stderr)
    print(f"{count} hosts: {seconds:.1f} s, {cpu:.1f} s CPU, {used.ru_maxrss // 1024} MB")
    return 0 if seconds <= 5 and used.ru_maxrss <= 300 * 1024 else 1


if __name__ == "__main__":
    sys.exit(main())
