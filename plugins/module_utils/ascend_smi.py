# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask npu-smi which driver and firmware really run. Only ``KEY : VALUE`` answers are read."""

import os
import re

__metaclass__ = type

PLACES = ("/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi", "/usr/bin/npu-smi")
LIMIT_S = "30"
TIMED_OUT = 124
ABSENT, BROKEN, GOOD = "absent", "broken", "good"
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ROW = re.compile(r"^\s*([A-Za-z][A-Za-z0-9 _()/-]*?)\s*:\s*(.*?)\s*$")
_CODE = re.compile(r"ret is (-\d+)")
_LIBRARY = re.compile(r"error while loading shared libraries: ([^:\s]+)")
_MEANINGS = {
    "-8005": "the devices are not visible to this user or container, or busy",
    "-8012": "the devices are not ready",
    "-8017": "the devices are being upgraded",
    "-8020": "the devices are in use by somebody else",
}


def rows(text):
    """Return [(key, value)] of an answer, without colours and the driver's log lines."""
    lines = [_ANSI.sub("", line) for line in text.splitlines()]
    found = [_ROW.match(line) for line in lines if not line.startswith("DrvMng")]
    return [match.groups() for match in found if match]


def ids(text):
    """Return the NPU ids that ``npu-smi info -l`` names; they need not be contiguous."""
    return [int(value) for key, value in rows(text) if key == "NPU ID" and value.isdigit()]


def board(text):
    """Return (driver, firmware) that ``npu-smi info -t board`` says; '' for what it does not."""
    found = dict(rows(text))
    return tuple(
        "" if found.get(key, "NA") == "NA" else found[key]
        for key in ("Software Version", "Firmware Version")
    )


def problem(code, text):
    """Return what a failed answer means, for people."""
    library = _LIBRARY.search(text)
    if library:
        return "npu-smi cannot load %s: the driver's libraries are not found" % library.group(1)
    number = _CODE.search(text)
    if number:
        meaning = _MEANINGS.get(number.group(1), "the driver answers with an error")
        return "%s (%s)" % (meaning, number.group(1))
    if code == TIMED_OUT:
        return "npu-smi gave no answer within %s seconds" % LIMIT_S
    return "npu-smi failed with exit code %s: %s" % (code, " ".join(text.split())[-300:])


def environment(root):
    """Return what npu-smi needs beside the C locale: it is started by its path, with libraries."""
    folders = ["%s/driver/lib64%s" % (root, name) for name in ("", "/common", "/driver")]
    return {"LC_ALL": "C", "LANGUAGE": "C", "LD_LIBRARY_PATH": ":".join(folders)}


def running(module, root):
    """Return {tool, problem, devices: [{id, driver, firmware}]} as npu-smi answers now."""
    tool = next((path for path in PLACES if os.path.isfile(path)), None)
    if tool is None:
        return {"tool": ABSENT, "problem": "", "devices": []}
    code, text = _ask(module, root, [tool, "info", "-l"])
    found = ids(text) if code == 0 else []
    if not found:
        return {"tool": BROKEN, "problem": problem(code, text), "devices": []}
    devices, failures = [], []
    for number in found:
        code, text = _ask(module, root, [tool, "info", "-t", "board", "-i", str(number)])
        if code != 0:
            failures.append("NPU %d: %s" % (number, problem(code, text)))
            # A device that hangs makes the others wait as well.
            if code == TIMED_OUT:
                break
            continue
        driver, firmware = board(text)
        devices.append({"id": number, "driver": driver, "firmware": firmware})
    state = BROKEN if failures else GOOD
    return {"tool": state, "problem": "; ".join(failures), "devices": devices}


def _ask(module, root, argv):
    timed = [module.get_bin_path("timeout", required=True), "-k", "5", LIMIT_S] + argv
    code, out, err = module.run_command(timed, environ_update=environment(root))
    return code, out + "\n" + err


def versions(devices, part):
    """Return the versions of a part that the devices run, each once."""
    return sorted({row[part] for row in devices if row[part]})
