"""Every finding of the catalog: a host that is well has none, and one broken thing gives it."""

from __future__ import annotations

import re
from typing import Any

import doctor_facts
import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import doctor_host
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import (
    doctor,
    doctor_ascend,
    doctor_contact,
    doctor_nvidia,
)
from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils.doctor_types import Scene, Seen

Facts = dict[str, Any]
SCENE = Scene(
    groups=("ascend", "serving"),
    instances=("one",),
    core="2.19.14",
    now=1000.5,
    took=1.0,
    catalog=doctor.parts(),
)
HOSTS = {"host": doctor_facts.host, "ascend": doctor_facts.ascend, "nvidia": doctor_facts.nvidia}
DELETE = object()


def put(facts: Facts, path: str, value: Any) -> None:
    """Set the value at a path such as ``hardware.pci.0.pci``."""
    *parents, last = path.split(".")
    place: Any = facts
    for part in parents:
        place = place[int(part) if isinstance(place, list) else part]
    if value is DELETE:
        del place[int(last)]
    else:
        place[int(last) if isinstance(place, list) else last] = value


def found(kind: str, changes: dict[str, Any], scene: Scene = SCENE) -> list[Seen]:
    facts = HOSTS[kind]()
    for path, value in changes.items():
        put(facts, path, value)
    return list(doctor.examine(facts, scene))


def failed(kind: str, code: str = "", said: str = "text") -> dict[str, str]:
    return {"kind": kind, "code": code, "said": said}


