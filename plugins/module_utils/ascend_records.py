# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Ascend software a host has, by the vendor's own records: never by ours."""

import re

__metaclass__ = type

INSTALL_INFO = "/etc/ascend_install.info"
ROOT = "/usr/local/Ascend"
ABSENT, INSTALLED, HALF = "absent", "installed", "half"
_KEY_VALUE = re.compile(r"^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")
_PCI = "/sys/bus/pci/devices"
# Processing accelerators.
_PCI_CLASS = "0x1200"
_MODULES = ("drv_davinci_intf", "davinci_intf", "drv_pcie_host", "ascend_adapt")


def key_values(text):
    """Return the KEY=VALUE lines of a record; '' stands for a file that is not there."""
    found = [_KEY_VALUE.match(line) for line in (text or "").splitlines()]
    return dict(match.groups() for match in found if match)


def driver(install_info, version_info):
    """Return {state, version, fits, path} of the driver.

    ``package_version`` comes first: since 26.0 ``Version`` can be that of a component.
    """
    registered, record = key_values(install_info), key_values(version_info)
    version = record.get("package_version") or record.get("Version", "")
    return _hdk("Driver", registered, version, record.get("compatible_version_fw", ""))


def firmware(install_info, version_info):
    """Return {state, version, fits, path} of the firmware package that was installed last."""
    registered, record = key_values(install_info), key_values(version_info)
    ranges = record.get("compatible_version_drv", "")
    return _hdk("Firmware", registered, record.get("Version", ""), ranges)


def _hdk(word, registered, version, ranges):
    path = registered.get("%s_Install_Path_Param" % word, "")
    known = bool(path and registered.get("%s_Install_Type" % word))
    state = INSTALLED if known and version else HALF if known or version else ABSENT
    return {"state": state, "version": version, "fits": ranges, "path": path or ROOT}


def user_of(install_info):
    """Return the user and group that the driver was installed for."""
    registered = key_values(install_info)
    return registered.get("UserName", ""), registered.get("UserGroup", "")


def hdk(host):
    """Return the state of driver and firmware on a host."""
    info = host.read(INSTALL_INFO)
    registered = key_values(info)
    places = {
        word: registered.get("%s_Install_Path_Param" % word.capitalize()) or ROOT
        for word in ("driver", "firmware")
    }
    return {
        "driver": driver(info, host.read(places["driver"] + "/driver/version.info")),
        "firmware": firmware(info, host.read(places["firmware"] + "/firmware/version.info")),
    }


def wrong_kinds(host):
    """Return paths that are a directory and must be a file (a container mount makes such)."""
    return [
        path
        for path in (INSTALL_INFO, "/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi")
        if host.names(path) or _is_directory(host, path)
    ]


def _is_directory(host, path):
    return host.exists(path + "/.")


def generation(version):
    """Return 2 for CANN 8.5 and later (a directory of its own), 1 for what came before."""
    numbers = [int(word) for word in re.findall(r"\d+", version)[:2]]
    return 2 if tuple(numbers) >= (8, 5) else 1


def cann_link(number):
    """Return the link that says which CANN of a generation is used."""
    return ROOT + ("/cann" if number == 2 else "/ascend-toolkit/latest")


def set_env(number):
    """Return the script that sets the environment of a generation."""
    return ROOT + ("/cann/set_env.sh" if number == 2 else "/ascend-toolkit/set_env.sh")


def cann(host, number, machine):
    """Return {part: {state, version, path}} of a generation of CANN.

    The path is the directory of that version. Each part is what its own record says.
    """
    base = cann_link(number)
    formed = "%s/%s-linux" % (base, machine)
    toolkit = key_values(host.read(formed + "/ascend_toolkit_install.info"))
    if number == 2:
        operators = key_values(host.read(formed + "/ascend_ops_install.info")).get("version", "")
    else:
        record = key_values(host.read(base + "/opp_kernel/version.info"))
        operators = record.get("version_dir") or record.get("Version", "")
    top = re.sub(r"/[^/]+-linux/?$", "", toolkit.get("path", ""))
    begun = host.exists(base + "/.")
    return {
        "toolkit": _part(toolkit.get("version", ""), begun, top or base),
        "ops" if number == 2 else "kernels": _part(operators, False, top or base),
    }


def _part(version, begun, path):
    state = INSTALLED if version else HALF if begun else ABSENT
    return {"state": state, "version": version, "path": path}


def nnal(host):
    """Return {state, version, path} of NNAL (the library ATB)."""
    base = ROOT + "/nnal/atb/latest"
    found = re.search(
        r"^\s*Ascend-cann-atb\s*:\s*(\S+)", host.read(base + "/version.info") or "", re.M | re.I
    )
    version = found.group(1) if found else ""
    return _part(version, host.exists(base + "/."), ROOT + "/nnal")


def chips(host):
    """Return [{address, pci, subsystem}] of the host's NPUs, by vendor and class."""
    rows = [_chip(host, name) for name in host.names(_PCI)]
    return [row for row in rows if row]


def _chip(host, name):
    words = {
        key: (host.read("%s/%s/%s" % (_PCI, name, key)) or "").strip()
        for key in ("vendor", "device", "class", "subsystem_vendor", "subsystem_device")
    }
    if words["vendor"] != "0x19e5" or not words["class"].startswith(_PCI_CLASS):
        return None
    return {
        "address": name,
        "pci": "%s:%s" % (words["vendor"][2:], words["device"][2:]),
        "subsystem": "%s:%s" % (words["subsystem_vendor"][2:], words["subsystem_device"][2:]),
    }


def module_loaded(host):
    """Tell whether the driver's kernel module is loaded."""
    return any(host.exists("/sys/module/" + name) for name in _MODULES)
