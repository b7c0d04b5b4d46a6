# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what nvidia-smi prints: the XML, the topology, its failures. Pure: text in, data out.

The banner is never read: its words changed in R610 ("Driver Version" is "KMD Version" there).
"""

import re
from xml.etree import ElementTree  # noqa: S405 (a tool of the host itself wrote what it reads)

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.terminal_text import (
    excerpt,
    number,
    plain,
)

__metaclass__ = type

_NOTHING = ("", "n/a", "[n/a]", "[not supported]", "not supported", "none", "unknown error")
MISMATCH = "Driver/library version mismatch"
_NO_DRIVER = "couldn't communicate with the NVIDIA driver"
_LINK = re.compile(r"^(X|SYS|NODE|PHB|PXB|PIX|NV\d+)$")


def parse_xml(text):
    """Return {driver, cuda, gpus} of `nvidia-smi -q -x`; None where it is no such document."""
    start = text.find("<nvidia_smi_log")
    end = text.rfind("</nvidia_smi_log>")
    if start < 0 or end < 0:
        return None
    try:
        root = ElementTree.fromstring(text[start : end + len("</nvidia_smi_log>")])  # noqa: S314
    except ElementTree.ParseError:
        return None
    return {
        "driver": _text(root, "driver_version"),
        "cuda": _text(root, "cuda_version"),
        "gpus": [_gpu(node) for node in root.findall("gpu")],
    }


def _gpu(node):
    """Return one GPU."""
    return {
        "bus_id": short_address(node.get("id") or _text(node, "pci/pci_bus_id")),
        "name": _text(node, "product_name"),
        "uuid": _text(node, "uuid"),
        "architecture": _text(node, "product_architecture"),
        "memory_mib": _memory(node),
        "persistence": _on(node, "persistence_mode"),
        "ecc": _on(node, "ecc_mode/current_ecc"),
        "mig": _on(node, "mig_mode/current_mig"),
        "fabric": _fabric(node),
        "recovery_action": _known(node, "gpu_recovery_action"),
        "temperature_c": number(_text(node, "temperature/gpu_temp")),
        "utilization_percent": number(_text(node, "utilization/gpu_util")),
        "pcie": _pcie(node),
        "slowdowns": _slowdowns(node),
        "uncorrected_ecc": _uncorrected(node),
        "remapped_rows": _remapped(node),
        "retired_pages_pending": _text(node, "retired_pages/pending_retirement").lower() == "yes"
        or _text(node, "retired_pages/pending_blacklist").lower() == "yes",
        "processes": _processes(node),
    }


def _text(node, path):
    return (node.findtext(path) or "").strip()


def _known(node, path):
    value = _text(node, path)
    return "" if value.lower() in _NOTHING else value


def _on(node, path):
    """Return whether something is enabled; None where the GPU does not have it."""
    return {"enabled": True, "disabled": False}.get(_text(node, path).lower())


def _memory(node):
    return {part: number(_text(node, "fb_memory_usage/" + part)) for part in ("total", "used")}


def _fabric(node):
    return {"state": _known(node, "fabric/state"), "status": _known(node, "fabric/status")}


def _pcie(node):
    base = "pci/pci_gpu_link_info/"
    return {
        "generation": number(_text(node, base + "pcie_gen/current_link_gen")),
        "max_generation": number(_text(node, base + "pcie_gen/max_link_gen")),
        "width": number(_text(node, base + "link_widths/current_link_width")),
        "max_width": number(_text(node, base + "link_widths/max_link_width")),
    }


def _slowdowns(node):
    """Return the reasons of the hardware for which the clocks are low now."""
    found = []
    for parent in ("clocks_event_reasons", "clocks_throttle_reasons"):
        for child in node.findall(parent + "/*"):
            name = child.tag.rsplit("_reason_", 1)[-1]
            if name.startswith("hw_") and (child.text or "").strip() == "Active":
                found.append(name)
    return found


def _uncorrected(node):
    """Return the sum of uncorrected ECC errors since the driver was loaded; None if not told."""
    values = []
    for child in node.findall("ecc_errors/volatile/*"):
        if "uncorrectable" in child.tag:
            values.append(number((child.text or "").strip()))
    values = [value for value in values if value is not None]
    return sum(values) if values else None


def _remapped(node):
    return {
        "pending": _text(node, "remapped_rows/remapped_row_pending").lower() == "yes",
        "failure": _text(node, "remapped_rows/remapped_row_failure").lower() == "yes",
    }


def _processes(node):
    rows = node.findall("processes/process_info")
    return [
        {
            "pid": number(_text(row, "pid")),
            "name": _text(row, "process_name"),
            "memory_mib": number(_text(row, "used_memory")),
        }
        for row in rows
    ]


def short_address(bus_id):
    """Return a PCI address as sysfs writes it: nvidia-smi prints an 8-digit domain in capitals."""
    domain, colon, rest = bus_id.lower().partition(":")
    return domain[-4:] + colon + rest


def failure(rc, text):
    """Return {kind, code, said} of an answer that is no document; kinds are stable names.

    timeout, mismatch (code: the library's version), exit (code: nvidia-smi's own exit code).
    """
    text = plain(text)
    said = excerpt(text)
    if rc is None:
        return {"kind": "timeout", "code": "", "said": said or "no answer"}
    if rc == 18 or MISMATCH in text:
        found = re.search(r"NVML library version:\s*(\S+)", text)
        return {"kind": "mismatch", "code": found.group(1) if found else "", "said": said}
    if _NO_DRIVER in text:
        return {"kind": "exit", "code": "9", "said": said}
    if rc == 0 or "No devices were found" in text:
        return {"kind": "exit", "code": "6", "said": said}
    return {"kind": "exit", "code": str(rc), "said": said}


def parse_topology(text):
    """Return {devices: {name: {links, cpus, numa}}, nics: {NICn: device}} of `topo -m`."""
    lines = plain(text).splitlines()
    heads, devices = [], {}
    for line in lines:
        if not heads and "GPU0" in line and "CPU Affinity" in line:
            heads = [head.strip() for head in line.split("\t")][1:]
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if heads and cells[0] in heads:
            devices[cells[0]] = _topology_row(heads, cells)
        elif heads and not line.strip():
            break
    nics = re.findall(r"^\s*(NIC\d+):\s*(\S+)", "\n".join(lines), re.MULTILINE)
    return {"devices": devices, "nics": dict(nics)}


def _topology_row(heads, cells):
    values = {heads[at]: cell for at, cell in enumerate(cells[1:]) if at < len(heads)}
    links = {name: value for name, value in values.items() if _LINK.match(value)}
    numa = values.get("NUMA Affinity", "")
    return {
        "links": {name: value for name, value in links.items() if value != "X"},
        "cpus": values.get("CPU Affinity", ""),
        "numa": int(numa) if numa.isdigit() else None,
    }


def parse_loaded(text):
    """Return {version, open} of /proc/driver/nvidia/version; None where no module is loaded."""
    found = re.search(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", text)
    if found is None:
        return None
    return {"version": found.group(1), "open": "Open Kernel Module" in text}