NPU = "hardware.npu_smi."
GPU = "hardware.nvidia_smi."
HW = "hardware."
ASC = "hardware.ascend."
NV = "hardware.nvidia."
ABSENT = {"state": "absent", "version": "", "path": "/x", "fits": ""}
BROKEN: dict[str, Any] = {NPU + "state": "broken", NPU + "devices": [], NPU + "board": None}
SICK: dict[str, Any] = {GPU + "state": "broken", GPU + "gpus": []}
ROOM = HW + "file_systems.0."
UNIT = "units.0."
PORT = [{"pid": 7, "name": "python", "units": []}]
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("os-untested", "host", {"identity.os": {"id": "x", "key": "x-3", "edition": "",
                                                "family": "rpm"}}),
    ("os-unsupported", "host", {"identity.os.key": "openEuler-23.09",
                                "identity.os.edition": "innovation"}),
    ("not-root", "host", {"user": "deploy"}),
    ("clock-skew", "host", {"clock.now": 1060.0}),
    ("clock-skew", "host", {"clock.now": 940.0}),
    ("clock-unsynchronised", "host", {"clock.synchronised": False}),
    ("disk-full", "host", {ROOM + "free": 1000}),
    ("disk-files-exhausted", "host", {ROOM + "files_free_percent": 1}),
    ("disk-read-only", "host", {ROOM + "read_only": True}),
    ("disk-errors", "host", {"kernel_log": ["[1] blk_update_request: I/O error, dev sda, 9"]}),
    ("memory-killed", "host", {"kernel_log": ["Out of memory: Killed process 7 (cc1plus)"]}),
    ("reboot-pending", "host", {"reboot.reasons": ["hugepages want a boot"]}),
    ("reboot-pending", "host", {"reboot.system": True, "reboot.packages": ["linux-image"]}),
    ("reboot-pending", "host", {"boot_words": ["hugepages=512"]}),
    ("kernel-modules-missing", "ascend", {HW + "kernel_headers.modules": False}),
    ("headers-mismatch", "ascend", {HW + "kernel_headers.matching": False,
                                    HW + "kernel_headers.others": ["5.10.0-153"]}),
    ("compiler-missing", "ascend", {HW + "gcc": ""}),
    ("compiler-mismatch", "ascend", {HW + "gcc": "12.3.1"}),
    ("unattended-upgrades", "nvidia", {"updates.timers": ["apt-daily-upgrade.timer"]}),
    ("hugepages-short", "host", {"hugepages.0.seen": 301}),
    ("hugepages-short", "host", {"hugepages.0.seen": None}),
    ("sysctl-running-differs", "host", {"sysctl.0.running": "60"}),
    ("sysctl-overridden", "host", {"sysctl.0.persisted": "60"}),
    ("selinux-bindings", "host", {"selinux.enforcing": True}),
    ("rdma-link-down", "host", {HW + "rdma.0.state": "DOWN"}),
    ("numa-unknown", "ascend", {HW + "pci.0.numa_node": None}),
    ("pcie-width", "nvidia", {HW + "pci.0.link.width": "8"}),
    ("npu-unsupported", "ascend", {HW + "pci.0.pci": "19e5:d801"}),
    ("npu-driver-absent", "ascend", {ASC + "driver": ABSENT}),
    ("npu-driver-half", "ascend", {ASC + "driver.state": "half"}),
    ("npu-module-not-loaded", "ascend", {ASC + "module_loaded": False}),
    ("npu-smi-missing", "ascend", {NPU + "state": "absent", NPU + "devices": []}),
    ("npu-smi-broken", "ascend", {**BROKEN, NPU + "failure": failed("not-executable", "126")}),
    ("npu-smi-library-missing", "ascend", {**BROKEN, NPU + "failure": failed("library", "x.so")}),
    ("npu-smi-hangs", "ascend", {**BROKEN, NPU + "failure": failed("timeout")}),
    ("npu-smi-no-devices", "ascend", {**BROKEN, NPU + "failure": failed("no-devices", "0")}),
    ("npu-environment", "ascend", {NPU + "needs_environment": True}),
    ("npu-unhealthy", "ascend", {NPU + "devices.1.health": "Warning",
                                 NPU + "health": {"1.0": ["0x80E01801"]}}),
    ("npu-missing", "ascend", {NPU + "devices.1": DELETE}),
    ("npu-off-the-bus", "ascend", {HW + "pci.1": DELETE}),
    ("npu-firmware-range", "ascend", {ASC + "driver.fits": "[7.0.0,7.7.99]"}),
    ("npu-firmware-incompatible", "ascend", {NPU + "board.compatible": False}),
    ("npu-driver-differs", "ascend", {NPU + "board.driver": "25.2.0"}),
    ("cann-absent", "ascend", {ASC + "cann.2.toolkit": ABSENT}),
    ("cann-operators-absent", "ascend", {ASC + "cann.2.ops": ABSENT}),
    ("cann-driver-mismatch", "ascend", {ASC + "cann.2.toolkit.version": "9.1.0",
                                        ASC + "driver.version": "25.0.1"}),
    ("nnal-absent", "ascend", {ASC + "nnal": ABSENT}),
    ("npu-user-missing", "ascend", {"accounts.driver_user": False}),
    ("npu-group-missing", "ascend", {"accounts.vllm": ["vllm"]}),
    ("npu-node-permission", "ascend", {ASC + "nodes.0.mode": "0666"}),
    ("npu-node-permission", "ascend", {ASC + "nodes.0.group": "root"}),
    ("npu-node-missing", "ascend", {ASC + "nodes.0": DELETE}),
    ("ascend-record-directory", "ascend", {ASC + "directories": ["/etc/ascend_install.info"]}),
    ("npu-link-down", "ascend", {ASC + "network.0.link": "DOWN"}),
    ("npu-net-health", "ascend", {ASC + "network.0.health": "Socket fail"}),
    ("npu-address-differs", "ascend", {ASC + "network.0.address": "192.0.2.99"}),
    ("npu-tls-unequal", "ascend", {ASC + "network.0.tls": True}),
    ("hccl-port-taken", "ascend", {"listeners.16666": PORT}),
    ("engine-wrong-chip", "ascend", {HW + "pci.0.pci": "19e5:d803", HW + "pci.1.pci": "19e5:d803"}),
    ("engine-triton-shadow", "ascend", {"releases.0.packages.triton": "3.5.0"}),
    ("engine-torch-mismatch", "ascend", {"releases.0.packages.torch": "2.10.0+cpu"}),
    ("gpu-driver-absent", "nvidia", {NV + "loaded": "", NV + "user_space": "", NV + "on_disk": ""}),
    ("gpu-module-not-loaded", "nvidia", {NV + "loaded": ""}),
    ("nouveau-loaded", "nvidia", {NV + "nouveau_loaded": True}),
    ("gpu-driver-reboot", "nvidia", {NV + "loaded": "570.124.06",
                                     NV + "fabric_manager": "570.124.06"}),
    ("gpu-driver-mixed", "nvidia", {NV + "loaded": "520.56.06", NV + "on_disk": "520.56.06",
                                    NV + "user_space": "525.85.12"}),
    ("nvidia-smi-missing", "nvidia", {GPU + "state": "absent", GPU + "gpus": []}),
    ("nvidia-smi-broken", "nvidia", {**SICK, GPU + "failure": failed("not-executable", "126")}),
    ("nvidia-smi-hangs", "nvidia", {**SICK, GPU + "failure": failed("timeout")}),
    ("nvidia-smi-exit-14", "nvidia", {GPU + "rc": 14}),
    ("gpu-missing", "nvidia", {GPU + "gpus.1": DELETE}),
    ("gpu-recovery", "nvidia", {GPU + "gpus.0.recovery_action": "Drain and Reset"}),
    ("gpu-ecc", "nvidia", {GPU + "gpus.0.uncorrected_ecc": 2}),
    ("gpu-rows-pending", "nvidia", {GPU + "gpus.0.remapped_rows.pending": True}),
    ("gpu-rows-failed", "nvidia", {GPU + "gpus.0.remapped_rows.failure": True}),
    ("gpu-slowdown", "nvidia", {GPU + "gpus.0.slowdowns": ["hw_thermal_slowdown"]}),
    ("gpu-persistence-off", "nvidia", {GPU + "gpus.0.persistence": False}),
    ("fabric-manager-down", "nvidia", {"units.1.active": "failed"}),
    ("fabric-manager-mismatch", "nvidia", {NV + "fabric_manager": "580.95.05"}),
    ("fabric-not-ready", "nvidia", {GPU + "gpus.0.fabric.state": "In Progress"}),
    ("gpu-xid", "nvidia", {"kernel_log": ["NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off"]}),
    ("gpu-open-module", "nvidia", {"kernel_log": ["NVRM: is not supported by open nvidia.ko"]}),
    ("service-failed", "host", {UNIT + "active": "failed", UNIT + "result": "exit-code"}),
    ("service-restarting", "host", {UNIT + "active": "activating", UNIT + "sub": "auto-restart"}),
    ("service-stopped", "host", {UNIT + "active": "inactive"}),
    ("service-load-error", "host", {UNIT + "load": "masked", UNIT + "active": "inactive"}),
    ("service-stale", "host", {UNIT + "newer_files": ["/etc/vllm-fleet/instances/one.env"]}),
    ("service-release-missing", "host", {"instances.0.release": "gone"}),
    ("service-environment", "ascend", {"instances.0.ascend_environment": False}),
    ("service-orphan", "host", {"instances.0.name": "old"}),
    ("release-incomplete", "host", {"releases.0.complete": False}),
    *((f"npu-dcmi-{code}", "ascend", {**BROKEN, NPU + "failure": failed("dcmi", f"-{code}")})
      for code in sorted(doctor_ascend.DCMI)),
    ("npu-dcmi-other", "ascend", {**BROKEN, NPU + "failure": failed("dcmi", "-8999")}),
    *((f"nvidia-smi-exit-{code}", "nvidia", {**SICK, GPU + "failure": failed("exit", code)})
      for code in [*sorted(doctor_nvidia.EXITS - {"14"}), "255"]),
]  # fmt: skip
LINES = {
    "log-library-missing": "ImportError: libatb.so: cannot open shared object file: No such file",
    "log-device-type": "RuntimeError: Failed to infer device type, please set VLLM_LOGGING_LEVEL",
    "log-glibc": "ImportError: /lib64/libc.so.6: version `GLIBC_2.32' not found (required by x)",
    "log-npu-permission": "RuntimeError: HcclGetRootInfo(&id), error code is 19",
    "log-soc": "ValueError: Unsupported soc_version: Ascend910ProB",
    "log-aicore-timeout": "The error code is 507014, aicore timeout",
    "log-operators": "E30006: verify OPP failed",
    "log-socket-timeout": "EI0006: Getting socket times out. Reason: remote",
    "log-port": "EJ0003: Failed to bind the IP port. Reason: The IP address and port (60000)",
    "log-streams": "EL0009: stream resources, error code 207008",
    "log-memory": "ValueError: No available memory for the cache blocks. Try increasing",
    "log-resources": "rtMalloc: Memory resources exhausted",
    "log-triton": "RuntimeError: 0 active drivers ([]). There should only be one.",
    "log-quantization": "ValueError: Unknown quantization method: ascend",
    "log-kernel-meta": "PermissionError: [Errno 13] Permission denied: '/kernel_meta'",
    "log-custom-ops": "ModuleNotFoundError: No module named 'vllm_ascend.vllm_ascend_C'",
    "log-argument": "api_server.py: error: unrecognized arguments: --attention-config x",
    "log-version": "packaging.version.InvalidVersion: Invalid version: 'dev'",
    "log-triton-compiler": "RuntimeError: Failed to find C compiler. Please specify via CC",
}
LOGIN = {
    "host-key-changed": "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @",
    "host-key-unknown": "No ED25519 host key is known for 192.0.2.7; Host key verification failed.",
    "login-refused": "root@192.0.2.7: Permission denied (publickey,password).",
    "port-refused": "ssh: connect to host 192.0.2.7 port 22: Connection refused",
    "name-unknown": "ssh: Could not resolve hostname x: Name or service not known",
    "no-answer": "ssh: connect to host 192.0.2.7 port 22: Connection timed out",
    "host-unreachable": "Failed to create temporary directory",
}


