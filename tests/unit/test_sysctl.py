"""Kernel settings: what a file says, what wins at boot, what the kernel runs with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import hostread, sysctl_files
from ansible_collections.vllm_fleet.baremetal.plugins.modules import sysctl

OURS = "/etc/sysctl.d/90-vllm-fleet.conf"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("vm.swappiness", "vm/swappiness"),
        ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
        ("net/ipv4/conf/eth0.100/rp_filter", "net/ipv4/conf/eth0.100/rp_filter"),
    ],
)
def test_both_notations_of_a_name(name: str, path: str) -> None:
    assert sysctl_files.key_path(name) == path


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("4096 87380 6291456", "4096\t87380\t6291456\n", True),
        ("0x10", "16", True),
        ("1", "01", True),
        ("1", "2", False),
        ("1", "1 1", False),
        ("bbr", "cubic", False),
    ],
)
def test_same_value(one: str, other: str, same: bool) -> None:
    assert sysctl_files.same_value(one, other) is same


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"vm.nr_hugepages": 16609.0}, "whole number"),
        ({"vm.x": True}, "write 1 or 0"),
        ({"vm.x": None}, "neither"),
        ({"vm.x": ""}, "empty"),
        ({"vm.x": "1\n2"}, "several lines"),
        ({"swappiness": 1}, "no name"),
        ({"../etc/passwd": 1}, "no name"),
        ({"net.ipv4.conf.*.rp_filter": 1}, "no name"),
        ({"vm.x = 1\nkernel.y": 1}, "no name"),
    ],
)
def test_bad_settings_are_refused(values: dict[str, Any], word: str) -> None:
    with pytest.raises(sysctl_files.BadSetting, match=word):
        sysctl_files.checked(values)


def test_file_can_be_read_back() -> None:
    text = sysctl_files.render("Ours\nand yours", {"vm.b": "2", "vm.a": "1 2"})
    assert text == "# Ours\n# and yours\nvm.a = 1 2\nvm.b = 2\n"
    assert sysctl_files.parse(text + "; x=1\n-kernel.z=3\n") == [
        ("vm/a", "1 2"),
        ("vm/b", "2"),
        ("kernel/z", "3"),
    ]


def test_stronger_directories_hide_names_and_names_decide_the_order() -> None:
    listing = {
        "/usr/lib/sysctl.d": ["50-default.conf", "99-x.conf", "README"],
        "/etc/sysctl.d": ["90-vllm-fleet.conf", "99-x.conf"],
    }
    assert sysctl_files.ordered(listing) == [
        "/usr/lib/sysctl.d/50-default.conf",
        OURS,
        "/etc/sysctl.d/99-x.conf",
    ]


@pytest.mark.parametrize(
    ("later", "winner"),
    [
        ("vm.nr_hugepages = 0", {"value": "0", "file": "/etc/sysctl.d/99-x.conf"}),
        ("-vm/nr_hugepages=0", {"value": "0", "file": "/etc/sysctl.d/99-x.conf"}),
        ("vm.nr_hugepages = 1024", None),
        ("vm.* = 0", None),
        ("", None),
    ],
)
def test_a_later_file_that_undoes_ours_is_named(later: str, winner: dict[str, str] | None) -> None:
    """ansible#5469: the file is right, the kernel is not."""
    files = [(OURS, "vm.nr_hugepages = 1024\n"), ("/etc/sysctl.d/99-x.conf", later)]
    found = sysctl_files.overriding({"vm.nr_hugepages": "1024"}, OURS, files)
    assert found == ({"vm.nr_hugepages": winner} if winner else {})


