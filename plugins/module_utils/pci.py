# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices from sysfs: what is in the machine, whatever any tool says."""

__metaclass__ = type

DEVICES = "/sys/bus/pci/devices"
HUAWEI, NVIDIA = "19e5", "10de"
# Class and, where the class is shared with other things, vendor.
_PROCESSING, _DISPLAY, _3D, _BRIDGE = "12", "0300", "0302", "0680"
_NETWORK = ("0200", "0207")


def kind(vendor, cls):
    """Return npu, gpu, nvswitch, network or '' of a PCI vendor and class (six hex digits).

    A Huawei network card has the NPUs' vendor, and an NVIDIA audio function the GPUs': neither
    is an accelerator.
    """
    if vendor == HUAWEI and cls[:2] == _PROCESSING:
        return "npu"
    if vendor == NVIDIA and cls[:4] in (_DISPLAY, _3D):
        return "gpu"
    if vendor == NVIDIA and cls[:4] == _BRIDGE:
        return "nvswitch"
    return "network" if cls[:4] in _NETWORK else ""


def devices(host):
    """Return the accelerators, NVSwitches and network cards of a host, in the order of the bus."""
    found = [_device(host, address) for address in host.names(DEVICES)]
    return [device for device in found if device["kind"]]


def _device(host, address):
    base = "%s/%s" % (DEVICES, address)

    def value(name):
        return (host.read("%s/%s" % (base, name)) or "").strip()

    vendor, device = _hex(value("vendor")), _hex(value("device"))
    cls = _hex(value("class"))
    return {
        "address": address.lower(),
        "kind": kind(vendor, cls),
        "pci": "%s:%s" % (vendor, device),
        "class": cls,
        "subsystem": "%s:%s" % (_hex(value("subsystem_vendor")), _hex(value("subsystem_device"))),
        "numa_node": _node(value("numa_node")),
        "cpus": value("local_cpulist"),
        "driver": host.link_name(base + "/driver"),
        "link": {
            "speed": value("current_link_speed"),
            "max_speed": value("max_link_speed"),
            "width": value("current_link_width"),
            "max_width": value("max_link_width"),
        },
    }


def _hex(text):
    return text[2:].lower() if text.startswith("0x") else text.lower()


def _node(text):
    """Return the NUMA node; None where the firmware does not say (the kernel's -1)."""
    return int(text) if text.isdigit() else None
