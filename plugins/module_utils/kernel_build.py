# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether modules can be built for the running kernel: headers that match, and the compiler."""

import re

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import tools

__metaclass__ = type

_GCC = ("/usr/bin/gcc",)
_COMPILER = re.compile(r"\b(?:gcc|GCC)\b[^)]*?\)?\s+(?:version\s+)?(\d+\.\d+(?:\.\d+)?)")


def headers(host, release):
    """Return {running, matching, others}: headers of the running kernel, and those of others."""
    build = "/lib/modules/%s/build/Makefile" % release
    names = host.names("/usr/src/kernels")
    for name in host.names("/usr/src"):
        found = re.match(r"^linux-headers-(\d.*)$", name)
        if found and not name.endswith(("-common", "-common-rt")):
            names.append(found.group(1))
    return {
        "running": release,
        "matching": host.exists(build),
        "others": sorted(set(names) - {release}),
        "modules": host.exists("/lib/modules/" + release),
    }


def kernel_compiler(text):
    """Return the version of the compiler that built the kernel, from /proc/version; '' if other."""
    found = _COMPILER.search(text)
    return found.group(1) if found else ""


def compiler(host, runner):
    """Return gcc's version; '' where there is none."""
    path, problem = tools.find(host, _GCC)
    if not path or problem:
        return ""
    rc, text = runner.run([path, "-dumpfullversion", "-dumpversion"], limit=10)
    found = re.match(r"^\s*(\d+(?:\.\d+)*)\s*$", text)
    return found.group(1) if rc == 0 and found else ""
