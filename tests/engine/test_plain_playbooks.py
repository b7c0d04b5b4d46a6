"""The stage playbooks under plain ansible-playbook: batches, the failure limit, zero hosts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from harness import ROOT, ansible_playbook, environment

PLAYBOOKS = ROOT / "playbooks"
STAGES = ("os_baseline", "hugepages", "python_runtime", "vllm_build", "vllm_service")
# Plays of vllm_build that every host takes part in at once, since builders have to know them all.
UNBATCHED = {"Find out what has to be built", "Build what is missing"}


def plays(stage: str) -> list[dict[str, object]]:
    """Return the plays of a stage playbook without its imports."""
    document = yaml.safe_load((PLAYBOOKS / f"{stage}.yml").read_text(encoding="utf-8"))
    return [play for play in document if "hosts" in play]


def run(inventory: dict[str, object], playbook: Path) -> subprocess.CompletedProcess[str]:
    """Run a playbook on an inventory of local connections."""
    hosts = playbook.with_name("hosts.yml")
    hosts.write_text(yaml.safe_dump({"all": inventory}), encoding="utf-8")
    words = [ansible_playbook(), "-i", str(hosts), str(playbook)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment())


def stage_like(tmp_path: Path, task: dict[str, object]) -> Path:
    """Write a playbook whose second play has the keywords of a real stage and one task."""
    play = {**plays("hugepages")[0], "tasks": [task]}
    del play["roles"]
    imported = {"import_playbook": str(PLAYBOOKS / "preflight.yml")}
    playbook = tmp_path / "stage.yml"
    playbook.write_text(yaml.safe_dump([imported, play]), encoding="utf-8")
    return playbook


def fleet(**settings: object) -> dict[str, object]:
    """Return an inventory of four hosts with the fleet's settings."""
    hosts = {f"c{number}": None for number in range(1, 5)}
    variables = {"ansible_connection": "local", "vllm_fleet": {"name": "test", **settings}}
    return {"vars": variables, "children": {"cpu": {"hosts": hosts}}}


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_takes_batches_and_limit_from_the_fleet(stage: str) -> None:
    reference = plays("hugepages")[0]
    for play in plays(stage):
        assert str(play["name"]).startswith(f"Stage {stage}: ")
        assert play["tags"] == [stage]
        if str(play["name"]).partition(": ")[2] not in UNBATCHED:
            for keyword in ("vars", "serial", "max_fail_percentage"):
                assert play[keyword] == reference[keyword]


def test_site_imports_every_stage_in_order() -> None:
    site = yaml.safe_load((PLAYBOOKS / "site.yml").read_text(encoding="utf-8"))
    assert [entry["import_playbook"] for entry in site] == [f"{stage}.yml" for stage in STAGES]


def test_serial_of_the_fleet_makes_batches(tmp_path: Path) -> None:
    show = {"ansible.builtin.debug": {"msg": "batch {{ ansible_play_batch | join('+') }}"}}
    done = run(fleet(rollout={"serial": [1, "100%"]}), stage_like(tmp_path, show))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count('"msg": "batch c1"') == 1
    assert done.stdout.count('"msg": "batch c2+c3+c4"') == 3


@pytest.mark.parametrize(("limit", "reached"), [(0, False), (100, True)])
def test_failure_limit_of_the_fleet_stops_the_next_batch(
    tmp_path: Path, limit: int, reached: bool
) -> None:
    fail = {
        "ansible.builtin.assert": {"that": "inventory_hostname != 'c1'", "success_msg": "fine"},
    }
    rollout = {"serial": 2, "max_fail_percentage": limit}
    done = run(fleet(rollout=rollout), stage_like(tmp_path, fail))
    assert done.returncode == 2
    assert ("ok: [c3]" in done.stdout) is reached


@pytest.mark.parametrize(
    "inventory",
    [
        pytest.param({}, id="no host at all"),
        pytest.param({"hosts": {"a": None}, "vars": {"vllm_fleet": {"name": "x"}}}, id="no group"),
        pytest.param({"children": {"cpu": {"hosts": {"a": None}}}}, id="no settings"),
    ],
)
def test_zero_hosts_or_no_settings_is_an_error(
    tmp_path: Path, inventory: dict[str, object]
) -> None:
    playbook = stage_like(tmp_path, {"ansible.builtin.debug": {"msg": "never"}})
    done = run(inventory, playbook)
    assert done.returncode != 0
    assert '"msg": "never"' not in done.stdout
