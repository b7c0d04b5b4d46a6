# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what npu-smi prints, in every recorded layout. Pure: text in, data out.

There is no machine-readable output. Widths, columns and separators differ between versions, so the
tables are read by their headings and their bars, never by position; log lines of the driver before
a table are no part of it.
"""

import re

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.terminal_text import (
    excerpt,
    number,
    plain,
)

__metaclass__ = type

HEALTH_WORDS = ("ok", "warning", "alarm", "critical", "unknown")
# What the driver logs on the way to a good answer as well as to an error.
_NOISE = re.compile(r"DrvMngGetConsoleLogLevel|g_conLogLevel|^\[(?:INFO|WARNING|EVENT)\]")
_DCMI = re.compile(r"\bret(?:urn code)?(?: is|:|=)\s*(-\d{4})\b")
_LIBRARY = re.compile(r"error while loading shared libraries: ([^:\s]+)")
_VERSION = re.compile(r"\bVersion:\s*(\S+)")
_COMPATIBLE = {"ok": True, "": None, "na": None, "n/a": None}
_ADDRESS = re.compile(r"^[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$")


def parse_info(text):
    """Return {version, devices, processes} of `npu-smi info`; a device is one chip (die)."""
    reader = _Reader()
    version = ""
    for line in plain(text).splitlines():
        line = line.strip()
        if not line.startswith("|"):
            continue
        found = _VERSION.search(line)
        if found and "npu-smi" in line:
            version = found.group(1).rstrip("|")
            continue
        reader.row([cell.strip() for cell in line.strip("|").split("|")])
    return {"version": version, "devices": reader.devices, "processes": reader.processes}


class _Reader:
    """Takes the rows of the tables one by one; each table begins with a heading."""

    def __init__(self):
        self.devices = []
        self.processes = []
        self.table = ""
        self.has_hbm = False
        self.open = None

    def row(self, cells):
        """Take in one row."""
        if not self._heading(cells) and len(cells) > 2:
            if self.table == "devices":
                self._device(cells)
            elif self.table == "processes":
                self._process(cells)

    def _heading(self, cells):
        whole = " ".join(cells)
        if "Process id" in whole:
            self.table = "processes"
        elif "Health" in cells and "Name" in whole:
            self.table = "flat" if "Name" in cells else "devices"
        elif "Bus-Id" in cells:
            self.has_hbm = "HBM-Usage" in whole
        elif self.table == "flat":
            return self._flat(cells)
        else:
            return False
        return True

    def _flat(self, cells):
        """Take in a row of the layout with one row for each chip (Ascend 950)."""
        if len(cells) > 2 and cells[2].lower() in HEALTH_WORDS and cells[0].isdigit():
            self.devices.append(_first(int(cells[0]), cells[1], cells[2], ""))
        return True

    def _device(self, cells):
        words = cells[0].split()
        if cells[1].lower() in HEALTH_WORDS and len(words) > 1 and words[0].isdigit():
            self.open = _first(int(words[0]), " ".join(words[1:]), cells[1], cells[2])
            self.devices.append(self.open)
        elif self.open is not None and words and words[0].isdigit():
            self.open.update(_second(words, cells[1], cells[2], self.has_hbm))
            self.open = None

    def _process(self, cells):
        words = cells[0].split()
        if len(words) == 2 and cells[1].isdigit() and len(cells) > 3:
            self.processes.append(
                {
                    "npu": number(words[0]),
                    "chip": number(words[1]),
                    "pid": int(cells[1]),
                    "name": cells[2],
                    "memory_mb": number(cells[3]),
                }
            )


def _first(npu, name, health, right):
    """Return a device after the first of its two rows."""
    values = _values(right)
    return {
        "npu": npu,
        "chip": 0,
        "phy": None,
        "name": name,
        "health": health,
        "power_w": number(values[0]) if values else None,
        "temperature_c": number(values[1]) if len(values) > 1 else None,
        "hugepages": _pair(values[2]) if len(values) > 2 else None,
        "bus_id": None,
        "aicore_percent": None,
        "memory_mb": None,
        "hbm_mb": None,
    }


def _second(words, bus_id, right, has_hbm):
    """Return what the second row adds."""
    values = _values(right)
    return {
        "chip": int(words[0]),
        "phy": number(words[1]) if len(words) > 1 else None,
        "bus_id": bus_id.lower() if _ADDRESS.match(bus_id) else None,
        "aicore_percent": number(values[0]) if values else None,
        "memory_mb": _pair(values[1]) if len(values) > 1 else None,
        "hbm_mb": _pair(values[2]) if has_hbm and len(values) > 2 else None,
    }


def _values(cell):
    """Return the values of a cell; `65489/ 65536` and `0    / 0` are one value each."""
    return re.sub(r"\s*/\s*", "/", cell).split()


def _pair(text):
    """Return {used, total} of `used/total`."""
    used, _slash, total = text.partition("/")
    return {"used": number(used), "total": number(total)}


def failure(rc, text):
    """Return {kind, code, said} of an answer without devices; kinds are stable names.

    timeout, library (code: its name), dcmi (code: a negative number), not-executable, no-devices.
    """
    said = excerpt("\n".join(line for line in plain(text).splitlines() if not _NOISE.search(line)))
    if rc is None:
        return {"kind": "timeout", "code": "", "said": said or "no answer"}
    library, dcmi = _LIBRARY.search(text), _DCMI.search(text)
    if library:
        return {"kind": "library", "code": library.group(1), "said": said}
    if dcmi:
        return {"kind": "dcmi", "code": dcmi.group(1), "said": said}
    if rc in (126, 127):
        return {"kind": "not-executable", "code": str(rc), "said": said}
    return {"kind": "no-devices", "code": str(rc), "said": said or excerpt(text)}


def parse_map(text):
    """Return [{npu, chip, logic, phy, name}] of `npu-smi info -m`, without the Mcu rows."""
    columns, rows = [], []
    for line in plain(text).splitlines():
        if "NPU ID" in line and "Chip Name" in line:
            columns = [part.strip().lower() for part in re.split(r"\s{2,}", line.strip())]
            continue
        words = line.split(None, len(columns) - 1) if columns else []
        if columns and len(words) == len(columns) and words[0].isdigit():
            rows.append({name: words[at] for at, name in enumerate(columns)})
    return [_mapped(row) for row in rows if row["chip name"].strip().lower() != "mcu"]


def _mapped(row):
    return {
        "npu": int(row["npu id"]),
        "chip": number(row.get("chip id")),
        "logic": number(row.get("chip logic id")),
        "phy": number(row.get("chip phy-id")),
        "name": row["chip name"].strip(),
    }


def parse_pairs(text):
    """Return [(name, value)] of `key : value` lines (-l, -t board, -t health), in their order."""
    found = []
    for line in plain(text).splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() and not _NOISE.search(line):
            found.append((name.strip(), value.strip()))
    return found


def parse_list(text):
    """Return {count, npus: [{npu, product, chips}]} of `npu-smi info -l`."""
    count, npus = None, []
    for name, value in parse_pairs(text):
        if name == "Total Count":
            count = number(value)
        elif name == "NPU ID":
            npus.append({"npu": number(value), "product": "", "chips": None})
        elif npus and name == "Product Name":
            npus[-1]["product"] = value
        elif npus and name == "Chip Count":
            npus[-1]["chips"] = number(value)
    return {"count": count, "npus": npus}


def parse_board(text):
    """Return what `npu-smi info -t board` says of driver, firmware and their pairing."""
    values = dict(reversed(parse_pairs(text)))
    return {
        "product": values.get("Product Name", ""),
        "model": values.get("Model", ""),
        "driver": values.get("Software Version", ""),
        "firmware": values.get("Firmware Version", ""),
        "compatible": _COMPATIBLE.get(values.get("Compatibility", "").lower(), False),
        "pci": _pci(values),
        "chip_type": values.get("Chip Type", ""),
        "chip_name": values.get("Chip Name", ""),
        "npu_name": values.get("NPU Name", ""),
        "faulty_chips": number(values.get("Faulty Chip Count")),
    }


def _pci(values):
    vendor, device = values.get("PCI Vendor ID", ""), values.get("PCI Device ID", "")
    if not vendor or not device:
        return ""
    return ("%s:%s" % (vendor.lower()[-4:], device.lower()[-4:])).replace("0x", "")


def parse_health(text):
    """Return {health, codes} of `npu-smi info -t health`."""
    health, codes = "", []
    for name, value in parse_pairs(text):
        if name in ("Health", "Health Status") and not health:
            health = value
        elif name.lower().startswith("error code") and value.upper() not in ("NA", "0", ""):
            codes += value.replace(",", " ").split()
    return {"health": health, "codes": codes}
