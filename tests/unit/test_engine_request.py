"""What Ansible is given: the whole command line and environment are compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vllm_fleet.cli import run as cli_run
from vllm_fleet.engine import launch, request, runner
from vllm_fleet.engine.request import Credentials, RunRequest

EVERYTHING = RunRequest(
    playbook=Path("/c/playbooks/site.yml"),
    inventories=("/i/hosts.yml", "/i/my hosts.ini"),
    limit="ascend:!npu-07",
    tags=("os_baseline", "hugepages"),
    check=True,
    diff=True,
    forks=25,
    user="admin",
    extra_vars_files=("/e/my file.yml",),
    credentials=Credentials(("prod@/v/prod",), ("/v/plain",), "/b/become"),
)
INSISTED = {
    "ANSIBLE_HOST_KEY_CHECKING": "True",
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
    "ANSIBLE_MODULE_STRICT_UTF8_RESPONSE": "False",
    "ANSIBLE_NOCOLOR": "1",
    "ANSIBLE_PIPELINING": "True",
    "SSH_ASKPASS_REQUIRE": "never",
}
ADDED_BY_RUNNER = {
    "ANSIBLE_STDOUT_CALLBACK": "awx_display",
    "ANSIBLE_RETRY_FILES_ENABLED": "False",
    "RUNNER_OMIT_EVENTS": "False",
    "RUNNER_ONLY_FAILED_EVENTS": "False",
}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with one variable, and a UTF-8 locale."""
    import os

    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setattr(request.locale, "getpreferredencoding", lambda _set: "UTF-8")


@pytest.mark.usefixtures("bare")
def test_the_whole_command_line(tmp_path: Path) -> None:
    config = runner.configure(EVERYTHING, tmp_path)
    beside = str(Path(sys.executable).with_name("ansible-playbook"))
    assert config.command == [
        *(sys.executable, "-I", launch.__file__, str(tmp_path), beside),
        *("--check", "--diff", "--user", "admin"),
        *("--extra-vars", "@/e/my file.yml"),
        *("--vault-id", "prod@/v/prod", "--vault-password-file", "/v/plain"),
        *("--become-password-file", "/b/become"),
        *("-i", "/i/hosts.yml", "-i", "/i/my hosts.ini"),
        *("--limit", "ascend:!npu-07", "--tags", "os_baseline,hugepages", "--forks", "25"),
        "/c/playbooks/site.yml",
    ]


@pytest.mark.usefixtures("bare")
def test_the_whole_environment(tmp_path: Path) -> None:
    env = dict(runner.configure(EVERYTHING, tmp_path).env)
    env.pop("PYTEST_CURRENT_TEST")
    assert env.pop("ANSIBLE_CALLBACK_PLUGINS").endswith("display_callback/callback")
    assert env.pop("AWX_ISOLATED_DATA_DIR") == str(tmp_path / "artifacts/run")
    # No locale is set here, and Ansible starts with UTF-8 only.
    assert env == {"PATH": "/usr/bin", "LC_ALL": "C.UTF-8", **INSISTED, **ADDED_BY_RUNNER}


@pytest.mark.usefixtures("bare")
def test_as_little_as_possible(tmp_path: Path) -> None:
    job = RunRequest(playbook=Path("/c/site.yml"), inventories=("/i",))
    assert runner.configure(job, tmp_path).command[5:] == ["-i", "/i", "/c/site.yml"]


def test_the_mode_and_the_folder(tmp_path: Path) -> None:
    config = runner.configure(EVERYTHING, tmp_path)
    assert config.runner_mode == "subprocess"
    assert config.cwd == str(Path.cwd())
    assert not list((tmp_path / "artifacts/run").iterdir())


def test_the_users_environment_cannot_narrow_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in request.DROPPED_ENVIRONMENT:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("ANSIBLE_HOST_KEY_CHECKING", "False")
    env = runner.configure(EVERYTHING, tmp_path).env
    assert env["ANSIBLE_STDOUT_CALLBACK"] == "awx_display"
    assert env["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert not {*request.DROPPED_ENVIRONMENT} - {"ANSIBLE_STDOUT_CALLBACK"} & set(env)


@pytest.mark.parametrize("name", ["C", "POSIX", "zz_ZZ.UTF-8", "en_US.ISO-8859-1"])
def test_a_locale_without_utf8_is_replaced(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("LC_ALL", name)
    assert request.environment()["LC_ALL"] == "C.UTF-8"


def test_a_locale_with_utf8_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert "LC_ALL" not in request.environment()


def test_relative_inventories_become_absolute_and_lists_stay() -> None:
    assert runner.absolute("hosts.yml") == str(Path.cwd() / "hosts.yml")
    assert runner.absolute("a,b,") == "a,b,"


def test_only_one_module_imports_ansible_runner() -> None:
    package = Path(cli_run.__file__).parents[1]
    users = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "import ansible_runner" in path.read_text() or "from ansible_runner" in path.read_text()
    ]
    assert users == ["engine/runner.py"]