@pytest.mark.parametrize("kind", sorted(HOSTS))
def test_a_host_that_is_well_has_no_findings(kind: str) -> None:
    assert found(kind, {}) == []


@pytest.mark.parametrize(
    ("code", "kind", "changes"), CASES, ids=[f"{at}-{case[0]}" for at, case in enumerate(CASES)]
)
def test_one_broken_thing_gives_its_finding(code: str, kind: str, changes: Facts) -> None:
    codes = [item.code for item in found(kind, changes)]
    assert code in codes
    assert set(codes) <= set(doctor.texts())


@pytest.mark.parametrize("code", sorted(LINES))
def test_what_a_journal_says(code: str) -> None:
    patterns = doctor.patterns()
    seen = doctor_host.matches(f"starting\n{LINES[code]}\nexiting\n", patterns)
    assert code in seen
    assert [item.code for item in found("host", {"units.0.journal": seen})] == sorted(seen)


def test_a_good_journal_says_nothing() -> None:
    text = "INFO: Started server process [7]\nINFO: Application startup complete.\n"
    assert doctor_host.matches(text, doctor.patterns()) == {}


@pytest.mark.parametrize("code", sorted(LOGIN))
def test_why_a_login_failed(code: str) -> None:
    assert doctor_contact.unreachable(LOGIN[code]).code == code


