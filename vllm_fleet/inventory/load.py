"""Read the inventory with Ansible's own code, so that we see what a run will see.

The only module of the command that imports Ansible's Python code. Every source that Ansible
cannot read is an error here, where Ansible itself goes on with "0 hosts, success".
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, get_file_vault_secret
from ansible.plugins.inventory import detect_range, expand_hostname_range
from ansible.release import __version__ as ansible_version
from ansible.utils.display import Display
from ansible.vars.manager import VariableManager

from vllm_fleet.engine.request import Credentials
from vllm_fleet.errors import ConfigError, Problem
from vllm_fleet.inventory.hints import did_you_mean
from vllm_fleet.inventory.marks import broken_line, files
from vllm_fleet.inventory.model import Inventory, Locked, Vaulted

VAULT_TYPES = {"EncryptedString", "AnsibleVaultEncryptedUnicode"}
PLACE = re.compile(r"^(?P<file>/[^:\n]+):(?P<line>\d+):\s*(?P<message>.*)", re.DOTALL)
DASH_RANGE = re.compile(r"\[(\d+)-(\d+)\]")
# What Ansible adds to every host's variables; `groups` holds the whole fleet each time.
ANSIBLES_OWN = frozenset(
    {
        *("groups", "group_names", "hostvars", "inventory_dir", "inventory_file", "omit"),
        *("inventory_hostname", "inventory_hostname_short", "playbook_dir"),
        *("ansible_config_file", "ansible_facts", "ansible_playbook_python", "ansible_version"),
    }
)
NUMBER_AS_NAME = re.compile(r"add group ([\d.]+): Invalid|pattern ([\d.]+) must be a string")
NO_MATCH = "Could not match supplied host pattern"


def collection_search_paths() -> list[str]:
    """Return where ansible-core looks for collections, in its order."""
    configured = [str(path) for path in constants.COLLECTIONS_PATHS or ()]
    scan = getattr(constants, "COLLECTIONS_SCAN_SYS_PATH", True)
    return configured + (sys.path if scan else [])


def core_version() -> str:
    """Return the version of ansible-core."""
    return str(ansible_version)


def ignored_suffixes() -> tuple[str, ...]:
    """Return the suffixes of files that Ansible skips in a folder (2.16 skips .ini)."""
    return tuple(str(suffix) for suffix in constants.INVENTORY_IGNORE_EXTS or ())


def expand(pattern: str) -> list[str]:
    """Return the hosts that a range like gpu-[01:04] means."""
    if not detect_range(pattern):
        return [pattern]
    try:
        return [str(name) for name in expand_hostname_range(pattern)]
    except AnsibleError:
        return [pattern]


def load(
    sources: Iterable[str],
    limit: str = "",
    extra_vars_files: Iterable[str] = (),
    credentials: Credentials | None = None,
    basedir: Path | None = None,
) -> Inventory:
    """Return the inventory, or an error that names file and line."""
    paths = tuple(sources) or _configured_sources()
    _require_sources(paths)
    loader = DataLoader()
    if basedir is not None:
        # Ansible also reads group_vars and host_vars beside the playbook.
        loader.set_basedir(str(basedir))
    keys = _vault_secrets(loader, credentials or Credentials())
    loader.set_vault_secrets(keys)
    plain = Plain(VaultLib(keys))
    manager = _parse(loader, paths)
    variables = VariableManager(loader=loader, inventory=manager)
    extra = _extra_variables(loader, extra_vars_files)
    selected = _select(manager, limit)
    try:
        values = {name: _variables(variables, manager, name) | extra for name in selected}
    except AnsibleError as error:
        problems = _broken_files(paths, basedir) or [Problem(_first_line(_text(error)))]
        raise ConfigError("a file of variables cannot be read", problems) from error
    return Inventory(
        sources=paths,
        hosts=tuple(manager.hosts),
        selected=selected,
        groups=_groups(manager),
        parents=_parents(manager),
        variables={name: plain.mapping(found) for name, found in values.items()},
        matching=lambda pattern: _matching(manager, pattern),
        depths={
            name: (int(group.depth), int(group.priority)) for name, group in manager.groups.items()
        },
    )


def _configured_sources() -> tuple[str, ...]:
    """Return the inventory that ansible.cfg or the environment names."""
    configured = [str(path) for path in constants.DEFAULT_HOST_LIST or ()]
    named = [path for path in configured if path != "/etc/ansible/hosts"]
    if not named:
        raise ConfigError("no inventory: give one with -i INVENTORY")
    return tuple(named)


def _require_sources(paths: Iterable[str]) -> None:
    """Refuse a source that is not there."""
    missing = [path for path in paths if "," not in path and not Path(path).exists()]
    if missing:
        problems = [Problem("there is no such file or folder", file=path) for path in missing]
        raise ConfigError("the inventory is not there", problems)


def _vault_secrets(loader: Any, credentials: Credentials) -> list[tuple[str, Any]]:
    """Return the vault's passwords, read from the files that were named."""
    identities = [*(constants.DEFAULT_VAULT_IDENTITY_LIST or ()), *credentials.vault_ids]
    files = list(credentials.vault_password_files)
    if constants.DEFAULT_VAULT_PASSWORD_FILE:
        files.append(constants.DEFAULT_VAULT_PASSWORD_FILE)
    pairs = [_identity(identity) for identity in identities]
    pairs += [(constants.DEFAULT_VAULT_IDENTITY, name) for name in files]
    return [(label, _vault_secret(loader, label, name)) for label, name in pairs]