@pytest.fixture
def host(tmp_path: Path) -> hostread.Host:
    for name, text in {
        "proc/sys/vm/swappiness": "60\n",
        "proc/sys/vm/max_map_count": "65530",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return hostread.Host(str(tmp_path))


def params(values: dict[str, Any], **more: str) -> dict[str, Any]:
    rest = {"path": OURS, "header": "Ours", "readonly": "fail", "overridden": "fail", **more}
    return {"values": values, **rest}


def test_check_tells_persisted_from_running(host: hostread.Host, tmp_path: Path) -> None:
    (tmp_path / "etc/sysctl.d").mkdir(parents=True)
    (tmp_path / OURS[1:]).write_text("# Ours\nvm.swappiness = 10\n", encoding="utf-8")
    found = sysctl.check(host, params({"vm.swappiness": 10}))
    assert found["persisted"] == {"vm.swappiness": "10"}
    assert found["running"] == {"vm.swappiness": "60"}
    assert found["text"] == found["before"]
    assert found["differing"] == ["vm.swappiness"]


def test_check_on_a_host_without_the_file(host: hostread.Host) -> None:
    found = sysctl.check(host, params({"vm.swappiness": "60", "vm.max_map_count": 262144}))
    assert found["before"] is None
    assert found["differing"] == ["vm.max_map_count"]
    assert "+" not in sysctl.diff(found, OURS)[1]["after"]
    assert sysctl.diff(found, OURS)[1] == {
        "before_header": "running kernel",
        "after_header": "running kernel",
        "before": "vm.max_map_count = 65530\n",
        "after": "vm.max_map_count = 262144\n",
    }


def test_unknown_setting_is_a_problem(host: hostread.Host) -> None:
    wanted = params({"vm.no_such": 1})
    assert "no such setting" in sysctl.problems(sysctl.check(host, wanted), wanted)[0]


def test_readonly_setting(host: hostread.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: "swappiness" not in str(path))
    wanted = params({"vm.swappiness": 10, "vm.max_map_count": 262144})
    found = sysctl.check(host, wanted)
    assert found["not_settable"] == ["vm.swappiness"]
    (sentence,) = sysctl.problems(found, wanted)
    assert "vm.swappiness: is 60, wanted 10, and not settable here" in sentence
    assert sysctl.problems(found, params(wanted["values"], readonly="report")) == []


def test_overriding_file_is_a_problem(host: hostread.Host, tmp_path: Path) -> None:
    (tmp_path / "etc/sysctl.d").mkdir(parents=True)
    (tmp_path / "etc/sysctl.d/99-local.conf").write_text("vm.swappiness=60\n", encoding="utf-8")
    wanted = params({"vm.swappiness": 10})
    (sentence,) = sysctl.problems(sysctl.check(host, wanted), wanted)
    assert "/etc/sysctl.d/99-local.conf gives it 60" in sentence
    assert sysctl.problems(sysctl.check(host, wanted), {**wanted, "overridden": "report"}) == []


class FakeModule:
    """As much of AnsibleModule as apply() uses."""

    def __init__(self, root: Path, values: dict[str, Any]) -> None:
        self.tmpdir = str(root)
        self.params = params(values, path=str(root / OURS[1:]))

    def atomic_move(self, source: str, target: str) -> None:
        Path(source).replace(target)


def test_apply_writes_and_reads_back(host: hostread.Host, tmp_path: Path) -> None:
    module = FakeModule(tmp_path, {"vm.swappiness": 10})
    found = sysctl.check(host, module.params)
    assert sysctl.apply(module, host, found) == []
    assert (tmp_path / "proc/sys/vm/swappiness").read_text() == "10\n"
    assert (tmp_path / OURS[1:]).read_text() == "# Ours\nvm.swappiness = 10\n"


def test_apply_names_what_the_kernel_did_not_take(
    host: hostread.Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysctl, "write_running", lambda *_args: "")
    module = FakeModule(tmp_path, {"vm.swappiness": 10})
    (sentence,) = sysctl.apply(module, host, sysctl.check(host, module.params))
    assert "wanted 10, the kernel says 60" in sentence


def test_empty_values_remove_the_file(host: hostread.Host, tmp_path: Path) -> None:
    module = FakeModule(tmp_path, {})
    target = tmp_path / OURS[1:]
    target.parent.mkdir(parents=True)
    target.write_text("# Ours\nvm.swappiness = 10\n", encoding="utf-8")
    host = hostread.Host("/")
    assert sysctl.apply(module, host, sysctl.check(host, module.params)) == []
    assert not target.exists()
