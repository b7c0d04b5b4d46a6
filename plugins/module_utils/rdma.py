# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA devices and network cards from sysfs."""

import re

__metaclass__ = type

_RDMA = "/sys/class/infiniband"
_NET = "/sys/class/net"


def links(host):
    """Return the ports of RDMA devices (InfiniBand and RoCE)."""
    return [
        _port(host, device, port)
        for device in host.names(_RDMA)
        for port in host.names("%s/%s/ports" % (_RDMA, device))
    ]


def _port(host, device, port):
    base = "%s/%s" % (_RDMA, device)

    def value(name):
        return (host.read("%s/ports/%s/%s" % (base, port, name)) or "").strip()

    return {
        "device": device,
        "port": int(port) if port.isdigit() else 0,
        "state": _word(value("state")),
        "physical": _word(value("phys_state")),
        "layer": value("link_layer"),
        "rate": value("rate"),
        "interfaces": host.names(base + "/device/net"),
        "numa_node": _node(host.read(base + "/device/numa_node")),
    }


def _word(text):
    """Return ACTIVE of `4: ACTIVE`."""
    return text.partition(":")[2].strip() or text


def _node(text):
    text = (text or "").strip()
    return int(text) if re.match(r"^\d+$", text) else None


def interfaces(host):
    """Return the network cards (not bridges, loops and the like) with state and speed in Mbit/s."""
    names = [name for name in host.names(_NET) if host.exists("%s/%s/device" % (_NET, name))]
    return [_interface(host, name) for name in names]


def _interface(host, name):
    base = "%s/%s" % (_NET, name)
    speed = (host.read(base + "/speed") or "").strip()
    return {
        "name": name,
        "state": (host.read(base + "/operstate") or "").strip(),
        "speed": int(speed) if speed.isdigit() else None,
        "mtu": int((host.read(base + "/mtu") or "0").strip() or 0),
        "numa_node": _node(host.read(base + "/device/numa_node")),
    }
