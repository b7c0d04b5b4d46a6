# SPDX-License-Identifier: GPL-3.0-or-later
"""What the doctor reads on a host beside identity and hardware. Changes nothing."""

import grp
import importlib
import json
import os
import pwd
import re
import time

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    boot_args,
    engine_host,
    hardware,
    hugepage_plan,
    identity,
    listeners,
    pending_reboot,
    sysctl_files,
)

__metaclass__ = type

INSTANCES = "/etc/vllm-fleet/instances"
SYSCTL = "/etc/sysctl.d/90-vllm-fleet.conf"
HUGEPAGES = "/etc/tmpfiles.d/vllm-fleet-hugepages.conf"
# HCCL's own port, and the base of its host ports.
PORTS = (16666, 60000)
_TIMERS = re.compile(r"^(dnf-automatic.*|yum-cron.*|apt-daily-upgrade|packagekit.*)\.timer$")
_PERIODIC = re.compile(r'^\s*APT::Periodic::Unattended-Upgrade\s+"([^"]*)"', re.MULTILINE)
_WHEELS = ("vllm", "vllm_ascend", "torch", "torch_npu", "triton", "triton_ascend", "numpy")
_DIST = re.compile(r"^([A-Za-z0-9_.]+)-([^-]+)\.dist-info$")
_KIND = re.compile(r"__(?:device_type|soc_version)__\s*=\s*['\"]([^'\"]+)")


def collect(host, runner, patterns):
    """Return every fact that the rules know; patterns: {code: regular expression} for journals."""
    found = {
        "identity": identity.collect(host),
        "hardware": hardware.collect(host, runner),
        "clock": clock(runner),
        "reboot": reboot(host),
        "updates": updates(host),
        "accounts": accounts(),
        "hugepages": hugepages(host),
        "sysctl": sysctl(host),
        "boot_words": boot_args_missing(host),
        "instances": instances(host),
        "releases": releases(host),
        "listeners": {str(port): listeners.listeners(port) for port in PORTS},
        "selinux": selinux(host),
    }
    found["units"] = units(host, runner, found["instances"], patterns)
    found["kernel_log"] = [] if found["identity"]["is_container"] else kernel_log(runner)
    return found


def clock(runner):
    """Return the time, and whether it is kept right (None: nobody tells)."""
    rc, text = runner.run(
        ["/usr/bin/timedatectl", "show", "--property=NTPSynchronized", "--value"], limit=10
    )
    told = {"yes": True, "no": False}.get(text.strip()) if rc == 0 else None
    return {"now": time.time(), "synchronised": told}


def reboot(host):
    """Return the reasons that wait for a reboot: our records of this boot, and the system's."""
    boot = pending_reboot.boot_id(host)
    reasons = []
    for name in host.names(pending_reboot.FOLDER):
        record = _json(host.read("%s/%s" % (pending_reboot.FOLDER, name)))
        if record.get("boot_id") == boot and record.get("reason"):
            reasons.append(str(record["reason"]))
    packages = (host.read("/run/reboot-required.pkgs") or "").split()
    flagged = host.exists("/run/reboot-required") or host.exists("/var/run/reboot-required")
    return {"reasons": reasons, "system": flagged, "packages": sorted(set(packages))}


def _json(text):
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def updates(host):
    """Return the timers that install updates by themselves, and what is held against them."""
    wants = "/etc/systemd/system/timers.target.wants"
    timers = [name for name in host.names(wants) if _TIMERS.match(name)]
    periodic = [
        _PERIODIC.findall(host.read("/etc/apt/apt.conf.d/" + name) or "")
        for name in host.names("/etc/apt/apt.conf.d")
    ]
    values = [value for row in periodic for value in row]
    if values and values[-1] == "0":
        timers = [name for name in timers if not name.startswith("apt-")]
    elif not values:
        # Debian enables the timer everywhere; without this setting it installs nothing.
        timers = [name for name in timers if not name.startswith("apt-")]
    return {"timers": timers, "holds": _holds(host)}


