"""What one playbook run is asked to do, and what Ansible is given for it."""

from __future__ import annotations

import locale
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Credentials:
    """Where the secrets are; never the secrets themselves."""

    vault_ids: tuple[str, ...] = ()
    vault_password_files: tuple[str, ...] = ()
    become_password_file: str = ""


@dataclass(frozen=True)
class RunRequest:
    """One run of one playbook."""

    playbook: Path
    inventories: tuple[str, ...]
    limit: str = ""
    tags: tuple[str, ...] = ()
    check: bool = False
    diff: bool = False
    forks: int = 0
    user: str = ""
    verbosity: int = 0
    extra_vars_files: tuple[str, ...] = ()
    credentials: Credentials = field(default_factory=Credentials)


# A sysadmin's environment must not narrow a run without anybody seeing it.
DROPPED_ENVIRONMENT = (
    "ANSIBLE_INVENTORY",
    "ANSIBLE_RUN_TAGS",
    "ANSIBLE_SKIP_TAGS",
    "ANSIBLE_STDOUT_CALLBACK",
    "ORIGINAL_STDOUT_CALLBACK",
    "MAX_EVENT_RES",
)


def arguments(request: RunRequest) -> list[str]:
    """Return those arguments of ansible-playbook for which ansible-runner has no parameter."""
    args = []
    args += ["--check"] if request.check else []
    args += ["--diff"] if request.diff else []
    args += ["--user", request.user] if request.user else []
    for name in request.extra_vars_files:
        args += ["--extra-vars", f"@{name}"]
    return args + credential_arguments(request.credentials)


def credential_arguments(credentials: Credentials) -> list[str]:
    """Return the arguments that say where secrets are."""
    args = []
    for vault_id in credentials.vault_ids:
        args += ["--vault-id", vault_id]
    for name in credentials.vault_password_files:
        args += ["--vault-password-file", name]
    if credentials.become_password_file:
        args += ["--become-password-file", credentials.become_password_file]
    return args


def environment() -> dict[str, str]:
    """Return the settings that we insist on, as environment variables."""
    return {
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
        "ANSIBLE_MODULE_STRICT_UTF8_RESPONSE": "False",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "True",
        "SSH_ASKPASS_REQUIRE": "never",
        **utf8_locale(),
    }


def utf8_locale() -> dict[str, str]:
    """Return a locale with which Ansible starts, where the present one would not do."""
    return {} if _encoding() in ("utf8", "utf-8") else {"LC_ALL": "C.UTF-8"}


def _encoding() -> str:
    """Ask as Ansible does: in the plain C locale Python itself uses UTF-8 and answers so."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "")
        return (locale.getlocale()[1] or "").lower()
    except (locale.Error, ValueError):
        return ""
    finally:
        locale.setlocale(locale.LC_ALL, before)


def ansible_playbook() -> str:
    """Return the ansible-playbook that belongs to our own interpreter."""
    beside = Path(sys.executable).with_name("ansible-playbook")
    if beside.exists():
        return str(beside)
    return shutil.which("ansible-playbook") or "ansible-playbook"
