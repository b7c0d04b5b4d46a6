"""A small collection and a fleet of local connections, for tests with the real ansible-runner."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import vllm_fleet
from vllm_fleet import collection
from vllm_fleet.cli.main import main

CHECKOUT = Path(__file__).parents[2]
SITE = """---
- name: "Stage os_baseline: Prepare the operating system"
  hosts: serving
  gather_facts: false
  tags: [os_baseline]
  roles: [os_baseline]

- name: "Stage hugepages: Reserve hugepages"
  hosts: serving
  gather_facts: false
  tags: [hugepages]
  roles: [hugepages]
"""
BASELINE = """---
- name: Write the file
  ansible.builtin.copy:
    dest: "{{ os_baseline_path }}"
    content: "{{ inventory_hostname }}\\n"
    mode: "0600"

- name: Say what is secret
  ansible.builtin.debug:
    msg: "{{ os_baseline_secrets | join(' ') }}"
  when: os_baseline_secrets | length > 0

- name: Say too much
  ansible.builtin.debug:
    msg: "{{ 'x' * 800000 }}"
  when: os_baseline_big

- name: Wait
  ansible.builtin.command: "sleep {{ os_baseline_sleep }}"
  changed_when: false
  when: os_baseline_sleep > 0

- name: Fail
  ansible.builtin.fail:
    msg: "disk 3 of {{ inventory_hostname }} is full"
  when: os_baseline_fail
"""
HUGEPAGES = """---
- name: Look at the pages
  ansible.builtin.command: "true"
  changed_when: false
"""
SPECS = """---
argument_specs:
  main:
    options:
      os_baseline_path: {type: path, required: true}
      os_baseline_secrets: {type: list, elements: str, default: []}
      os_baseline_big: {type: bool, default: false}
      os_baseline_fail: {type: bool, default: false}
      os_baseline_sleep: {type: int, default: 0}
"""
DEFAULTS = """---
os_baseline_secrets: []
os_baseline_big: false
os_baseline_fail: false
os_baseline_sleep: 0
"""


def write_collection(root: Path, site: str = SITE) -> Path:
    """Write the collection that stands in for ours."""
    files = {
        "galaxy.yml": f"version: {vllm_fleet.__version__}\n",
        "playbooks/site.yml": site,
        "roles/os_baseline/tasks/main.yml": BASELINE,
        "roles/os_baseline/defaults/main.yml": DEFAULTS,
        "roles/os_baseline/meta/argument_specs.yml": SPECS,
        "roles/hugepages/tasks/main.yml": HUGEPAGES,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "playbooks/roles").symlink_to("../roles")
    # What it knows of versions is the real thing.
    for name in ("catalog", "plugins"):
        (root / name).symlink_to(CHECKOUT / name)
    found = root / "playbooks/collections/ansible_collections/vllm_fleet"
    found.mkdir(parents=True)
    (found / "baremetal").symlink_to("../../../..")
    return root


DRIVER = """
import sys
from pathlib import Path
from vllm_fleet import collection
from vllm_fleet.cli.main import main
collection.checkout = lambda: Path(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""


@dataclass
class Fleet:
    """A fleet in a folder: its inventory, its collection, and the command on it."""

    root: Path
    capture: Callable[[], Any]
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def inventory(self) -> Path:
        return self.root / "inventory.json"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def add(self, name: str, **variables: Any) -> Fleet:
        """Add a host with a local connection."""
        base = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "os_baseline_path": str(self.root / f"{name}.txt"),
        }
        self.hosts[name] = base | variables
        return self.write()

    def add_unreachable(self, name: str) -> Fleet:
        """Add a host that refuses connections."""
        ssh = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
        return self.add(name, **ssh)

    def write(self, **group_vars: Any) -> Fleet:
        """Write the inventory."""
        settings = {"vllm_fleet": {"name": "demo"}} | group_vars
        cpu = {"cpu": {"hosts": self.hosts}}
        whole = {"all": {"vars": settings, "children": {"serving": {"children": cpu}}}}
        self.inventory.write_text(json.dumps(whole, indent=1))
        return self

    def run(self, verb: str, *args: str) -> tuple[int, str, str]:
        """Run the command in this process; return its exit code, output and error output."""
        self.capture()
        code = main([verb, "-i", str(self.inventory), *args])
        said = self.capture()
        return code, said.out, said.err

    def json(self, verb: str, *args: str) -> tuple[int, dict[str, Any]]:
        """Run the command with --json."""
        code, out, _ = self.run(verb, "--json", *args)
        return code, json.loads(out)

    def start(self, verb: str, *args: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start the command as a process of its own."""
        (self.root / "driver.py").write_text(DRIVER)
        command = [sys.executable, str(self.root / "driver.py"), str(self.root / "collection")]
        return subprocess.Popen(
            [*command, verb, "-i", str(self.inventory), *args],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


@pytest.fixture
def fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Fleet:
    """A fleet without hosts."""
    root = write_collection(tmp_path / "collection")
    monkeypatch.setattr(collection, "checkout", lambda: root)
    monkeypatch.setenv("VLLM_FLEET_STATE_HOME", str(tmp_path / "state"))
    return Fleet(tmp_path, capsys.readouterr)