def _identity(identity: str) -> tuple[str, str]:
    """Split ``LABEL@FILE``."""
    label, at, name = identity.rpartition("@")
    if name in {"prompt", "prompt_ask_vault_pass"}:
        raise ConfigError(
            f"--vault-id {identity}: a run cannot ask for a password",
            hint="name a file, or a script that prints the password",
        )
    return (label if at else constants.DEFAULT_VAULT_IDENTITY, name)


def _vault_secret(loader: Any, label: str, name: str) -> Any:
    """Read one vault password."""
    try:
        secret = get_file_vault_secret(filename=name, vault_id=label, loader=loader)
        secret.load()
    except AnsibleError as error:
        problem = Problem(f"the vault password cannot be read: {_text(error)}", file=name)
        raise ConfigError("a vault password is missing", [problem]) from error
    return secret


@contextlib.contextmanager
def heard(messages: list[str]) -> Iterator[None]:
    """Collect Ansible's warnings instead of showing them."""
    display = Display()

    def warning(msg: object = "", *_args: object, **_kwargs: object) -> None:
        messages.append(str(msg))

    def error_as_warning(msg: object = "", exception: object = "", **_kwargs: object) -> None:
        messages.append(f"{msg}\n{_place(exception)}{_text(exception)}")

    display.__dict__.update(warning=warning, error_as_warning=error_as_warning)
    try:
        yield
    finally:
        for name in ("warning", "error_as_warning"):
            display.__dict__.pop(name, None)


def _place(error: object) -> str:
    """Return ``file:line:`` where an error or one of its causes knows it."""
    while error is not None:
        origin = getattr(error, "obj", None)
        path, line = getattr(origin, "path", None), getattr(origin, "line_num", None)
        if path and line:
            return f"{path}:{line}: "
        error = getattr(error, "__cause__", None)
    return ""


def _text(error: object) -> str:
    """Return an error's message without Ansible's decoration."""
    message = getattr(error, "message", None) or str(error)
    return str(message).strip()


def _parse(loader: Any, paths: tuple[str, ...]) -> Any:
    """Let Ansible read the sources; one that it cannot read is an error."""
    constants.INVENTORY_ANY_UNPARSED_IS_FAILED = True
    constants.INVENTORY_UNPARSED_IS_FAILED = True
    warnings: list[str] = []
    try:
        with heard(warnings):
            return InventoryManager(loader=loader, sources=list(paths))
    except AnsibleError as error:
        problems = _parse_problems(warnings, error)
        raise ConfigError("the inventory cannot be read", problems) from error


def _parse_problems(warnings: list[str], error: AnsibleError) -> list[Problem]:
    """Return what is wrong, from the plugin that the file was meant for."""
    failed = str(error).rpartition("inventory source ")[2].strip()
    wanted = "yaml" if Path(failed).suffix in {".yml", ".yaml", ".json"} else "ini"
    said = [text for text in warnings if re.search(rf"\b{wanted}\b.*plugin", text)]
    if not said:
        said = [text for text in warnings if " plugin" in text] or [_text(error)]
    return [_parse_problem(text, failed) for text in said[:1]]


def _parse_problem(text: str, failed: str) -> Problem:
    """Turn Ansible's words about a source into file, line and message."""
    words = re.sub(r"^\s*\*?\s*Failed to parse .*?plugin[.:]\s*", "", text, flags=re.DOTALL)
    found = PLACE.match(words.strip())
    file, line, message = failed, 0, words.strip()
    if found:
        file, line, message = found["file"], int(found["line"]), found["message"]
    elif where := re.search(r"line (\d+), column", words):
        line = int(where[1])
    # A second mention of the place says nothing new.
    message = message.removeprefix(f"{file}:{line}: ").removeprefix("Failed to parse inventory: ")
    line = line or _guess_line(file, message)
    if number := NUMBER_AS_NAME.search(message):
        name = number[1] or number[2]
        hint = f'quote it: "{name}":'
        return Problem(f"the name {name} is read as a number", file=file, line=line, hint=hint)
    message = _first_line(message) or "not an inventory"
    return Problem(message, file=file, line=line, hint=_hint(file, line))


def _first_line(message: str) -> str:
    """Return the line of a message that says something."""
    first = message.split("\n")[0]
    return "is not valid YAML" if first.startswith("We were unable to read either") else first