def _holds(host):
    """Return the names of packages, or patterns of names, that are not to be updated."""
    status = host.read("/var/lib/dpkg/status") or ""
    found = re.findall(r"^Package: (\S+)\nStatus: hold ", status, re.MULTILINE)
    for path in ("/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list"):
        lines = (host.read(path) or "").splitlines()
        found += [line.strip() for line in lines if line.strip() and line[0] not in "#!"]
    for path in ("/etc/dnf/dnf.conf", "/etc/yum.conf"):
        for line in re.findall(r"^\s*exclude(?:pkgs)?\s*=\s*(.*)$", host.read(path) or "", re.M):
            found += line.replace(",", " ").split()
    return sorted(set(found))


def accounts():
    """Return the groups of the service user and the members of the driver's group."""
    user = engine_host.find_user("vllm")
    groups = os.getgrouplist(user.pw_name, user.pw_gid) if user else []
    return {
        "vllm": sorted(_group(gid) for gid in groups) if user else None,
        "driver_user": engine_host.find_user("HwHiAiUser") is not None,
        "driver_group": "HwHiAiUser" in {row.gr_name for row in grp.getgrall()},
    }


def _group(gid):
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def hugepages(host):
    """Return [{path, wanted, seen}] of the pools that our file fills."""
    wanted = hugepage_plan.parse_tmpfiles(host.read(HUGEPAGES) or "")
    return [
        {"path": path, "wanted": wanted[path], "seen": _count(host.read(path))}
        for path in sorted(wanted)
    ]


def _count(text):
    text = (text or "").strip()
    return int(text) if text.isdigit() else None


def sysctl(host):
    """Return our kernel settings with what runs, and who gives them another value at boot."""
    listing = {folder: host.names(folder) for folder in sysctl_files.DIRECTORIES}
    files = [(path, host.read(path) or "") for path in sysctl_files.ordered(listing)]
    found = []
    for key, value in sysctl_files.parse(host.read(SYSCTL) or ""):
        running = host.read("/proc/sys/" + key)
        winner = sysctl_files.persisted(key, files) or {"value": value, "file": SYSCTL}
        found.append(
            {
                "name": key.replace("/", "."),
                "wanted": value,
                "running": None if running is None else " ".join(running.split()),
                "persisted": winner["value"],
                "file": winner["file"],
            }
        )
    return found


def boot_args_missing(host):
    """Return words that the boot loader would give the kernel and this boot does not have."""
    line = (host.read("/proc/cmdline") or "").split()
    words = boot_args.default_words(host.read("/etc/default/grub") or "")
    return [word for word in words if word.startswith("hugepages") and word not in line]


def instances(host):
    """Return our instances: the release that each names, and whether it knows Ascend's paths."""
    names = [name[:-4] for name in host.names(INSTANCES) if name.endswith(".env")]
    return [_instance(host, name) for name in names]


def _instance(host, name):
    text = host.read("%s/%s.env" % (INSTANCES, name)) or ""
    found = re.search(r"/opt/vllm/releases/([\w.+-]+)", text)
    drop_in = host.read("/etc/systemd/system/vllm@%s.service.d/10-vllm-fleet.conf" % name) or ""
    found = found or re.search(r"/opt/vllm/releases/([\w.+-]+)", drop_in)
    return {
        "name": name,
        "release": found.group(1) if found else "",
        "ascend_environment": "/usr/local/Ascend" in text,
        "unit": host.exists("/etc/systemd/system/vllm@.service"),
    }


def releases(host):
    """Return the installed engine releases with the versions that matter."""
    root = "/opt/vllm/releases"
    return [_release(host, root, name) for name in host.names(root)]


def _release(host, root, name):
    base = "%s/%s" % (root, name)
    libraries = ["%s/lib/%s/site-packages" % (base, part) for part in host.names(base + "/lib")]
    packages, built_for = {}, ""
    for folder in libraries:
        for entry in host.names(folder):
            found = _DIST.match(entry)
            if found and found.group(1) in _WHEELS:
                packages[found.group(1)] = found.group(2)
        kind = _KIND.search(host.read(folder + "/vllm_ascend/_build_info.py") or "")
        built_for = kind.group(1) if kind else built_for
    complete = engine_host.is_release(host.path(base))
    return {"id": name, "complete": complete, "packages": packages, "built_for": built_for}


