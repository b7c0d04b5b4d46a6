# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host shows of its NPUs: the tool's answer, device nodes, the vendor's records, links."""

import grp
import os
import pwd
import re
import stat

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    ascend_records,
    hccn,
    npu_smi,
    tools,
)

__metaclass__ = type

TOOLS = (
    "/usr/local/sbin/npu-smi",
    "/usr/local/bin/npu-smi",
    "/usr/bin/npu-smi",
    "/usr/sbin/npu-smi",
)
NODES = re.compile(r"^(davinci\d+|davinci_manager|devmm_svm|hisi_hdc)$")
GROUP = "HwHiAiUser"
# So many sick chips, and network ports, are asked one by one.
_ASKED = 16


def smi(host, runner):
    """Return what npu-smi says: state absent, broken or good, and either devices or a failure."""
    path, problem = tools.find(host, TOOLS)
    found = {"state": "absent", "path": path, "rc": None, "failure": None, "version": ""}
    found.update(devices=[], processes=[], needs_environment=False, health={}, board=None)
    if not path:
        return found
    if problem:
        failure = {"kind": "not-executable", "code": "126", "said": problem}
        return dict(found, state="broken", failure=failure)
    found.update(_ask(host, runner, path))
    if found["state"] == "good":
        found.update(_details(runner, path, found, environment(host)))
    return found


def environment(host):
    """Return the variables with which the driver's tools find their libraries."""
    base = ascend_records.hdk(host)["driver"]["path"] + "/driver/lib64"
    return {"LD_LIBRARY_PATH": ":".join([base, base + "/common", base + "/driver"])}


def _ask(host, runner, path):
    """Ask without, and only then with, the variables that a login shell would set."""
    rc, text = runner.run([path, "info"])
    missing = npu_smi.failure(rc, text)["kind"] == "library"
    if missing:
        rc, text = runner.run([path, "info"], environment=environment(host))
    table = npu_smi.parse_info(text)
    if table["devices"]:
        return dict(table, state="good", rc=rc, needs_environment=missing)
    return {"state": "broken", "rc": rc, "failure": npu_smi.failure(rc, text)}


def _details(runner, path, found, variables):
    """Return the error codes of chips that are not well, and what one board says of its pair."""
    sick = [row for row in found["devices"] if row["health"].lower() != "ok"]
    health = {}
    for row in sick[:_ASKED]:
        which = ["-i", str(row["npu"]), "-c", str(row["chip"])]
        argv = [path, "info", "-t", "health"] + which
        _rc, text = runner.run(argv, limit=10, environment=variables)
        health["%s.%s" % (row["npu"], row["chip"])] = npu_smi.parse_health(text)["codes"]
    first = str(found["devices"][0]["npu"])
    argv = [path, "info", "-t", "board", "-i", first]
    rc, text = runner.run(argv, limit=10, environment=variables)
    return {"health": health, "board": npu_smi.parse_board(text) if rc == 0 else None}


def software(host, machine):
    """Return what the vendor's own records say is installed."""
    found = ascend_records.hdk(host)
    return {
        "driver": found["driver"],
        "firmware": found["firmware"],
        "cann": {"%d" % number: ascend_records.cann(host, number, machine) for number in (1, 2)},
        "nnal": ascend_records.nnal(host),
        "module_loaded": ascend_records.module_loaded(host),
        "directories": ascend_records.wrong_kinds(host),
    }


def nodes(host):
    """Return the device nodes with owner, group and mode."""
    names = [name for name in host.names("/dev") if NODES.match(name)]
    return [_node(host, name) for name in names]


def _node(host, name):
    found = os.stat(host.path("/dev/" + name))
    return {
        "path": "/dev/" + name,
        "user": _name(pwd.getpwuid, found.st_uid),
        "group": _name(grp.getgrgid, found.st_gid),
        "mode": "%04o" % stat.S_IMODE(found.st_mode),
    }


def _name(ask, number):
    try:
        return ask(number)[0]
    except KeyError:
        return str(number)


def network(host, runner, root):
    """Return [{npu, address, link, health, tls}] of the ports that /etc/hccn.conf names."""
    tool = root + "/driver/tools/hccn_tool"
    conf = hccn.parse_conf(host.read("/etc/hccn.conf") or "")
    if not host.exists(tool):
        return []
    named = sorted((npu for npu in conf if conf[npu].get("address")), key=int)
    return [_port(host, runner, tool, npu, conf[npu]["address"]) for npu in named[:_ASKED]]


def _port(host, runner, tool, npu, address):
    def ask(what):
        argv = [host.path(tool), "-i", npu, what, "-g"]
        return runner.run(argv, limit=10, environment=environment(host))[1]

    return {
        "npu": int(npu),
        "wanted": address,
        "address": hccn.parse_address(ask("-ip")),
        "link": hccn.parse_link(ask("-link")),
        "health": hccn.parse_health(ask("-net_health")),
        "tls": hccn.parse_tls(ask("-tls")),
    }
