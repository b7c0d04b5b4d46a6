"""The role vllm_service on a lab host, with a stand-in engine: what it writes, starts and refuses.

The host is blank for the first tests; every other test starts from one converged instance.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from harness import RoleRun, RunResult, ansible_playbook, environment

pytestmark = pytest.mark.lab

ENGINE = Path(__file__).resolve().parents[1] / "fixtures/engine/engine.py"
PROGRAM = "/usr/local/lib/test-engine"
MODEL = "/opt/test models/tiny model"
AWKWARD = {
    "json": {"a": "b c", "quote": 'say "hi"', "list": [1, 2]},
    "percent": "100% %i %%",
    "dollar": "$HOME ${HOME} $$",
    "quotes": 'it\'s "so"',
    "backslash": "a\\b\\\\ \\n",
    "semicolon": "; rm -rf /",
    "unicode": "模型 é",
    "tab": "a\tb",
    "empty": "",
    "hash": "# no comment",
    "negative": -1,
}


@dataclass(frozen=True)
class Host:
    """A lab host that can be asked directly."""

    name: str
    inventory: Path
    ssh: tuple[str, ...]

    def run(self, command: str, text: str | None = None) -> str:
        """Run a shell command on the host over ssh; fail with what it said."""
        done = subprocess.run(
            [*self.ssh, command], input=text, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def tell(self, port: int = 8000) -> dict[str, Any]:
        """Return what the stand-in engine says about its process."""
        url = f"http://127.0.0.1:{port}/process"
        script = f"import urllib.request as u; print(u.urlopen({url!r}).read().decode())"
        found: dict[str, Any] = json.loads(self.run(f"python3 -c {shlex.quote(script)}"))
        return found

    def wait(self, command: str, seconds: float = 30) -> None:
        """Wait until a shell command succeeds on the host."""
        deadline = time.monotonic() + seconds
        while subprocess.run([*self.ssh, command], capture_output=True).returncode:
            assert time.monotonic() < deadline, f"not within {seconds} s: {command}"
            time.sleep(0.5)


def ssh_to(inventory: Path, name: str) -> tuple[str, ...]:
    """Return the ssh command for a host, as the inventory has it."""
    program = Path(ansible_playbook()).with_name("ansible-inventory")
    argv = [str(program), "-i", str(inventory), "--host", name]
    told = subprocess.run(argv, env=environment(), capture_output=True, text=True, check=True)
    found = json.loads(told.stdout)
    options = shlex.split(found.get("ansible_ssh_common_args", ""))
    key = found["ansible_ssh_private_key_file"]
    return ("ssh", *options, "-i", key, f"root@{found['ansible_host']}")


@pytest.fixture(scope="module")
def host(lab_host: Callable[[str, str], Any]) -> Host:
    up = lab_host("svc-1", "openeuler-22.03-sp1")
    return Host(up.name, up.inventory, ssh_to(up.inventory, up.name))


def instance(**more: Any) -> dict[str, Any]:
    return {
        "name": "tiny",
        "model": MODEL,
        "served_model_name": ["tiny"],
        "port": 8000,
        "arguments": AWKWARD,
        **more,
    }


def role(host: Host, *instances: dict[str, Any], **variables: Any) -> RoleRun:
    shared = {
        "vllm_service_instances": list(instances),
        "vllm_service_executable": [PROGRAM],
        "vllm_service_ready_deadline": 30,
        "vllm_service_ready_steady": 1,
        "vllm_service_restart_delay": 1,
    }
    return RoleRun(host.name, host.inventory, "vllm_service", {**shared, **variables})


def make_ready(host: Host) -> None:
    """Give the host what earlier stages bring: the account, two releases, a model, an engine."""
    host.run("id vllm >/dev/null 2>&1 || useradd --system --home-dir /var/lib/vllm vllm")
    host.run(f"cat > {PROGRAM} && chmod 0755 {PROGRAM}", ENGINE.read_text())
    for name in ("aaa", "bbb"):
        folder = f"/opt/vllm/releases/{name}"
        host.run(f"mkdir -p {folder}/bin && ln -sfn /usr/bin/python3 {folder}/bin/python")
        host.run(f"echo '{{}}' > {folder}/release.json")
    host.run("ln -sfn /opt/vllm/releases/aaa /opt/vllm/current")
    host.run(f"mkdir -p '{MODEL}' && echo '{{}}' > '{MODEL}/config.json'")


SAVED = "/etc/systemd/system/vllm@* /etc/systemd/system/*.wants/vllm@* /etc/vllm-fleet"
# Puts the saved files back and starts the instance anew: much faster than the role itself.
RESTORE = f"""
systemctl stop 'vllm@*'; rm -rf {SAVED} /run/systemd/system/vllm@*
tar -xPf /root/converged.tar && systemctl daemon-reload && systemctl reset-failed
systemctl start vllm@tiny
"""


@pytest.fixture(scope="module")
def first_run(host: Host) -> RunResult:
    """The first run of the role on the host, which then is saved as it is."""
    make_ready(host)
    run = role(host, instance()).apply()
    assert run.ok, run.output
    host.run(f"tar -cPf /root/converged.tar {SAVED}")
    return run


@pytest.fixture
def converged(host: Host, first_run: RunResult) -> Host:
    """The host with the one instance running as `role(host, instance())` describes it."""
    host.run(RESTORE)
    host.wait("ss -ltn | grep -q :8000")
    return host


def message(run: RunResult) -> str:
    assert not run.ok, run.output
    return " ".join(text for _, text in run.failed)


def test_check_on_a_blank_host_predicts(host: Host) -> None:
    run = role(host, instance()).check()
    assert run.ok, run.output
    assert "Run instance tiny" in run.changed
    assert "Write the unit template" in run.changed
    assert "user: vllm is not on this host" in run.output
    assert "it would start after its unit file is written" in json.dumps(
        [task.result for task in run.tasks]
    )
    waited = [task for task in run.tasks if task.task.startswith("Wait until it answers")]
    assert waited[0].status == "skipped"
    assert "cannot be predicted" in waited[0].result["msg"]
    host.run("test ! -e /etc/vllm-fleet/instances && test ! -e /etc/systemd/system/vllm@.service")


def test_a_blank_host_is_refused_and_left_alone(host: Host) -> None:
    said = message(role(host, instance()).apply())
    for words in ("user: vllm", "the role vllm_build installs one", f"no folder {MODEL}", PROGRAM):
        assert words in said
    host.run("test ! -e /etc/vllm-fleet/instances && test ! -e /etc/systemd/system/vllm@.service")


def test_converge_then_nothing_changes(host: Host, first_run: RunResult) -> None:
    assert "Run instance tiny" in first_run.changed
    again = role(host, instance()).check()
    assert again.ok, again.output
    assert again.changed == []
    again = role(host, instance()).apply()
    assert again.ok, again.output
    assert again.changed == []


def test_awkward_arguments_arrive_as_they_are(converged: Host) -> None:
    seen = converged.tell()["argv"]
    assert seen[1:6] == [
        f"--model={MODEL}",
        "--served-model-name",
        "tiny",
        "--host=127.0.0.1",
        "--port=8000",
    ]
    given = dict(word[2:].split("=", 1) for word in seen[6:])
    assert json.loads(given.pop("json")) == AWKWARD["json"]
    assert given == {k: str(v) for k, v in AWKWARD.items() if k != "json"}


def test_awkward_variables_arrive_as_they_are(converged: Host) -> None:
    wanted = {
        "A_JSON": '{"a": "b c"}',
        "A_DOLLAR": "$HOME ${HOME} `id`",
        "A_QUOTES": 'it\'s "so" \\ \\\\',
        "A_HASH": "# no ; comment",
        "A_SPACES": "  kept  ",
        "A_PERCENT": "%i 100%",
        "A_EMPTY": "",
    }
    run = role(converged, instance(environment=wanted)).apply()
    assert run.ok, run.output
    seen = converged.tell()["environ"]
    assert {name: seen.get(name) for name in wanted} == wanted


def test_the_process_is_fenced_in_and_knows_its_release(converged: Host) -> None:
    seen = converged.tell()
    assert seen["uid"] == int(converged.run("id -u vllm"))
    assert seen["cwd"] == seen["environ"]["HOME"] == "/var/lib/vllm/tiny"
    assert seen["environ"]["FLEET_RELEASE"] == "/opt/vllm/releases/aaa"
    assert seen["environ"]["HF_HUB_OFFLINE"] == "1"
    # What the process really gets is bounded by the machine that the lab itself runs on.
    limits = converged.run("systemctl show vllm@tiny -p LimitMEMLOCK -p LimitNOFILE").split()
    assert sorted(limits) == ["LimitMEMLOCK=infinity", "LimitNOFILE=1048576"]
    assert "CUDA_VISIBLE_DEVICES" not in seen["environ"]
    converged.run("runuser -u vllm -- touch /var/lib/vllm/tiny/writable")
    status = converged.run(f"grep -E 'NoNewPrivs|CapBnd' /proc/{seen['pid']}/status").split()
    # Without a secret there still is a file: its content can then be seen to change.
    converged.run(
        "test -e /etc/vllm-fleet/secrets/tiny.env -a ! -s /etc/vllm-fleet/secrets/tiny.env"
    )
    assert status[1::2] == ["0000000000000000", "1"]


def test_an_instance_is_bound_to_its_cpus_and_nodes(converged: Host) -> None:
    run = role(converged, instance(cpus="1", numa_nodes=[0])).apply()
    assert run.ok, run.output
    assert converged.tell()["cpus"] == [1]
    assert "=bind" in converged.run("systemctl show vllm@tiny -p NUMAPolicy")


@pytest.mark.parametrize(
    ("breakage", "changed"),
    [
        (
            "echo X=1 >> /etc/vllm-fleet/instances/tiny.env",
            ["Write the environment of instance tiny", "Run instance tiny"],
        ),
        ("touch /opt/vllm/releases/aaa/release.json", ["Run instance tiny"]),
        ("touch /etc/systemd/system/vllm@.service", ["Run instance tiny"]),
        ("systemctl stop vllm@tiny.service", ["Run instance tiny"]),
        ("systemctl disable vllm@tiny.service", ["Run instance tiny"]),
    ],
    ids=["edited", "release", "touched", "stopped", "disabled"],
)
def test_drift_is_mended_once(converged: Host, breakage: str, changed: list[str]) -> None:
    before = converged.tell()["pid"]
    converged.run(breakage)
    assert role(converged, instance()).check().changed == changed
    run = role(converged, instance()).apply()
    assert run.ok, run.output
    assert run.changed == changed
    assert (converged.tell()["pid"] == before) is ("disable" in breakage)
    converged.run("systemctl is-enabled vllm@tiny.service")


def test_a_restart_is_not_lost_when_a_run_failed_before_it(converged: Host) -> None:
    """A handler would lose it: the files are written, and the run ends before the restart."""
    new = instance(environment={"NEW": "1"})
    converged.run("systemctl mask --runtime vllm@tiny.service")
    assert "unmask" in message(role(converged, new).apply())
    assert "NEW" not in converged.tell()["environ"]
    converged.run("systemctl unmask --runtime vllm@tiny.service")
    run = role(converged, new).apply()
    assert run.changed == ["Run instance tiny"]
    assert converged.tell()["environ"]["NEW"] == "1"


def test_another_release_is_one_line_in_the_environment(converged: Host) -> None:
    run = role(converged, instance(release="bbb")).apply()
    assert run.changed == ["Write the environment of instance tiny", "Run instance tiny"]
    assert converged.tell()["environ"]["FLEET_RELEASE"] == "/opt/vllm/releases/bbb"


def test_the_releases_own_program_is_started(converged: Host) -> None:
    program = ["{release}/bin/python", PROGRAM]
    run = role(converged, instance(), vllm_service_executable=program).apply()
    assert run.ok, run.output
    argv = converged.tell()["argv"]
    assert argv[0] == PROGRAM
    assert f"--model={MODEL}" in argv


def test_a_second_instance_leaves_the_first_alone(converged: Host) -> None:
    first = converged.tell()["pid"]
    two = [instance(), instance(name="two", port=8001, served_model_name=["two"])]
    run = role(converged, *two).apply()
    assert run.ok, run.output
    assert converged.tell()["pid"] == first
    second = converged.tell(8001)["pid"]
    two[1]["environment"] = {"NEW": "1"}
    assert role(converged, *two).apply().ok
    assert converged.tell()["pid"] == first
    assert converged.tell(8001)["pid"] != second


def test_an_instance_that_is_no_longer_listed(converged: Host) -> None:
    old = instance(name="old.one", port=8002, served_model_name=["old"])
    assert role(converged, instance(), old).apply().ok
    told = role(converged, instance()).apply()
    assert told.ok
    assert told.changed == []
    assert "old.one: on the host, but not in vllm_service_instances" in told.output
    moved = instance(name="new", port=8002)
    assert "vllm_service_prune removes it" in message(role(converged, instance(), moved).apply())
    pruned = role(converged, instance(), vllm_service_prune=True).check()
    assert pruned.changed == ["Remove the instances that the inventory no longer lists"]
    pruned = role(converged, instance(), moved, vllm_service_prune=True).apply()
    assert pruned.ok, pruned.output
    assert converged.tell(8002)["environ"]["HOME"] == "/var/lib/vllm/new"
    converged.run("test ! -e /etc/vllm-fleet/instances/old.one.env")
    converged.run("test ! -e /etc/systemd/system/vllm@old.one.service.d")
    converged.run("! systemctl is-enabled vllm@old.one.service")


SECRET = "geheim-7f3a"


def test_a_secret_reaches_the_engine_and_nothing_else(converged: Host) -> None:
    secrets = {"tiny": {"VLLM_API_KEY": SECRET}}
    for run in (
        role(converged, instance(), vllm_service_secrets=secrets).check(),
        role(converged, instance(), vllm_service_secrets=secrets).apply(),
    ):
        assert run.ok, run.output
        assert "Write the secrets of instance tiny" in run.changed
        assert SECRET not in run.output
        assert SECRET not in json.dumps([task.result for task in run.tasks])
    assert converged.tell()["environ"]["VLLM_API_KEY"] == SECRET
    file = "/etc/vllm-fleet/secrets/tiny.env"
    assert converged.run(f"stat -c '%a %U %G' {file}").split() == ["600", "root", "root"]
    assert role(converged, instance(), vllm_service_secrets=secrets).apply().changed == []
    journal = converged.run("journalctl --no-pager -o cat")
    assert SECRET not in journal
    gone = role(converged, instance()).apply()
    assert "Write the secrets of instance tiny" in gone.changed
    assert "VLLM_API_KEY" not in converged.tell()["environ"]


def test_an_engine_that_dies_is_no_success(converged: Host) -> None:
    dying = instance(environment={"ENGINE_DIE_AFTER": "1"})
    started = time.monotonic()
    said = message(role(converged, dying).apply())
    assert time.monotonic() - started < 25
    assert "the engine died on purpose" in said
    # The crash loop ends by itself, and a repaired instance starts all the same.
    converged.wait("systemctl is-failed vllm@tiny.service", 60)
    run = role(converged, instance()).apply()
    assert run.ok, run.output


def test_an_engine_that_is_alive_but_does_not_answer(converged: Host) -> None:
    stuck = instance(environment={"ENGINE_NO_COMPLETION": "1"})
    said = message(role(converged, stuck, vllm_service_ready_deadline=4).apply())
    assert "/v1/completions answered 500" in said


def test_an_engine_that_never_listens(converged: Host) -> None:
    hanging = instance(environment={"ENGINE_HANG": "1"})
    said = message(role(converged, hanging, vllm_service_ready_deadline=4).apply())
    assert "not within 4 seconds" in said


def test_a_program_that_cannot_run(converged: Host) -> None:
    program = ["{release}/bin/no-such-program"]
    said = message(role(converged, instance(), vllm_service_executable=program).apply())
    assert "no-such-program" in said
    assert "status 127" in said
    converged.run(
        "printf '#!/no/interpreter\n' > /usr/local/lib/broken && chmod 0755 /usr/local/lib/broken"
    )
    said = message(
        role(converged, instance(), vllm_service_executable=["/usr/local/lib/broken"]).apply()
    )
    assert "start vllm@tiny.service failed" in said
    assert "status=203/EXEC" in said
    before = converged.run("cat /etc/systemd/system/vllm@tiny.service.d/10-vllm-fleet.conf")
    said = message(role(converged, instance(), vllm_service_executable=["/no/such"]).apply())
    assert "/no/such is not an executable file" in said
    after = converged.run("cat /etc/systemd/system/vllm@tiny.service.d/10-vllm-fleet.conf")
    assert before == after


def test_a_port_that_somebody_else_holds(converged: Host) -> None:
    serve = "python3 -m http.server 8003"
    converged.run(f"systemd-run --unit squatter {serve}")
    try:
        converged.wait("ss -ltn | grep -q :8003")
        said = message(role(converged, instance(port=8003)).apply())
        assert "port: 8003 is held by process" in said
        assert "squatter.service" in said
        assert converged.tell()["pid"]
    finally:
        converged.run("systemctl stop squatter.service")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([instance(), instance()], "name: tiny is used by 2 instances"),
        ([instance(model="/no/model")], "there is no folder /no/model"),
        ([instance(release="zzz")], "release: zzz is not installed"),
        ([instance(colour="red")], "colour"),
        ([instance(numa_nodes=[99])], "numa_nodes: [99] are not on this host"),
    ],
    ids=["doubles", "model", "release", "unknown-key", "nodes"],
)
def test_bad_input_is_refused_before_anything_is_touched(
    converged: Host, wrong: list[dict[str, Any]], words: str
) -> None:
    run = role(converged, *wrong).apply()
    assert words in message(run)
    assert run.changed == []


def test_somebody_elses_unit_is_left_alone(converged: Host) -> None:
    path = "/etc/systemd/system/vllm@.service"
    converged.run(f"cp {path} /root/ours && echo '[Unit]' > {path}")
    try:
        assert "was not written by vllm-fleet" in message(role(converged, instance()).apply())
        assert converged.run(f"cat {path}") == "[Unit]\n"
    finally:
        converged.run(f"mv /root/ours {path}")


def test_an_unknown_option_is_refused(converged: Host) -> None:
    run = replace(role(converged, instance()), variables={"vllm_service_instances": "tiny"}).apply()
    assert "vllm_service_instances" in message(run)