def selinux(host):
    """Return whether SELinux enforces, and whether this interpreter has its bindings."""
    enforce = (host.read("/sys/fs/selinux/enforce") or "").strip() == "1"
    return {"enforcing": enforce, "bindings": _importable("selinux")}


def _importable(name):
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


VENDOR_UNITS = (
    "nvidia-persistenced.service",
    "nvidia-fabricmanager.service",
    "chronyd.service",
    "chrony.service",
    "systemd-timesyncd.service",
)
_PROPERTIES = (
    "Id,LoadState,LoadError,ActiveState,SubState,Result,NRestarts,ExecMainStatus,UnitFileState,"
    "NeedDaemonReload,FragmentPath,DropInPaths,EnvironmentFiles,ExecMainStartTimestampMonotonic"
)


def units(host, runner, known, patterns):
    """Return what systemd says of our units and of those that they lean on."""
    names = ["vllm@%s.service" % row["name"] for row in known] + list(VENDOR_UNITS)
    argv = ["/usr/bin/systemctl", "show", "--no-pager", "--property=" + _PROPERTIES] + names
    rc, text = runner.run(argv)
    rows = [_unit(block) for block in text.split("\n\n")] if rc == 0 else []
    found = [row for row in rows if row["name"] and row["load"] != "not-found"]
    for row in found:
        if row["name"].startswith("vllm@"):
            row["newer_files"] = _newer(host, row)
            row["journal"] = _journal(runner, row, patterns)
    return found


def _unit(block):
    values = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
    return {
        "name": values.get("Id", ""),
        "load": values.get("LoadState", ""),
        "load_error": values.get("LoadError", ""),
        "active": values.get("ActiveState", ""),
        "sub": values.get("SubState", ""),
        "result": values.get("Result", ""),
        "restarts": _count(values.get("NRestarts")) or 0,
        "status": values.get("ExecMainStatus", ""),
        "enabled": values.get("UnitFileState", ""),
        "reload": values.get("NeedDaemonReload") == "yes",
        "files": [values.get("FragmentPath", "")] + values.get("DropInPaths", "").split(),
        "started": (_count(values.get("ExecMainStartTimestampMonotonic")) or 0) / 1000000.0,
    }


def _newer(host, row):
    """Return the files of an instance that changed after its process started."""
    if row["active"] != "active" or not row["started"]:
        return []
    began = time.time() - (time.monotonic() - row["started"])
    name = row["name"][len("vllm@") : -len(".service")]
    files = row["files"] + ["%s/%s.env" % (INSTANCES, name)]
    return [path for path in files if path.startswith("/etc/") and _changed(host, path) > began]


def _changed(host, path):
    try:
        return os.stat(host.path(path)).st_mtime
    except OSError:
        return 0


def _journal(runner, row, patterns):
    """Return {code: line} of what the journal of an instance in trouble says."""
    if row["active"] == "active" and not row["restarts"]:
        return {}
    argv = ["/usr/bin/journalctl", "--no-pager", "--output=cat", "--lines=400"]
    _rc, text = runner.run(argv + ["--unit=" + row["name"]])
    return matches(text, patterns)


def matches(text, patterns):
    """Return {code: last line that matches its pattern}."""
    found = {}
    compiled = [(code, re.compile(patterns[code])) for code in sorted(patterns)]
    for line in text.splitlines():
        for code, pattern in compiled:
            if pattern.search(line):
                found[code] = " ".join(line.split())[:240]
    return found


_KERNEL = re.compile(
    r"NVRM: Xid|fallen off the bus|not supported by open nvidia\.ko|Out of memory: Kill|"
    r"Remounting filesystem read-only|I/O error, dev "
)


def kernel_log(runner):
    """Return the kernel's lines about GPUs, killed processes and disks (the last of them)."""
    rc, text = runner.run(["/usr/bin/dmesg"], limit=10)
    lines = text.splitlines() if rc == 0 else []
    return [" ".join(line.split())[:240] for line in lines if _KERNEL.search(line)][-20:]


def user_name():
    """Return who the doctor is on this host."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
