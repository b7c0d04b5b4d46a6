"""The modules of the service stage around their pure parts, with a stand-in for AnsibleModule."""

from __future__ import annotations

import http.server
import json
import os
import pwd
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    engine_host,
    engine_probe,
    listeners,
    systemctl,
)
from ansible_collections.vllm_fleet.baremetal.plugins.modules import (
    engine_instance,
    engine_preflight,
    engine_ready,
    secret_file,
)


class Failed(Exception):
    """What fail_json() becomes in these tests."""


class Module:
    """As much of AnsibleModule as these modules use."""

    def __init__(self, check_mode: bool = False, **params: Any) -> None:
        self.params = params
        self.check_mode = check_mode
        self.commands: list[list[str]] = []

    def fail_json(self, **result: Any) -> None:
        raise Failed(result["msg"])

    def get_bin_path(self, name: str, required: bool = False) -> str:
        return name

    def run_command(self, argv: list[str], **_: Any) -> tuple[int, str, str]:
        self.commands.append(argv[4:])
        return 0, "", ""

    def add_cleanup_file(self, path: str) -> None:
        pass

    def set_default_selinux_context(self, path: str, changed: bool) -> bool:
        return changed


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1
   1: 0100007F:1F40 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 222 1
   2: 00000000:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1
"""


def fake_proc(root: Path, cgroup: str) -> str:
    """Lay out a /proc in which process 42 listens on port 8000."""
    for name, text in (("net/tcp", TCP), ("42/comm", "engine\n"), ("42/cgroup", cgroup)):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "42/fd").mkdir()
    (root / "42/fd/7").symlink_to("socket:[111]")
    return str(root)


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/system.slice/system-vllm.slice/vllm@r1.service\n",
        "3:cpu:/\n1:name=systemd:/system.slice/system-vllm.slice/vllm@r1.service\n",
    ],
)
def test_the_listener_of_a_port_and_its_unit(tmp_path: Path, cgroup: str) -> None:
    found = listeners.listeners(8000, fake_proc(tmp_path, cgroup))
    assert found == [{"pid": 42, "name": "engine", "units": ["vllm@r1.service"]}]
    assert listeners.words(found[0]) == "process 42 (engine) of vllm@r1.service"
    assert engine_host.foreign_holders(found, ["r1"]) == []
    assert engine_host.foreign_holders(found, ["r2"]) == found


def test_a_port_that_only_a_connection_uses_has_no_listener(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path, "0::/\n")
    assert listeners.listeners(8001, proc) == []  # its process is not to be seen
    assert listeners.listeners(9999, proc) == []


def test_this_process_is_found_as_a_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = listeners.listeners(server.getsockname()[1])
    assert [row["pid"] for row in found] == [os.getpid()]


ANSWERS: dict[str, Any] = {
    "/health": {},
    "/v1/models": {"data": [{"id": "tiny"}]},
    "/v1/completions": {"choices": [{"text": " 2"}]},
}


class Engine(http.server.ThreadingHTTPServer):
    """A server that answers with what `answers` says, and keeps the keys that it was shown."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = dict(ANSWERS)
        self.keys: list[str | None] = []


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with an object, or with a status where the answer is a number."""

    server: Engine

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.server.answers.get(self.path, 404)
        self.server.keys.append(self.headers.get("Authorization"))
        self.send_response(answer if isinstance(answer, int) else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[Engine]:
    server = Engine()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def probe(engine: Engine, **more: Any) -> engine_probe.Engine:
    return engine_probe.Engine("0.0.0.0", engine.server_address[1], **more)


def test_a_ready_engine_is_asked_with_the_key_and_no_proxy(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:9")
    assert probe(engine, key="k").ask("tiny") == (["tiny"], " 2")
    assert engine.keys == ["Bearer k"] * 3


@pytest.mark.parametrize(
    ("path", "answer", "wrong"),
    [
        ("/health", 503, engine_probe.NotReady),
        ("/v1/models", {"data": []}, engine_probe.NotReady),
        ("/v1/models", [], engine_probe.NotReady),
        ("/v1/models", 401, engine_probe.Refused),
        ("/v1/models", {"data": [{"id": "other"}]}, engine_probe.Refused),
        ("/v1/completions", 500, engine_probe.NotReady),
        ("/v1/completions", {"choices": []}, engine_probe.NotReady),
    ],
)
def test_an_engine_that_is_not_ready(engine: Engine, path: str, answer: Any, wrong: type) -> None:
    engine.answers[path] = answer
    with pytest.raises(wrong):
        probe(engine).ask("tiny")


def test_nobody_listens() -> None:
    with pytest.raises(engine_probe.NotReady, match="refused"):
        engine_probe.Engine("127.0.0.1", 1).ask()


@pytest.mark.parametrize(
    ("address", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.5", "10.0.0.5"), ("gpu-01", "gpu-01")],
)
def test_where_an_engine_is_reached(address: str, reached: str) -> None:
    assert engine_probe.reachable(address) == reached


def running_since(seconds: float, **more: str) -> dict[str, str]:
    started = int((time.monotonic() - seconds) * 1_000_000)
    unit = {
        "LoadState": "loaded",
        "UnitFileState": "enabled",
        "ActiveState": "active",
        "SubState": "running",
        "NRestarts": "0",
        "ExecMainStartTimestampMonotonic": str(started),
    }
    return {**unit, **more}


def instance_module(**params: Any) -> Module:
    wanted = {"name": "r1", "state": "started", "enabled": True, "files": [], "predicted": []}
    return Module(**{**wanted, "timeout": 300, **params})


def test_an_instance_older_than_its_file_restarts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "release.json"
    file.write_text("{}")
    module = instance_module(files=[str(file)])
    monkeypatch.setattr(systemctl, "show", lambda *_: running_since(5))
    _, found, actions, reasons = engine_instance.check(module, "vllm@r1.service")
    assert (actions, reasons) == (["restart"], [f"{file} is newer than the process"])
    engine_instance.apply(module, "vllm@r1.service", found, actions)
    assert module.commands == [
        ["systemctl", "reset-failed", "vllm@r1.service"],
        ["systemctl", "restart", "vllm@r1.service"],
    ]
    monkeypatch.setattr(systemctl, "show", lambda *_: running_since(-1))
    assert engine_instance.check(module, "vllm@r1.service")[2] == []


def test_a_file_from_the_future_is_stamped_anew(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    file.chmod(0o640)
    before = file.stat().st_ctime_ns
    engine_instance.restamp({str(file): before / 1e9 + 1, str(tmp_path / "gone"): None}, 1.0)
    assert file.stat().st_ctime_ns >= before
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("state", ["masked", "not-found"])
def test_a_unit_that_cannot_start_is_refused(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemctl, "show", lambda *_: {"LoadState": state})
    module = instance_module()
    with pytest.raises(Failed, match=r"vllm@r1\.service"):
        engine_instance.apply(
            module, "vllm@r1.service", *engine_instance.check(module, "vllm@r1.service")[1:3]
        )
    assert module.commands == []


def ready_module(port: int, **params: Any) -> Module:
    wanted = {"name": "r1", "port": port, "address": "127.0.0.1", "model": "", "key_file": None}
    return Module(**{**wanted, "restarts": None, "steady": 0, "deadline": 0, **params})


def wait_for(
    monkeypatch: pytest.MonkeyPatch, module: Module, unit: dict[str, str], mine: bool = True
) -> dict[str, Any]:
    holder = {"pid": 9, "name": "x", "units": ["vllm@r1.service" if mine else "nginx.service"]}
    monkeypatch.setattr(listeners, "listeners", lambda _port: [holder])
    monkeypatch.setattr(systemctl, "show", lambda *_: unit)
    monkeypatch.setattr(systemctl, "journal", lambda *_: ["first", "last words"])
    monkeypatch.setattr(engine_ready, "PAUSE", 0.0)
    seen: dict[str, Any] = engine_ready.Wait(module).until_ready()
    return seen


def test_ready(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ready_module(engine.server_address[1])
    seen = wait_for(monkeypatch, module, running_since(60))
    assert seen == {"models": ["tiny"], "answer": " 2"}


@pytest.mark.parametrize(
    ("unit", "params", "mine", "words"),
    [
        ({"ActiveState": "failed", "Result": "exit-code"}, {}, True, r"it failed.*last words"),
        ({"NRestarts": "1"}, {"restarts": 0}, True, "restarts it"),
        ({}, {}, False, r"port \d+ is held by process 9 \(x\) of nginx\.service"),
        ({}, {"steady": 600}, True, "been up for 60 seconds only"),
        ({"ActiveState": "activating"}, {}, True, "not within 0 seconds"),
        ({}, {"model": "other"}, True, "serves tiny, not other"),
    ],
)
def test_not_ready(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    unit: dict[str, str],
    params: dict[str, Any],
    mine: bool,
    words: str,
) -> None:
    module = ready_module(engine.server_address[1], **params)
    with pytest.raises(Failed, match=words):
        wait_for(monkeypatch, module, running_since(60, **unit), mine)


def test_the_key_is_read_on_the_host(tmp_path: Path) -> None:
    file = tmp_path / "r1.env"
    file.write_text('HF_TOKEN="t"\nVLLM_API_KEY="a\\"b"\n')
    assert engine_ready.read_key(str(file)) == 'a"b'
    assert engine_ready.read_key(None) == ""


def release(root: Path, name: str) -> Path:
    folder = root / "releases" / name
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").touch()
    (folder / "release.json").write_text("{}")
    return folder


def test_the_default_release(tmp_path: Path) -> None:
    releases = str(tmp_path / "releases")
    assert engine_host.default_release(releases) == ""
    release(tmp_path, "aaa")
    (tmp_path / "releases/half-done").mkdir()
    assert engine_host.default_release(releases) == "aaa"
    newer = release(tmp_path, "bbb")
    assert engine_host.default_release(releases) == ""
    (tmp_path / "current").symlink_to(newer)
    assert engine_host.default_release(releases) == "bbb"


def test_instances_left_behind(tmp_path: Path) -> None:
    units, etc = tmp_path / "units", tmp_path / "etc"
    for name in ("etc/instances/kept.env", "etc/instances/old.env", "units/a.wants/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (units / "multi-user.target.wants").mkdir()
    (units / "multi-user.target.wants/vllm@by-hand.service").touch()
    (units / "vllm@dropin.service.d").mkdir()
    (units / "vllm@dropin.service.d/10-vllm-fleet.conf").touch()
    assert engine_host.left_behind(["kept"], str(units), str(etc)) == [
        {"name": "by-hand", "owned": False, "enabled": True},
        {"name": "dropin", "owned": True, "enabled": False},
        {"name": "old", "owned": True, "enabled": False},
    ]


def test_a_model_that_cannot_be_served(tmp_path: Path) -> None:
    model = tmp_path / "model"
    nobody = pwd.getpwnam("nobody")
    assert "no folder" in str(engine_host.model_problem(str(model), None))
    model.mkdir()
    assert "no config.json" in str(engine_host.model_problem(str(model), None))
    (model / "config.json").touch()
    assert engine_host.model_problem(str(model), None) is None
    model.chmod(0o700)
    assert "nobody may not enter" in str(engine_host.model_problem(str(model), nobody))


def preflight(tmp_path: Path, check_mode: bool = False, **row: Any) -> Module:
    wanted = {"name": "r1", "port": 8000, "model": "/no/model", "release": "", "program": ""}
    return Module(
        check_mode=check_mode,
        user="no-such-user",
        releases_dir=str(tmp_path / "releases"),
        default_release="",
        prune=False,
        instances=[{**wanted, **row}],
    )


def test_preflight_names_option_seen_and_next_step(tmp_path: Path) -> None:
    release(tmp_path, "aaa")
    module = preflight(tmp_path, release="bbb", program="/no/engine")
    assert engine_preflight.user_missing(module.params, None) == [
        "user: no-such-user is not on this host; the role os_baseline creates it"
    ]
    assert engine_preflight.release_missing(module.params, "aaa") == [
        f"instance r1, release: bbb is not installed (installed in {tmp_path}/releases: aaa);"
        " the role vllm_build installs one"
    ]
    assert engine_preflight.model_missing(module.params, None) == [
        "instance r1, model: there is no folder /no/model on this host"
    ]
    assert "/no/engine is not an executable" in engine_preflight.program_problems(module.params)[0]


@pytest.mark.parametrize(
    ("units", "left", "hint"),
    [
        (["nginx.service"], [], False),
        (["vllm@old.service"], [{"name": "old", "owned": True}], True),
    ],
)
def test_preflight_names_who_holds_the_port(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    units: list[str],
    left: list[dict[str, Any]],
    hint: bool,
) -> None:
    holder = {"pid": 7, "name": "x", "units": units}
    monkeypatch.setattr(listeners, "listeners", lambda _port: [holder])
    module = preflight(tmp_path)
    found = engine_preflight.port_problems(module.params, left)
    assert "port: 8000 is held by process 7 (x)" in found[0]
    assert ("vllm_service_prune" in found[0]) is hint
    module.params["prune"] = True
    assert (engine_preflight.port_problems(module.params, left) == []) is hint


def secret(path: Path, **params: Any) -> Module:
    wanted = {"path": str(path), "content": "K=geheim\n", "owner": "root", "group": "root"}
    return Module(**{**wanted, "mode": "0600", "state": "present", **params})


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to root")
def test_a_secret_file_is_never_open_and_only_its_hash_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "s.env"
    path.write_text("old")
    path.chmod(0o644)
    module = secret(path)
    want = secret_file.wanted(module.params)
    assert secret_file.differences(secret_file.present(str(path)), want) == ["content", "mode"]
    secret_file.write(module, str(path), want)
    assert path.read_text() == "K=geheim\n"
    assert path.stat().st_mode & 0o7777 == 0o600
    assert secret_file.differences(secret_file.present(str(path)), want) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.env"]
    shown = secret_file.diff_words(want, "hidden") + secret_file.salted_hash(want["content"])
    assert "geheim" not in shown


def test_the_salt_makes_two_hashes_of_one_secret_differ() -> None:
    one, other = secret_file.salted_hash(b"x"), secret_file.salted_hash(b"x")
    assert one != other
    salt = bytes.fromhex(one.split("$")[0])
    assert secret_file.salted_hash(b"x", salt) == one


def test_a_secret_file_that_is_not_wanted(tmp_path: Path) -> None:
    assert secret_file.differences(secret_file.present(str(tmp_path / "no")), None) == []
    (tmp_path / "link").symlink_to("/etc/hostname")
    assert secret_file.differences(secret_file.present(str(tmp_path / "link")), None) == ["state"]


def test_an_unknown_owner_is_refused_but_predicted(tmp_path: Path) -> None:
    module = secret(tmp_path / "s", owner="no-such-user")
    want = secret_file.wanted(module.params)
    with pytest.raises(Failed, match="no-such-user"):
        secret_file.refuse_unknown_names(module, want)
    module.check_mode = True
    secret_file.refuse_unknown_names(module, want)
