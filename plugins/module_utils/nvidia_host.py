# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host shows of its NVIDIA GPUs: the tool's answer, and each place that has a version."""

import re

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import nvidia_smi, tools

__metaclass__ = type

TOOLS = (
    "/usr/bin/nvidia-smi",
    "/usr/local/bin/nvidia-smi",
    "/usr/local/nvidia/bin/nvidia-smi",
    "/opt/bin/nvidia-smi",
)
_LIBRARIES = ("/usr/lib64", "/usr/lib/%s-linux-gnu", "/usr/lib", "/usr/local/nvidia/lib64")
_NVML = re.compile(r"^libnvidia-ml\.so\.(\d+\.[\d.]+)$")
_MODINFO = ("/usr/sbin/modinfo", "/sbin/modinfo")
_FABRIC = ("/usr/bin/nv-fabricmanager",)


def smi(host, runner):
    """Return what nvidia-smi says: state absent, broken or good, and GPUs or a failure."""
    path, problem = tools.find(host, TOOLS)
    found = {"state": "absent", "path": path, "rc": None, "failure": None}
    found.update(driver="", cuda="", gpus=[], topology={})
    if not path:
        return found
    if problem:
        return dict(found, state="broken", failure=_cannot(problem))
    rc, text = runner.run([path, "-q", "-x"], limit=30)
    document = nvidia_smi.parse_xml(text) if rc is not None else None
    if document is None or not document["gpus"]:
        return dict(found, state="broken", rc=rc, failure=nvidia_smi.failure(rc, text))
    found.update(document, state="good", rc=rc)
    found["topology"] = nvidia_smi.parse_topology(runner.run([path, "topo", "-m"])[1])
    return found


def _cannot(problem):
    return {"kind": "not-executable", "code": "126", "said": problem}


def versions(host, runner, machine):
    """Return the driver's versions: loaded module, module on disk, libraries, Fabric Manager."""
    loaded = nvidia_smi.parse_loaded(host.read("/proc/driver/nvidia/version") or "")
    return {
        "loaded": loaded["version"] if loaded else "",
        "open": loaded["open"] if loaded else None,
        "on_disk": _on_disk(host, runner),
        "user_space": user_space(host, machine),
        "fabric_manager": _fabric_manager(host, runner),
        "nouveau_loaded": host.exists("/sys/module/nouveau"),
    }


def user_space(host, machine):
    """Return the version of the management library, from its file name; the newest of several."""
    folders = [name % machine if "%s" in name else name for name in _LIBRARIES]
    names = [name for folder in folders for name in host.names(folder)]
    found = [match.group(1) for match in map(_NVML.match, names) if match]
    return max(found, key=_numbers) if found else ""


def _numbers(version):
    return [int(part) for part in version.split(".") if part]


def _on_disk(host, runner):
    """Return the version of the module that the running kernel would load; '' for none."""
    path, problem = tools.find(host, _MODINFO)
    if not path or problem:
        return ""
    rc, text = runner.run([path, "-F", "version", "nvidia"], limit=10)
    words = text.split()
    return words[0] if rc == 0 and words else ""


def _fabric_manager(host, runner):
    path, problem = tools.find(host, _FABRIC)
    if not path or problem:
        return ""
    _rc, text = runner.run([path, "--version"], limit=10)
    found = re.search(r"(\d+\.\d+(?:\.\d+)+)", text)
    return found.group(1) if found else ""
