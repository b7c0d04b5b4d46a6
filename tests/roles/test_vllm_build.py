"""The stage vllm_build on lab hosts: plan, build and install, with a tiny engine and a real one."""

from __future__ import annotations

import json
import subprocess
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import ROOT, ansible_playbook, environment

pytestmark = pytest.mark.lab

MIRROR = "http://10.213.0.1:8213"
WHEELS = "/srv/tiny-wheels"
TINY = {
    "vllm_build_method": "index",
    "vllm_build_distribution": "tinyengine",
    "vllm_build_version": "1.0",
    "vllm_build_find_links": [WHEELS],
    "vllm_build_exclude": ["tinyvision", "tinytriton"],
}


@dataclass(frozen=True)
class Fleet:
    """Hosts of the lab in the groups of a test, and the stages run on them."""

    folder: Path
    hosts: dict[str, dict[str, Any]]
    groups: dict[str, list[str]]
    variables: dict[str, Any] = field(default_factory=dict)

    def inventory(self) -> Path:
        """Write the inventory; return its path."""
        shared = {"vllm_fleet": {"name": "test"}, **self.lab_variables(), **self.variables}
        shared["vllm_build_artifacts_dir"] = str(self.folder / "artifacts")
        children = {
            name: {"hosts": {host: self.hosts[host] for host in members}}
            for name, members in self.groups.items()
        }
        path = self.folder / "hosts.yml"
        document = {"all": {"vars": shared, "children": children}}
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    @staticmethod
    def lab_variables() -> dict[str, Any]:
        """Return how the lab's hosts are reached, and the interpreter that they get."""
        from vllm_fleet.lab.settings import current

        lab = yaml.safe_load(current().inventory_file.read_text(encoding="utf-8"))
        with urllib.request.urlopen(f"{MIRROR}/python/SHA256SUMS", timeout=20) as answer:
            sha256, name = answer.read().decode().split()[:2]
        return {
            **lab["all"]["vars"],
            "python_runtime_source": "archive",
            "python_runtime_archive": f"{MIRROR}/python/{name}",
            "python_runtime_archive_sha256": sha256,
        }

    def run(self, stage: str, *options: str) -> Outcome:
        """Run the playbook of a stage."""
        record = self.folder / "record.jsonl"
        record.write_text("", encoding="utf-8")
        playbook = ROOT / "playbooks" / f"{stage}.yml"
        done = subprocess.run(
            [ansible_playbook(), "-i", str(self.inventory()), "--diff", *options, str(playbook)],
            env=environment(record),
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        rows = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
        return Outcome(done.returncode, done.stdout + done.stderr, rows)


@dataclass(frozen=True)
class Outcome:
    """What a run of a stage did."""

    rc: int
    output: str
    rows: list[dict[str, Any]]

    @property
    def changed(self) -> list[str]:
        done = [row for row in self.rows if row["status"] == "ok" and row["result"].get("changed")]
        return [row["task"] for row in done]

    @property
    def failures(self) -> list[str]:
        bad = [row for row in self.rows if row["status"] in ("failed", "unreachable")]
        return [str(row["result"].get("msg", "")) for row in bad]


def good(outcome: Outcome) -> Outcome:
    assert outcome.rc == 0, outcome.output
    return outcome


def address(name: str) -> dict[str, Any]:
    """Return the variables with which the lab's inventory reaches a host."""
    from vllm_fleet.lab.settings import current

    lab = yaml.safe_load(current().inventory_file.read_text(encoding="utf-8"))
    return dict(lab["all"]["hosts"][name])


def tiny_wheels() -> bytes:
    """Return a tar archive with an engine and what it needs, as wheels of one module each."""
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, version, requires in (
            ("tinyengine", "1.0", ["tinydep>=1", "tinyvision==9"]),
            ("tinydep", "1.5", ["tinytriton"]),
        ):
            content = wheel(name, version, requires)
            info = tarfile.TarInfo(f"{name}-{version}-py3-none-any.whl")
            info.size = len(content)
            tar.addfile(info, BytesIO(content))
    return packed.getvalue()


def wheel(name: str, version: str, requires: list[str]) -> bytes:
    """Return a wheel of one module."""
    packed, folder = BytesIO(), f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(f"{folder}/METADATA", metadata)
        tags = "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{folder}/WHEEL", tags)
        names = [*archive.namelist(), f"{folder}/RECORD"]
        archive.writestr(f"{folder}/RECORD", "".join(f"{each},,\n" for each in names))
    return packed.getvalue()


