"""The role hugepages on a lab host, with a tree of NUMA nodes whose counts are plain files.

The tests run in order on one host. What a real kernel does is tested on the emulated machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harness import RoleRun
from remote import Remote

pytestmark = pytest.mark.lab

NAME, PERSONA = "huge-1", "el8"
NODES = "/sys/devices/system/node"
FILE = "/etc/tmpfiles.d/vllm-fleet-hugepages.conf"
PENDING = "/var/lib/vllm-fleet/pending-reboot.d/hugepages.json"
TASK = "Reserve the pages and read them back"
# A kernel setting that refuses 512 and stays as it is: a node that always gives too few.
STUBBORN = "/proc/sys/net/ipv4/ip_default_ttl"
GRUBBY = """\
#!/bin/sh
# Stand-in: keeps the arguments of one kernel, and a log of its calls.
echo "$@" >> /run/grubby.log
for option; do
  case $option in --args=*) echo "ro ${option#--args=}" > /run/grubby.args ;; esac
done
echo "index=0"
echo "args=\\"$(cat /run/grubby.args 2>/dev/null || echo ro)\\""
"""


@pytest.fixture(scope="module")
def remote(lab_host: Callable[..., Any]) -> Remote:
    """Return a host with two nodes of 2 GiB, pages of 2 MiB and 1 GiB, and none reserved."""
    from vllm_fleet.lab import api

    host = lab_host(NAME, PERSONA)
    api.reset([NAME])
    remote = Remote(host.name, host.inventory)
    for node in (0, 1):
        tree = f"/run/nodes/node{node}"
        remote.write(f"{tree}/meminfo", f"Node {node} MemTotal: 2097152 kB\n")
        for size in (2048, 1048576):
            remote.write(f"{tree}/hugepages/hugepages-{size}kB/nr_hugepages", "0\n")
    remote.told(f"mount --bind /run/nodes {NODES}")
    return remote


def role(remote: Remote, *pools: dict[str, Any], **options: Any) -> RoleRun:
    more = {f"hugepages_{name}": value for name, value in options.items()}
    variables = {"hugepages_pools": list(pools), **more}
    return RoleRun(remote.name, remote.inventory, "hugepages", variables)


def count(node: int, size: int = 2048) -> str:
    return f"{NODES}/node{node}/hugepages/hugepages-{size}kB/nr_hugepages"


def counts(remote: Remote) -> list[int]:
    """Return the pages of 2 MiB on each node."""
    return [int(remote.told(f"cat {count(node)}")) for node in (0, 1)]


POOL = {"size": "2M", "memory": "1023M"}


def test_blank_host_checked(remote: Remote) -> None:
    done = role(remote, POOL).check()
    assert done.ok, done.output
    assert done.changed == [TASK]
    assert "+node 0, 2M: 256" in done.output
    assert counts(remote) == [0, 0]
    assert remote.told(f"ls {FILE} || true") == ""


def test_converged(remote: Remote) -> None:
    done = role(remote, POOL).apply()
    assert done.ok, done.output
    assert counts(remote) == [256, 256]
    assert f"w! {count(1)} - - - - 256" in remote.told(f"cat {FILE}")


def test_checked_again_is_clean_and_converged_again_changes_nothing(remote: Remote) -> None:
    for again in (role(remote, POOL).check(), role(remote, POOL).apply()):
        assert again.ok, again.output
        assert again.changed == []


def test_systemd_gives_the_pages_again_at_boot(remote: Remote) -> None:
    remote.told(f"echo 0 > {count(0)} && systemd-tmpfiles --create --boot {FILE}")
    assert counts(remote) == [256, 256]


def test_lost_pages_are_reserved_again(remote: Remote) -> None:
    remote.told(f"echo 3 > {count(1)}")
    done = role(remote, POOL).apply()
    assert done.changed == [TASK]
    assert counts(remote) == [256, 256]


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ({"size": "16M", "count": 1}, "allowed sizes: 2M, 1G"),
        ({"size": "2M", "count": 1, "node": "9"}, "this host has 0, 1"),
        ({"size": "2M", "memory": "95%"}, "at most 90% of a node"),
        ({"size": "2M", "count": 1, "memory": "1G"}, "mutually exclusive"),
        ({"count": 1}, "size"),
    ],
)
def test_pools_that_cannot_be_are_refused(remote: Remote, pool: dict[str, Any], words: str) -> None:
    done = role(remote, pool).apply()
    ((_task, message),) = done.failed
    assert words in message
    assert done.changed == []
    assert counts(remote) == [256, 256]


MUCH = {"size": "2M", "count": 512, "node": "each"}


def test_a_node_that_gives_fewer_is_a_failure(remote: Remote) -> None:
    remote.told(f"mount --bind {STUBBORN} {count(1)}")
    done = role(remote, MUCH).apply()
    ((task, message),) = done.failed
    assert task == TASK
    assert "2M pages on node 1: 64 of 512: needs boot parameter or reboot" in message
    assert counts(remote) == [512, 64]


def test_check_mode_starts_no_boot_loader_tool(remote: Remote) -> None:
    remote.write("/usr/sbin/grubby", GRUBBY, "0755")
    done = role(remote, MUCH, boot_fallback=True).check()
    assert done.ok, done.output
    assert done.changed == [TASK]
    assert remote.told("ls /run/grubby.log || true") == ""


def test_boot_arguments_in_place_of_a_failure(remote: Remote) -> None:
    done = role(remote, MUCH, boot_fallback=True).apply()
    assert done.ok, done.output
    (result,) = [task.result for task in done.tasks if task.task == TASK]
    assert result["reboot_required"] is True
    assert result["boot_arguments"] == "hugepagesz=2M hugepages=1024"
    assert remote.told("cat /run/grubby.args") == "ro hugepagesz=2M hugepages=1024"
    assert "hugepages=1024" in remote.told(f"cat {PENDING}")


def test_waiting_for_the_reboot_changes_nothing(remote: Remote) -> None:
    wanted = role(remote, MUCH, boot_fallback=True)
    for again in (wanted.check(), wanted.apply()):
        assert again.ok, again.output
        assert again.changed == []
        (result,) = [task.result for task in again.tasks if task.task == TASK]
        assert result["reboot_required"] is True


def test_pages_that_come_after_all_end_the_wait(remote: Remote) -> None:
    remote.told(f"umount {count(1)}")
    done = role(remote, MUCH, boot_fallback=True).apply()
    assert done.changed == [TASK]
    assert counts(remote) == [512, 512]
    assert remote.told(f"ls {PENDING} || true") == ""


def test_no_pools_remove_the_file_only(remote: Remote) -> None:
    done = role(remote).apply()
    assert done.changed == [TASK]
    assert counts(remote) == [512, 512]
    assert remote.told(f"ls {FILE} || true") == ""