@pytest.mark.parametrize(
    ("message", "timed_out", "code"),
    [
        ("Timed out after 90 second(s).", False, "host-hangs"),
        ("anything", True, "host-hangs"),
        ("Missing sudo password", False, "become-failed"),
        ("sudo: a password is required", False, "become-failed"),
        ("Traceback (most recent call last)", False, "examination-failed"),
    ],
)
def test_why_an_examination_broke_off(message: str, timed_out: bool, code: str) -> None:
    assert doctor_contact.broken_off(message, timed_out).code == code


def probe(*pythons: tuple[str, str], before: str = "", stderr: str = "") -> dict[str, Any]:
    rows = [f"python {path.rsplit('/', 1)[-1]} {path} {version}" for path, version in pythons]
    mark = doctor_contact.MARK
    text = "\n".join([before, mark, *rows, "kernel 5.10.0", mark, ""])
    return doctor_contact.parse_probe(text, stderr)


def judged(*args: Any, wanted: str = "", **more: Any) -> list[Seen]:
    return list(doctor_contact.judge(probe(*args, **more), wanted, SCENE))


def test_br_07_a_python_that_is_too_old_is_named_with_the_ways_out() -> None:
    (seen,) = judged(("/usr/bin/python3", "3.6.8"))
    assert seen.code == "python-too-old"
    assert "3.6.8" in seen.seen
    assert "ansible-core 2.16" in seen.seen


