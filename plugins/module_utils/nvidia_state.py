# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is of the NVIDIA driver on a host, and what that means. Pure, apart from Probe."""

import os
import re

__metaclass__ = type

VENDOR = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")
_SWITCH_CLASS = "0x0680"
LIBRARY_FOLDERS = (
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib",
)
PROC_VERSION = "/proc/driver/nvidia/version"
# The installer of the runfile keeps the version in the first line of its record.
RUNFILE_RECORD = "/var/lib/nvidia/log"
_VERSION = re.compile(r"\b([0-9]{3,4}\.[0-9]+(?:\.[0-9]+)?)\b")
_PACKAGE = re.compile(
    r"^(nvidia-(driver|open|headless|utils|dkms|kernel|compute-utils|persistenced|fabric)"
    r"|kmod-nvidia|libnvidia-|cuda-drivers|nvidia-modprobe)"
)
# Services of the driver itself: they end with it and are no work that could be lost.
OWN_PROCESSES = ("nvidia-persiste", "nv-fabricmanage", "nvidia-smi")
_TIMERS = (
    "apt-daily-upgrade.timer",
    "dnf-automatic.timer",
    "dnf-automatic-install.timer",
    "packagekit-offline-update.service",
)
_WANTS = ("/etc/systemd/system/timers.target.wants", "/usr/lib/systemd/system/timers.target.wants")

SMI_MEANS = {
    2: "it does not know an argument",
    3: "the operation is not supported",
    4: "it may not ask the driver",
    6: "there is no such device",
    8: "a GPU lacks its external power",
    9: "the driver is not loaded",
    10: "the kernel sees a problem with an interrupt of a GPU",
    12: "the library NVML is not there",
    13: "the library NVML lacks a function: user space is mixed",
    14: "the infoROM of a GPU is corrupted",
    15: "a GPU has fallen off the bus",
    18: "module and user space differ in version",
    124: "it did not end in time",
}


def parse_proc_version(text):
    """Return (version, flavour) from /proc/driver/nvidia/version; ('', '') where it says none."""
    for line in (text or "").splitlines():
        if line.startswith("NVRM version:"):
            found = _VERSION.search(line)
            flavour = "open" if "Open Kernel Module" in line else "proprietary"
            return (found.group(1), flavour) if found else ("", "")
    return "", ""


def flavour_of_license(text):
    """Return the flavour that the licence of a module stands for."""
    if not text.strip():
        return ""
    return "open" if text.strip() == "Dual MIT/GPL" else "proprietary"


def driver_packages(listing):
    """Return {name: version} of the driver's packages from lines of name, tab, version."""
    found = {}
    for line in listing.splitlines():
        name, _tab, version = line.partition("\t")
        if _PACKAGE.match(name) and version:
            found[name] = upstream(version)
    return found


def upstream(version):
    """Return a package's version without epoch and release."""
    return version.partition(":")[2].partition("-")[0] or version.partition("-")[0]


def runfile_version(text):
    """Return the version in the record of the runfile's installer; '' where there is none."""
    lines = (text or "").splitlines()
    found = _VERSION.search(lines[0]) if lines else None
    return found.group(1) if found else ""


def numbers(version):
    """Return a driver's version as numbers, to compare it."""
    return [int(part) for part in re.findall(r"[0-9]+", version)]


def judge(seen):
    """Return (state, words) for what is installed against what runs.

    States: absent, good, not_loaded, reboot_pending, half_installed, mixed.
    """
    loaded, disk, library = seen["loaded"], seen["on_disk"], seen["user_space"]
    if not disk and not library:
        return _nothing_installed(loaded)
    if disk and library and disk != library:
        return "mixed", (
            "the packages are mixed: the module on disk is %s, the libraries are %s; install one"
            " version of both" % (disk, library)
        )
    if not disk and loaded and loaded != library:
        return "mixed", (
            "module %s runs, the libraries are %s, and no module on disk belongs to them"
            % (loaded, library)
        )
    if not disk or not library:
        return "half_installed", _half(disk, library)
    if not loaded:
        return "not_loaded", "driver %s is installed, its module is not loaded" % disk
    if loaded != disk:
        return "reboot_pending", (
            "driver upgraded, reboot pending: %s is installed, module %s still runs"
            % (disk, loaded)
        )
    return "good", "driver %s is installed and runs" % disk


def _nothing_installed(loaded):
    if loaded:
        return "reboot_pending", "driver removed, reboot pending: module %s still runs" % loaded
    return "absent", "no driver is installed"


def _half(disk, library):
    if library:
        return "the libraries are %s, and the running kernel has no module" % library
    return "the module on disk is %s, and its libraries are not there" % disk


def installed(seen):
    """Return the version that is whole on disk; '' where none is."""
    whole = seen["on_disk"] and seen["on_disk"] == seen["user_space"]
    return seen["on_disk"] if whole else ""


def step_to(seen, wanted, modules):
    """Return what has to be done for a version: none, install, upgrade, downgrade or repair."""
    state, _words = judge(seen)
    have = installed(seen)
    if state in ("half_installed", "mixed"):
        return "repair"
    if not have:
        return "install"
    if have == wanted:
        return "repair" if modules and seen["on_disk_flavour"] != modules else "none"
    return "upgrade" if numbers(have) < numbers(wanted) else "downgrade"