def _broken_line(file: str) -> int:
    """Return the line at which a file stops being YAML, or 0."""
    try:
        return broken_line(Path(file).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return 0


def _guess_line(file: str, message: str) -> int:
    """Return the line where the words of the message stand, where Ansible names none."""
    if not Path(file).is_file():
        return 0
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    if Path(file).suffix in {".yml", ".yaml"} and (line := _broken_line(file)):
        return line
    if "range must be" in message:
        found = DASH_RANGE.search(text) or re.search(r"\[[^]\s]*:[^]\s]*\]\S", text)
    elif words := re.search(r"got: (\S+)|pattern (\S+) must|group (\S+): Inv", message):
        # A word of its own: name=value elsewhere is no match.
        found = re.search(
            rf"(?<![\w.='\"-]){re.escape(words[1] or words[2] or words[3])}(?=[\s:]|$)", text
        )
    else:
        found = None
    return text.count("\n", 0, found.start()) + 1 if found else 0


def _hint(file: str, line: int) -> str:
    """Return what probably has to change in the line."""
    try:
        text = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()[line - 1]
    except (OSError, IndexError):
        return ""
    if found := DASH_RANGE.search(text):
        return f"a range is written with a colon: [{found[1]}:{found[2]}]"
    if re.search(r"\s=|=\s", text):
        return "write name=value without spaces around the equals sign"
    return ""


def _extra_variables(loader: Any, files: Iterable[str]) -> dict[str, Any]:
    """Return the variables of ``-e @FILE``."""
    variables: dict[str, Any] = {}
    for name in files:
        try:
            content = loader.load_from_file(name)
        except AnsibleError as error:
            problem = Problem(_first_line(_text(error)), file=name, line=_broken_line(name))
            raise ConfigError("a file of variables cannot be read", [problem]) from error
        if not isinstance(content, Mapping):
            raise ConfigError("a file of variables is wrong", [Problem("holds no mapping", name)])
        variables.update(content)
    return variables


def _broken_files(paths: tuple[str, ...], basedir: Path | None) -> list[Problem]:
    """Return every file of variables that is no YAML (Ansible does not always name it)."""
    found = files(paths, str(basedir or ""))
    lines = [(str(file), _broken_line(str(file))) for file, origin in found if origin.folder]
    return [Problem("is not valid YAML", file=file, line=line) for file, line in lines if line]


def _select(manager: Any, limit: str) -> tuple[str, ...]:
    """Return the hosts that the limit leaves; a word of it that matches nothing is an error."""
    warnings: list[str] = []
    try:
        with heard(warnings):
            manager.subset(limit or None)
            selected = tuple(host.name for host in manager.get_hosts("all"))
            matched = manager.get_hosts(limit, ignore_limits=True) if limit else selected
    except AnsibleError as error:
        raise ConfigError(f"--limit {limit}: {_text(error)}") from error
    finally:
        manager.subset(None)
    unmatched = [text.rpartition(": ")[2] for text in warnings if NO_MATCH in text]
    if unmatched and not limit.startswith("@"):
        known = [*manager.hosts, *manager.groups]
        word = unmatched[0]
        raise ConfigError(
            f"--limit {limit}: {word} is no host or group of the inventory",
            hint=did_you_mean(word, known),
        )
    if not selected or not matched:
        raise ConfigError(f"no hosts selected{f' by --limit {limit}' if limit else ''}")
    return selected


def _groups(manager: Any) -> dict[str, tuple[str, ...]]:
    """Return the members of every group."""
    return {
        name: tuple(host.name for host in group.get_hosts())
        for name, group in manager.groups.items()
    }


def _parents(manager: Any) -> dict[str, frozenset[str]]:
    """Return every group's ancestors."""
    return {
        name: frozenset(parent.name for parent in group.get_ancestors())
        for name, group in manager.groups.items()
    }


def _matching(manager: Any, pattern: str) -> tuple[str, ...]:
    """Return the hosts that a play's pattern names."""
    with heard([]):
        return tuple(host.name for host in manager.get_hosts(pattern, ignore_limits=True))


def _variables(variables: Any, manager: Any, name: str) -> dict[str, Any]:
    """Return a host's variables."""
    found = variables.get_vars(host=manager.get_host(name), include_hostvars=False)
    return {key: value for key, value in found.items() if key not in ANSIBLES_OWN}


class Plain:
    """Turns Ansible's own types into Python's, and decrypts on the way."""

    def __init__(self, vault: Any) -> None:
        self.vault = vault

    def mapping(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        """Return a mapping as plain data."""
        return {str(key): self.value(value) for key, value in values.items()}

    def value(self, value: Any) -> Any:
        """Return a value as plain data."""
        if type(value).__name__ in VAULT_TYPES:
            return self.decrypted(value)
        if isinstance(value, Mapping):
            return self.mapping(value)
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        for kind in (bool, int, float, str):
            if isinstance(value, kind):
                return kind(value)
        return value

    def decrypted(self, value: Any) -> str:
        """Return an encrypted value, marked as such."""
        try:
            # Both of Ansible's types for encrypted values keep the text here.
            return Vaulted(self.vault.decrypt(value._ciphertext).decode())
        except AnsibleError as error:
            return Locked(_text(error).split("\n")[0])