def test_br_07_discovery_takes_the_older_one() -> None:
    pythons = (("/usr/bin/python3", "3.6.8"), ("/usr/bin/python3.11", "3.11.6"))
    (seen,) = judged(*pythons, wanted="/usr/bin/python3")
    assert seen.code == "python-wrong-one"
    assert "use /usr/bin/python3.11" in seen.seen
    assert doctor_contact.usable(probe(*pythons), SCENE) == ["/usr/bin/python3.11"]
    (missing,) = judged(*pythons, wanted="/opt/none/python")
    assert "is not there" in missing.seen


def test_br_08_no_python_at_all() -> None:
    (seen,) = judged()
    assert seen.code == "python-none"
    assert doctor_contact.usable(probe(), SCENE) == []
    assert judged(("/usr/bin/python3", "3.9.9")) == []


def test_login_noise_and_locale() -> None:
    good = ("/usr/bin/python3", "3.9.9")
    (noise,) = judged(good, before="Welcome to the machine")
    assert (noise.code, noise.seen) == ("login-noise", "the login printed: Welcome to the machine")
    warning = "bash: warning: setlocale: LC_ALL: cannot change locale (zh_CN.GB18030): No such file"
    (locale,) = judged(good, stderr=warning)
    assert locale.code == "locale-missing"
    assert judged(good, stderr="Shared connection to 192.0.2.7 closed.\n") == []


def test_every_finding_has_a_test() -> None:
    fleet = {"examination-failed", "become-failed", "host-hangs", "login-noise", "locale-missing"}
    pythons = {"python-none", "python-too-old", "python-wrong-one"}
    tested = {case[0] for case in CASES} | set(LINES) | set(LOGIN) | fleet | pythons
    assert tested == set(doctor.texts())
    assert len(tested) >= 35


def test_br_11_an_npu_that_cannot_be_asked_is_not_a_missing_driver() -> None:
    for code in ("-8005", "-8020"):
        seen = found("ascend", {**BROKEN, NPU + "failure": failed("dcmi", code)})
        assert not {item.code for item in seen} & {"npu-driver-absent", "npu-smi-no-devices"}


def test_br_14_a_910a_by_its_memory_where_no_bus_is_seen() -> None:
    row = doctor_facts.ascend()["hardware"]["npu_smi"]["devices"][0]
    row.update(name="910B", memory_mb={"total": 15038}, hbm_mb={"total": 32768})
    seen = found("ascend", {HW + "pci": [], NPU + "devices": [row]})
    assert "npu-unsupported" in {item.code for item in seen}


