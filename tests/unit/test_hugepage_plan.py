"""Hugepage pools: planning, asking the kernel, persisting, and the kernel's command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    boot_args,
    boot_loader,
    hostread,
    hugepage_plan,
    hugepage_sysfs,
    pending_reboot,
)
from ansible_collections.vllm_fleet.baremetal.plugins.modules import hugepages

KIB, MIB, GIB = 1024, 1024**2, 1024**3
HUGE_2M, HUGE_1G = 2 * MIB, GIB


def two_nodes(memory: int = 16 * GIB, sizes: tuple[int, ...] = (HUGE_2M, HUGE_1G)) -> dict:
    return {node: {"memory": memory, "sizes": list(sizes)} for node in (0, 1)}


def pool(size: str, node: str = "all", **amount: Any) -> dict[str, Any]:
    return {"size": size, "node": node, "count": None, "memory": None, **amount}


def pages(*pools: dict[str, Any], nodes: dict | None = None) -> dict[int, int]:
    rows = hugepage_plan.plan(list(pools), nodes or two_nodes())
    return {row["node"]: row["pages"] for row in rows}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2M", 2 * MIB),
        ("2MiB", 2 * MIB),
        ("2048kB", 2 * MIB),
        ("2097152", 2 * MIB),
        ("1.5G", 1536 * MIB),
        ("0.3k", 308),
        ("1T", 1024 * GIB),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert hugepage_plan.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "2X", "-2M", "two", "2M2", "1e3"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(hugepage_plan.BadPool, match="is no size"):
        hugepage_plan.parse_size(text)


@pytest.mark.parametrize(
    ("memory", "whole"), [(1, 1), (HUGE_2M, 1), (HUGE_2M + 1, 2), (32439 * MIB, 16220)]
)
def test_a_part_of_a_page_is_rounded_up(memory: int, whole: int) -> None:
    """autobase PR 1537: 16609.0 pages are no number for the kernel, and too few are too few."""
    counted = hugepage_plan.pages_for(memory, HUGE_2M)
    assert counted == whole
    assert isinstance(counted, int)


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (pool("2M", count=5), {0: 3, 1: 2}),
        (pool("2M", node="each", count=5), {0: 5, 1: 5}),
        (pool("2M", node="1", count=5), {0: 0, 1: 5}),
        (pool("2M", memory="9M"), {0: 3, 1: 2}),
        (pool("2M", node="0", memory="3M"), {0: 2, 1: 0}),
        (pool("2M", memory="12.5%"), {0: 1024, 1: 1024}),
        (pool("1G", memory="33%"), {0: 6, 1: 6}),
        (pool("2M", count=0), {0: 0, 1: 0}),
    ],
)
def test_pages_per_node(wish: dict[str, Any], expected: dict[int, int]) -> None:
    assert pages(wish) == expected


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (pool("16M", count=1), "pool 1: this kernel has no hugepages of 16M on node 0; allowed"),
        (pool("2M", node="7", count=1), "there is no node 7; this host has 0, 1"),
        (pool("2M", node="first", count=1), "neither a number nor 'all' nor 'each'"),
        (pool("2M", count=-1), "no whole number"),
        (pool("2M"), "neither count nor memory"),
        (pool("2M", memory="120%"), "more than there is"),
        (pool("2M", memory="lots"), "is no size"),
    ],
)
def test_bad_pools_say_what_is_allowed(wish: dict[str, Any], sentence: str) -> None:
    with pytest.raises(hugepage_plan.BadPool, match=sentence):
        hugepage_plan.plan([wish], two_nodes())


def test_allowed_sizes_of_a_kernel_with_64k_pages_are_listed() -> None:
    nodes = two_nodes(sizes=(2 * MIB, 512 * MIB, 16 * GIB))
    with pytest.raises(hugepage_plan.BadPool, match="allowed sizes: 2M, 512M, 16G"):
        hugepage_plan.plan([pool("1G", count=1)], nodes)


def test_the_same_size_twice_on_a_node_is_refused() -> None:
    wishes = [pool("2M", node="0", count=1), pool("2048k", node="each", count=2)]
    with pytest.raises(hugepage_plan.BadPool, match="pool 2: size 2M on node 0 is asked for twice"):
        hugepage_plan.plan(wishes, two_nodes())


def test_a_host_without_nodes() -> None:
    assert hugepage_plan.plan([], {}) == []
    with pytest.raises(hugepage_plan.BadPool, match="no memory node"):
        hugepage_plan.plan([pool("2M", count=1)], {})


@pytest.mark.parametrize(("count", "fits"), [(7372, True), (7373, False)])
def test_the_memory_of_a_node_bounds_its_pages(count: int, fits: bool) -> None:
    rows = hugepage_plan.plan([pool("2M", node="0", count=count)], two_nodes())
    if fits:
        hugepage_plan.check_memory(rows, two_nodes(), 90)
    else:
        with pytest.raises(hugepage_plan.BadPool, match="at most 90% of a node"):
            hugepage_plan.check_memory(rows, two_nodes(), 90)


class Kernel:
    """A kernel that gives a node what a list says, one entry per write, the last for ever."""

    def __init__(self, gives: dict[int, list[int]], has: dict[int, int] | None = None) -> None:
        self.gives = gives
        self.has = dict.fromkeys(gives, 0) | (has or {})
        self.writes: list[int] = []

    def read(self, row: dict[str, int]) -> int:
        return self.has[row["node"]]

    def write(self, row: dict[str, int]) -> None:
        self.writes.append(row["node"])
        left = self.gives[row["node"]]
        self.has[row["node"]] = left.pop(0) if len(left) > 1 else left[0]


def settle(kernel: Kernel, rows: list[dict[str, int]], attempts: int = 3) -> list[str]:
    retried: list[int] = []
    running = hugepage_plan.settle(
        rows, kernel.read, kernel.write, attempts, lambda row: retried.append(row["node"])
    )
    assert len(retried) == max(0, len(kernel.writes) - len(set(kernel.writes)))
    return [hugepage_plan.tell(row) for row in hugepage_plan.short(rows, running)]


def row(node: int, count: int) -> dict[str, int]:
    return {"size": HUGE_2M, "node": node, "pages": count}


def test_a_second_try_gets_more_and_a_short_node_is_told() -> None:
    """performance-addon-operators 279."""
    kernel = Kernel({0: [487, 512], 1: [301]})
    told = settle(kernel, [row(0, 512), row(1, 512)])
    assert told == ["2M pages on node 1: 301 of 512: needs boot parameter or reboot"]
    assert kernel.writes == [0, 0, 1, 1, 1]


def test_what_is_there_is_not_asked_for_again() -> None:
    kernel = Kernel({0: [512]}, has={0: 512})
    assert settle(kernel, [row(0, 512)]) == []
    assert kernel.writes == []


def test_pages_are_given_back_first_and_pages_in_use_are_told() -> None:
    kernel = Kernel({0: [100], 1: [12]}, has={1: 50})
    told = settle(kernel, [row(0, 100), row(1, 10)], attempts=1)
    assert kernel.writes == [1, 0]
    assert told == ["2M pages on node 1: 12 are there and only 10 wanted: the others are in use"]


def test_tmpfiles_lines_can_be_read_back() -> None:
    path = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    text = hugepage_plan.tmpfiles([row(0, 512)], {(HUGE_2M, 0): path}, "Ours")
    assert text == f"# Ours\nw! {path} - - - - 512\n"
    assert hugepage_plan.parse_tmpfiles(text) == {path: 512}


Tree = Callable[..., hostread.Host]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    def make(files: dict[str, str]) -> hostread.Host:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return hostread.Host(str(tmp_path))

    return make


NODE = "sys/devices/system/node/node%d/"
POOL_2M = NODE + "hugepages/hugepages-2048kB/"
NUMA = {
    NODE % 0 + "meminfo": "Node 0 MemTotal: 1048576 kB\n",
    NODE % 1 + "meminfo": "Node 1 MemTotal: 1048576 kB\n",
    POOL_2M % 0 + "nr_hugepages": "12\n",
    POOL_2M % 0 + "surplus_hugepages": "2\n",
    POOL_2M % 1 + "nr_hugepages": "0\n",
}


def test_sysfs_of_a_host_with_nodes(tree: Tree) -> None:
    sysfs = hugepage_sysfs.Sysfs(tree(NUMA))
    assert sysfs.nodes() == {n: {"memory": GIB, "sizes": [HUGE_2M]} for n in (0, 1)}
    assert sysfs.read(row(0, 0)) == 10
    sysfs.write(row(1, 7))
    assert sysfs.read(row(1, 7)) == 7
    sysfs.compact(row(1, 7))
    assert list(sysfs.errors) == ["/proc/sys/vm/compact_memory"]


def test_sysfs_of_a_kernel_without_numa(tree: Tree) -> None:
    files = {
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
        "proc/meminfo": "MemTotal: 2048 kB\n",
    }
    sysfs = hugepage_sysfs.Sysfs(tree(files))
    assert sysfs.nodes() == {0: {"memory": 2 * MIB, "sizes": [HUGE_2M]}}
    assert sysfs.read(row(0, 0)) == 3


def params(*pools: dict[str, Any]) -> dict[str, Any]:
    more = {"path": "/etc/tmpfiles.d/x.conf", "header": "Ours", "max_node_percent": 90}
    return {"pools": list(pools), **more}


def test_check_tells_persisted_from_running(tree: Tree) -> None:
    path = "/" + POOL_2M % 0 + "nr_hugepages"
    host = tree({**NUMA, "etc/tmpfiles.d/x.conf": f"w! {path} - - - - 99\n"})
    found = hugepages.check(host, hugepage_sysfs.Sysfs(host), params(pool("2M", count=20)))
    assert found["persisted"] == {(HUGE_2M, 0): 99, (HUGE_2M, 1): None}
    assert found["running"] == {(HUGE_2M, 0): 10, (HUGE_2M, 1): 0}
    assert [one["node"] for one in found["short"]] == [1]
    assert "node 1, 2M: 0\n" in hugepages.diff(found, found["running"], "x")[1]["before"]


def test_check_refuses_where_sysfs_is_readonly(tree: Tree, monkeypatch: Any) -> None:
    host = tree(NUMA)
    monkeypatch.setattr(hugepage_sysfs.Sysfs, "settable", lambda *_args: False)
    with pytest.raises(hugepage_plan.BadPool, match="not settable here"):
        hugepages.check(host, hugepage_sysfs.Sysfs(host), params(pool("2M", count=4)))


TOTALS = {HUGE_2M: 1024}


def test_arguments_name_each_size_once() -> None:
    wanted = boot_args.arguments({HUGE_1G: 4, HUGE_2M: 512, 64 * KIB: 8})
    assert wanted == [
        *("hugepagesz=64K", "hugepages=8"),
        *("hugepagesz=2M", "hugepages=512"),
        *("hugepagesz=1G", "hugepages=4"),
    ]


def test_pairs_of_other_sizes_are_kept() -> None:
    words = ["ro", "hugepages=7", "hugepagesz=1G", "hugepages=2", "quiet"]
    assert boot_args.parse(words, HUGE_2M) == ({HUGE_2M: 7, HUGE_1G: 2}, ["ro", "quiet"])
    merged = boot_args.merged(words, TOTALS, HUGE_2M)
    assert " ".join(merged) == "hugepagesz=2M hugepages=1024 hugepagesz=1G hugepages=2"
    assert not boot_args.holds(words, TOTALS, HUGE_2M)
    assert boot_args.holds([*merged, "ro"], TOTALS, HUGE_2M)


def test_default_size_named_on_the_command_line() -> None:
    words = ["default_hugepagesz=1G", "hugepages=4"]
    assert boot_args.parse(words, HUGE_2M) == ({HUGE_1G: 4}, ["default_hugepagesz=1G"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("A=1\n", 'A=1\nGRUB_CMDLINE_LINUX="hugepagesz=2M hugepages=1024"\n'),
        (
            "GRUB_CMDLINE_LINUX='ro quiet'\nB=2\n",
            'GRUB_CMDLINE_LINUX="ro quiet hugepagesz=2M hugepages=1024"\nB=2\n',
        ),
        (
            'GRUB_CMDLINE_LINUX="hugepagesz=2M hugepages=3 ro"\n',
            'GRUB_CMDLINE_LINUX="ro hugepagesz=2M hugepages=1024"\n',
        ),
        (
            'GRUB_CMDLINE_LINUX_DEFAULT="x"\nGRUB_CMDLINE_LINUX=""\n',
            'GRUB_CMDLINE_LINUX_DEFAULT="x"\nGRUB_CMDLINE_LINUX="hugepagesz=2M hugepages=1024"\n',
        ),
    ],
)
def test_default_grub_is_edited_in_place(before: str, after: str) -> None:
    edited = boot_args.edited_default(before, TOTALS, HUGE_2M)
    assert edited == after
    assert boot_args.edited_default(edited, TOTALS, HUGE_2M) == edited


class FakeModule:
    """As much of AnsibleModule as the boot loaders use; tools do what a function says."""

    def __init__(self, root: Path, tools: dict[str, Callable[[list[str]], str]]) -> None:
        self.tmpdir = str(root)
        self.tools = tools
        self.calls: list[list[str]] = []

    def get_bin_path(self, name: str, opt_dirs: list[str]) -> str | None:
        return f"/usr/sbin/{name}" if name in self.tools else None

    def run_command(self, argv: list[str], environ_update: dict[str, str]) -> tuple[int, str, str]:
        assert environ_update["LC_ALL"] == "C"
        assert argv[:3] == ["timeout", "--kill-after=10", "300"]
        call = [Path(argv[3]).name, *argv[4:]]
        self.calls.append(call)
        return 0, self.tools[call[0]](call[1:]), ""

    def atomic_move(self, source: str, target: str) -> None:
        Path(source).replace(target)


def test_grubby_is_asked_told_and_asked_again(tree: Tree, tmp_path: Path) -> None:
    state = {"args": "ro hugepagesz=1G hugepages=2"}

    def grubby(options: list[str]) -> str:
        if options[-1].startswith("--args="):
            state["args"] = "ro " + options[-1][len("--args=") :]
        return f'index=0\nkernel="/boot/vmlinuz"\nargs="{state["args"]}"\nroot="/dev/vda1"\n'

    module = FakeModule(tmp_path, {"grubby": grubby})
    assert boot_loader.ensure(module, tree({}), TOTALS, HUGE_2M)
    pairs = "hugepagesz=2M hugepages=1024 hugepagesz=1G hugepages=2"
    assert module.calls[2] == ["grubby", "--update-kernel=ALL", f"--args={pairs}"]
    assert not boot_loader.ensure(module, tree({}), TOTALS, HUGE_2M)


def test_grubby_that_drops_a_pair_is_a_failure(tree: Tree, tmp_path: Path) -> None:
    module = FakeModule(tmp_path, {"grubby": lambda options: 'args="ro"\n'})
    with pytest.raises(boot_loader.BootLoaderError, match="still lacks 'hugepagesz=2M"):
        boot_loader.ensure(module, tree({}), TOTALS, HUGE_2M)


@pytest.fixture
def debian(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hostread.Host:
    host = tree({"etc/default/grub": 'GRUB_CMDLINE_LINUX=""\n', "boot/grub/grub.cfg": ""})
    monkeypatch.setattr(boot_loader, "DROP_IN", str(tmp_path / "etc/default/grub.d/90.cfg"))
    monkeypatch.setattr(host, "path", lambda path: str(_below(tmp_path, path)))
    return host


def _below(root: Path, path: str) -> Path:
    return Path(path) if path.startswith(str(root)) else root / path.lstrip("/")


def test_update_grub_reads_a_file_of_our_own(debian: hostread.Host, tmp_path: Path) -> None:
    def update_grub(_options: list[str]) -> str:
        words = Path(boot_loader.DROP_IN).read_text().split("LINUX ")[-1].rstrip('"\n')
        (tmp_path / "boot/grub/grub.cfg").write_text(f"linux /vmlinuz ro {words} quiet\n")
        return ""

    module = FakeModule(tmp_path, {"update-grub": update_grub})
    assert boot_loader.ensure(module, debian, TOTALS, HUGE_2M)
    assert (tmp_path / "etc/default/grub").read_text() == 'GRUB_CMDLINE_LINUX=""\n'
    assert not boot_loader.ensure(module, debian, TOTALS, HUGE_2M)
    assert module.calls == [["update-grub"]]


def test_update_grub_leaves_a_pair_that_somebody_else_set(
    debian: hostread.Host, tmp_path: Path
) -> None:
    (tmp_path / "etc/default/grub").write_text('GRUB_CMDLINE_LINUX="hugepages=5"\n')
    module = FakeModule(tmp_path, {"update-grub": lambda options: ""})
    with pytest.raises(boot_loader.BootLoaderError, match="remove hugepagesz= and hugepages="):
        boot_loader.ensure(module, debian, TOTALS, HUGE_2M)


def test_host_without_boot_loader_tool(tree: Tree, tmp_path: Path) -> None:
    with pytest.raises(boot_loader.BootLoaderError, match="by hand"):
        boot_loader.find(FakeModule(tmp_path, {}), tree({}))


def test_pending_reboot_is_valid_for_one_boot(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = tree({"proc/sys/kernel/random/boot_id": "one\n"})
    monkeypatch.setattr(host, "path", lambda path: str(_below(tmp_path, path)))
    monkeypatch.setattr(pending_reboot, "FOLDER", str(tmp_path / "pending"))
    module = FakeModule(tmp_path, {})
    assert pending_reboot.settle(module, host, "hugepages", "why")
    assert not pending_reboot.settle(module, host, "hugepages", "why")
    assert pending_reboot.waits(host, "hugepages", "why")
    assert not pending_reboot.waits(host, "hugepages", "another")
    assert '"boot_id": "one"' in (tmp_path / "pending/hugepages.json").read_text()
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("two\n")
    assert not pending_reboot.waits(host, "hugepages", "why")
    assert pending_reboot.settle(module, host, "hugepages", "")
    assert not pending_reboot.settle(module, host, "hugepages", "")