class Probe:
    """Ask a host. Commands go through ``run``: (argv) -> (code, output)."""

    def __init__(self, host, run):
        self.host = host
        self.run = run

    def seen(self):
        """Return everything that the verdict needs, and what else there is."""
        loaded, flavour = parse_proc_version(self.host.read(PROC_VERSION))
        return {
            "loaded": loaded,
            "loaded_flavour": flavour,
            "on_disk": self._modinfo("version"),
            "on_disk_flavour": flavour_of_license(self._modinfo("license")),
            "user_space": self._library("libnvidia-ml.so.1"),
            "runfile": runfile_version(self.host.read(RUNFILE_RECORD)),
            "packages": self._packages(),
            "nouveau": self.module_loaded("nouveau"),
        }

    def _modinfo(self, field):
        code, out = self.run(["modinfo", "-F", field, "nvidia"])
        return out.strip().splitlines()[0] if code == 0 and out.strip() else ""

    def _library(self, name):
        for folder in LIBRARY_FOLDERS:
            place = self.host.path("%s/%s" % (folder, name))
            if os.path.exists(place):
                found = re.search(r"\.so\.([0-9.]+)$", os.path.realpath(place))
                return found.group(1) if found else ""
        return ""

    def _packages(self):
        if self.host.exists("/usr/bin/dpkg-query"):
            form = "${db:Status-Abbrev}${Package}\\t${Version}\\n"
            _code, out = self.run(["dpkg-query", "-W", "-f", form])
            lines = [line[3:] for line in out.splitlines() if line[1:2] == "i"]
            return driver_packages("\n".join(lines))
        if self.host.exists("/usr/bin/rpm"):
            _code, out = self.run(["rpm", "-qa", "--qf", "%{NAME}\\t%{VERSION}\\n"])
            return driver_packages(out)
        return {}

    def module_loaded(self, name):
        """Tell whether the kernel has a module, loaded or built in."""
        return self.host.exists("/sys/module/%s" % name)

    def devices(self):
        """Return (GPUs, NVSwitches) by PCI vendor and class, as {address, pci}."""
        gpus, switches = [], []
        for address in self.host.names("/sys/bus/pci/devices"):
            row, kind = self._device(address)
            if kind in _GPU_CLASSES:
                gpus.append(row)
            elif kind == _SWITCH_CLASS:
                switches.append(row)
        return gpus, switches

    def _device(self, address):
        base = "/sys/bus/pci/devices/%s/" % address
        vendor, device, kind = [
            (self.host.read(base + name) or "").strip() for name in ("vendor", "device", "class")
        ]
        row = {"address": address, "pci": "%s:%s" % (vendor[2:], device[2:])}
        return row, kind[:6] if vendor == VENDOR else ""

    def holders(self):
        """Return [{pid, command}] of processes that have a device open, the driver's own apart."""
        found = []
        for pid in self.host.names("/proc"):
            if pid.isdigit() and self._holds(pid):
                command = (self.host.read("/proc/%s/comm" % pid) or "").strip()
                if command not in OWN_PROCESSES:
                    found.append({"pid": int(pid), "command": command})
        return found

    def _holds(self, pid):
        folder = self.host.path("/proc/%s/fd" % pid)
        for name in self.host.names("/proc/%s/fd" % pid):
            try:
                target = os.readlink(os.path.join(folder, name))
            except OSError:
                continue
            if target.startswith("/dev/nvidia"):
                return True
        return False

    def competitors(self):
        """Return the timers that are enabled and may move the driver."""
        there = set()
        for folder in _WANTS:
            there.update(self.host.names(folder))
        return [name for name in _TIMERS if name in there]

    def fabric_manager(self):
        """Return the version of Fabric Manager; '' where it is not there."""
        code, out = self.run(["nv-fabricmanager", "--version"])
        found = _VERSION.search(out) if code == 0 else None
        return found.group(1) if found else ""

    def headers(self, release):
        """Tell whether the headers of a kernel are there."""
        return self.host.exists("/lib/modules/%s/build/Makefile" % release)

    def other_headers(self):
        """Return the kernels whose headers are on the host."""
        found = list(self.host.names("/usr/src/kernels"))
        for name in self.host.names("/usr/src"):
            if name.startswith("linux-headers-"):
                found.append(name[len("linux-headers-") :])
        return found

    def repository_folder(self):
        """Return where this host's package manager reads repositories."""
        text = self.host.read("/etc/dnf/dnf.conf") or ""
        found = re.search(r"^reposdir\s*=\s*([^\s,]+)", text, re.MULTILINE)
        return found.group(1) if found else "/etc/yum.repos.d"

    def smi(self):
        """Ask nvidia-smi; return (exit code, versions that it names, its first words)."""
        argv = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        code, out = self.run(argv)
        lines = [line.strip() for line in out.splitlines() if line.strip()]
        versions = [line for line in lines if _VERSION.match(line)]
        return code, versions, " ".join(lines)[:300]


def runner(module, limit=60):
    """Return a function that runs a command for a module: C locale, time limit, code and output."""

    def run(argv):
        tool = module.get_bin_path(argv[0])
        if tool is None:
            return 127, ""
        command = ["timeout", "--kill-after=10", str(limit), tool] + list(argv[1:])
        locale = {"LC_ALL": "C", "LANGUAGE": "C"}
        code, out, err = module.run_command(command, environ_update=locale)
        return code, out or err

    return run