def test_br_19_a_mismatch_asks_for_a_reboot_and_never_for_an_installation() -> None:
    changes = {**SICK, GPU + "failure": failed("mismatch", "535.161"), NV + "loaded": "520.56.06"}
    for user in ("", "535.161.07"):
        more = {NV + "user_space": user, NV + "on_disk": "535.161.07"}
        codes = {item.code for item in found("nvidia", {**changes, **more})}
        assert "gpu-driver-reboot" in codes
        assert not codes & {"gpu-driver-absent", "gpu-driver-mixed", "gpu-module-not-loaded"}


def test_br_20_a_driver_that_is_held_may_have_a_timer() -> None:
    timers = {"updates.timers": ["dnf-automatic.timer"]}
    assert found("nvidia", {**timers, "updates.holds": ["nvidia-driver-*"]}) == []
    (seen,) = found("nvidia", {**timers, "updates.holds": ["firefox"]})
    assert "dnf-automatic.timer" in seen.seen
    assert "firefox" in seen.seen
    assert found("host", timers) == []


def test_br_21_both_versions_and_the_exact_package() -> None:
    changes = {HW + "kernel_headers.matching": False, HW + "kernel_headers.others": ["5.10.0-153"]}
    (seen,) = found("ascend", changes)
    assert doctor_facts.KERNEL in seen.seen
    assert "5.10.0-153" in seen.seen
    assert f"kernel-devel-{doctor_facts.KERNEL}" in seen.seen


def test_br_28_the_overriding_file_is_named() -> None:
    changes = {"sysctl.0.persisted": "60", "sysctl.0.file": "/etc/sysctl.d/99-other.conf"}
    (seen,) = found("host", changes)
    assert "/etc/sysctl.d/99-other.conf" in seen.seen


def test_the_clock_may_be_as_old_as_the_way() -> None:
    slow = Scene(now=1030.0, took=29.0, catalog=doctor.parts())
    assert found("host", {}, slow) == []


def test_an_instance_of_ours_may_hold_its_ports() -> None:
    ours = [{"pid": 7, "name": "python", "units": ["vllm@one.service"]}]
    assert found("ascend", {"listeners.16666": ours}) == []


def test_without_a_list_of_instances_nothing_is_an_orphan() -> None:
    unknown = Scene(instances=None, catalog=doctor.parts())
    assert found("host", {"instances.0.name": "old"}, unknown) == []


def test_tls_is_compared_between_hosts() -> None:
    hosts = {"a": doctor_facts.ascend(), "b": doctor_facts.ascend(), "c": doctor_facts.host()}
    assert list(doctor.compare(hosts)) == []
    for row in hosts["b"]["hardware"]["ascend"]["network"]:
        row["tls"] = True
    seen = list(doctor.compare(hosts))
    assert [(host, item.code) for host, item in seen] == [
        ("a", "npu-tls-unequal"),
        ("b", "npu-tls-unequal"),
    ]
    assert "on: b NPU 0" in seen[0][1].seen


def test_the_texts_say_what_to_do() -> None:
    (finding,) = doctor.told([Seen("disk-full", "/opt has nothing", "/opt")] * 2)
    assert finding["page"] == "docs/doctor.md#disk-full"
    assert finding["fix"]
    order = doctor.told([Seen("gpu-xid", "x"), Seen("disk-full", "y")])
    assert [row["severity"] for row in order] == ["error", "warning"]


def test_the_catalog_of_findings() -> None:
    rows = doctor.texts()
    for code, row in rows.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", code)
        assert row["severity"] in doctor.RANK
        assert all(row[key].strip() for key in ("group", "title", "title_zh", "meaning", "fix"))
        assert re.compile(row.get("journal", ""))
    listed = doctor.catalog.load("findings")["findings"]
    assert len(listed) == len(rows)


def test_the_page_has_an_anchor_for_each_finding() -> None:
    import doctor_docs

    assert doctor_docs.page(doctor_docs.load()) == doctor_docs.PAGE.read_text(encoding="utf-8")
    headings = set(re.findall(r"^### (\S+)$", doctor_docs.PAGE.read_text(encoding="utf-8"), re.M))
    assert headings == set(doctor.texts())
