"""From bare lab hosts to a model that answers, then once more to show that nothing changes.

Usage: demo.py [--json FILE] [--vm]   (--vm adds the emulated machine; --json writes the figures)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMMAND = Path(sys.executable).with_name("vllm-fleet")
INVENTORY = ROOT / "inventories" / "lab"
QUESTION = "Hello, who are you?"

# (host, what answers there): shown with every answer, since one of the engines is a stand-in.
ENGINES = {
    "cpu-01": ("10.213.0.13", "vLLM itself, on the CPU"),
    "npu-01": ("10.213.0.11", "a stand-in engine: this machine has no NPU"),
}
STAND_INS = (
    "npu-01: vLLM is built from its real source archive and installed; what serves is a stand-in",
    "gpu-01: prepared up to the interpreter; its two GPUs are a sysfs tree",
    "all hosts: Debian machines that look like openEuler and Kylin to dnf, rpm and Ansible; "
    "the packages of their repositories are stand-ins",
    "the model: tiny, with random weights, so its answers are noise",
)


class DemoError(Exception):
    """A step of the demo went wrong; the message says which and what to look at."""


def step(title: str, work: Callable[[], Any], times: dict[str, float]) -> Any:
    """Do one step and keep the seconds that it took."""
    print(f"\n== {title}", flush=True)
    begin = time.monotonic()
    done = work()
    times[title] = round(time.monotonic() - begin, 1)
    print(f"== {title}: {times[title]} s", flush=True)
    return done


def command(*words: str) -> None:
    """Run the command with its output on this terminal."""
    done = subprocess.run([COMMAND, *words], cwd=ROOT, check=False)
    if done.returncode:
        raise DemoError(f"vllm-fleet {' '.join(words)} ended with {done.returncode}")


def apply() -> dict[str, Any]:
    """Converge the lab and return what the command says of the run, as its JSON document."""
    words = [COMMAND, "apply", "-i", str(INVENTORY), "--json"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    report: dict[str, Any] = json.loads(done.stdout or "{}")
    for name, host in sorted(report.get("hosts", {}).items()):
        stages = ", ".join(f"{stage} {done['status']}" for stage, done in host["stages"].items())
        print(f"{name}: {host['status']} ({stages})")
    if done.returncode:
        raise DemoError(f"vllm-fleet apply ended with {done.returncode}:\n{done.stdout}")
    return report


def ask(host: str) -> str:
    """Ask the model on a host a question and return its answer."""
    address, engine = ENGINES[host]
    with urllib.request.urlopen(f"http://{address}:8000/v1/models", timeout=30) as answer:
        model = json.load(answer)["data"][0]["id"]
    body = {
        "model": model,
        "max_tokens": 16,
        "messages": [{"role": "user", "content": QUESTION}],
    }
    request = urllib.request.Request(
        f"http://{address}:8000/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = json.load(answer)["choices"][0]["message"]["content"]
    print(f"{host} ({engine}), model {model}:\n  {QUESTION}\n  {text!r}")
    return str(text)


def changed_tasks(report: dict[str, Any]) -> int:
    """Return how many task results of a run were changes."""
    return sum(host["changed"] for host in report["hosts"].values())


def demo(hosts: list[str]) -> dict[str, Any]:
    """Run every step and return the figures."""
    times: dict[str, float] = {}
    step("Raise the lab", lambda: command("lab", "up", "--contents", *hosts), times)
    first = step("Apply", apply, times)
    answers = step("Ask the models", lambda: {host: ask(host) for host in ENGINES}, times)
    second = step("Apply again", apply, times)
    changes = changed_tasks(second)
    if changes:
        raise DemoError(f"the second apply changed {changes} things; it should change nothing")
    return {
        "seconds": times,
        "changed_first": changed_tasks(first),
        "changed_second": changes,
        "answers": answers,
    }


def main() -> int:
    """Run the demo and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("--vm", action="store_true", help="add the emulated machine vm-01")
    options = parser.parse_args()
    hosts = ["npu-01", "gpu-01", "cpu-01"] + (["vm-01"] if options.vm else [])
    try:
        figures = demo(hosts)
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    print("\nWhat was a stand-in:", *(f"  {line}" for line in STAND_INS), sep="\n")
    print("\nTimes:")
    for title, seconds in figures["seconds"].items():
        print(f"  {title:16} {seconds:7.1f} s")
    print(f"\nChanges: {figures['changed_first']} in the first apply, none in the second.")
    print("`vllm-fleet lab down` (in .venv/bin) takes the lab away again.")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