def ssh(fleet: Fleet, host: str, command: str, data: bytes = b"") -> str:
    """Run a command on a host; return what it printed."""
    variables = fleet.lab_variables()
    words = ["ssh", "-i", variables["ansible_ssh_private_key_file"]]
    words += variables["ansible_ssh_common_args"].split()
    target = f"{variables['ansible_user']}@{fleet.hosts[host]['ansible_host']}"
    done = subprocess.run(
        [*words, target, command], input=data, capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0, f"{command}: {done.stdout!r} {done.stderr!r}"
    return done.stdout.decode()


@pytest.fixture(scope="module")
def fleet(lab_host: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A host that builds and serves, and one of another platform that only serves."""
    from vllm_fleet.lab import api

    personas = {"eng-1": "openeuler-22.03-sp1", "eng-2": "kylin-v10-sp3"}
    for name, persona in personas.items():
        lab_host(name, persona)
    api.reset(list(personas))
    hosts = {name: address(name) for name in personas}
    groups = {"cpu": ["eng-1"], "serving": ["eng-1"], "builders": ["eng-1"]}
    made = Fleet(tmp_path_factory.mktemp("fleet"), hosts, groups, TINY)
    ssh(made, "eng-1", f"mkdir -p {WHEELS} && tar -x -C {WHEELS}", tiny_wheels())
    return made


def test_check_on_a_blank_host_predicts(fleet: Fleet) -> None:
    predicted = good(fleet.run("vllm_build", "--check"))
    assert "Make the wheel" in predicted.changed
    assert "Make the release" in predicted.changed
    assert not (fleet.folder / "artifacts").exists()
    assert "releases" not in ssh(fleet, "eng-1", "ls /opt/vllm 2>/dev/null || true")


def test_host_without_builder_is_refused_before_anything_is_touched(fleet: Fleet) -> None:
    alone = {"cpu": ["eng-1", "eng-2"], "serving": ["eng-1", "eng-2"], "builders": ["eng-1"]}
    outcome = Fleet(fleet.folder, fleet.hosts, alone, TINY).run("vllm_build", "--limit", "eng-2")
    assert outcome.rc != 0
    assert outcome.changed == []
    message = " ".join(outcome.failures)
    assert "host eng-2" in message
    assert "kylin-V10-SP3" in message
    assert "Add a host of this platform to group builders" in message


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"vllm_build_version": 1.0}, "quote it"),
        ({"vllm_build_method": "magic"}, "source, index"),
        ({"vllm_build_method": "source", "vllm_build_source": "/nowhere"}, "on the controller"),
        ({"vllm_build_exclude": "torch", "vllm_build_requirements": {"a": 1}}, "requirements"),
    ],
)
def test_bad_input(fleet: Fleet, variables: dict[str, Any], message: str) -> None:
    given = {**TINY, "vllm_build_build_requirements": [], **variables}
    outcome = Fleet(fleet.folder, fleet.hosts, fleet.groups, given).run("vllm_build")
    assert outcome.rc != 0
    assert outcome.changed == []
    assert message in " ".join(outcome.failures)


def test_build_install_and_run_again(fleet: Fleet) -> None:
    good(fleet.run("python_runtime"))
    done = good(fleet.run("vllm_build"))
    assert "Make the wheel" in done.changed
    release = json.loads(ssh(fleet, "eng-1", "cat /opt/vllm/current/release.json"))
    assert release["packages"] == {"tinydep": "1.5", "tinyengine": "1.0"}
    manifest = next((fleet.folder / "artifacts").glob("*/manifest.json"))
    stored = json.loads(manifest.read_text(encoding="utf-8"))
    assert stored["built_on"] == "eng-1"
    assert sorted(path.name for path in manifest.parent.iterdir()) == [
        "build.log",
        "manifest.json",
        "requirements.lock",
        "tinyengine-1.0-py3-none-any.whl",
    ]
    ssh(fleet, "eng-1", f"mv {WHEELS} {WHEELS}.away")
    assert good(fleet.run("vllm_build", "--check")).changed == []
    assert good(fleet.run("vllm_build")).changed == []
    ssh(fleet, "eng-1", f"mv {WHEELS}.away {WHEELS}")


def test_damaged_and_unfinished_releases_are_made_whole(fleet: Fleet) -> None:
    site = "$(echo /opt/vllm/current/lib/python3*/site-packages)"
    ssh(fleet, "eng-1", f"rm -r {site}/tinydep.py {site}/tinydep-1.5.dist-info")
    assert "Make the release" in good(fleet.run("vllm_build", "--check")).changed
    assert "Make the release" in good(fleet.run("vllm_build")).changed
    ssh(fleet, "eng-1", f"test -f {site}/tinydep.py")
    ssh(fleet, "eng-1", "rm /opt/vllm/current/release.json")
    assert "Make the release" in good(fleet.run("vllm_build")).changed
    assert good(fleet.run("vllm_build")).changed == []


@pytest.mark.slow
def test_real_engine_from_its_source_archive(fleet: Fleet) -> None:
    from vllm_fleet.lab import api

    api.up({"eng-1": "openeuler-22.03-sp1"}, contents=True)
    lock = fleet.folder / "nothing-else.lock"
    lock.write_text("# only the engine itself\n", encoding="utf-8")
    variables = {
        "vllm_build_source": f"{MIRROR}/sources/",
        "vllm_build_find_links": [f"{MIRROR}/wheels/"],
        "vllm_build_trusted_hosts": ["10.213.0.1"],
        "vllm_build_lock": str(lock),
    }
    groups = {"ascend": ["eng-1"], "serving": ["eng-1"], "builders": ["eng-1"]}
    real = Fleet(fleet.folder, fleet.hosts, groups, variables)
    good(real.run("python_runtime"))
    wrong = {**variables, "vllm_build_source_sha256": "0" * 64}
    refused = Fleet(fleet.folder, fleet.hosts, groups, wrong).run("vllm_build")
    assert "wrong checksum" in " ".join(refused.failures)
    good(real.run("vllm_build"))
    release = json.loads(ssh(fleet, "eng-1", "cat /opt/vllm/current/release.json"))
    assert (release["distribution"], release["version"]) == ("vllm", "0.23.0")
    assert good(real.run("vllm_build")).changed == []
