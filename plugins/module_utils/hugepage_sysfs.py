# SPDX-License-Identifier: GPL-3.0-or-later
"""The hugepage files of a host below /sys: per NUMA node, or one set where there are no nodes."""

import os
import re

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import osinfo

__metaclass__ = type

_NODES = "/sys/devices/system/node"
_POOLS = "/sys/kernel/mm/hugepages"


class Sysfs:
    """Hugepage counts of one host."""

    def __init__(self, host):
        self.host = host
        self.errors = {}
        ids = [re.match(r"^node(\d+)$", name) for name in host.names(_NODES)]
        self._folders = {
            int(found.group(1)): "%s/%s/hugepages" % (_NODES, found.group(0))
            for found in ids
            if found
        }
        # A kernel without NUMA has one set of pools, which counts as node 0.
        self._numa = bool(self._folders)
        if not self._numa and host.names(_POOLS):
            self._folders = {0: _POOLS}

    def nodes(self):
        """Return {id: {memory, sizes}} in bytes."""
        return {
            node: {
                "memory": self._memory(node) * 1024,
                "sizes": osinfo.parse_size_list(self.host.names(folder)),
            }
            for node, folder in self._folders.items()
        }

    def _memory(self, node):
        path = "%s/node%d/meminfo" % (_NODES, node) if self._numa else "/proc/meminfo"
        return osinfo.parse_meminfo(self.host.read(path) or "").get("MemTotal", 0)

    def path(self, row):
        """Return the file that holds the number of pages of a row."""
        folder = self._folders[row["node"]]
        return "%s/hugepages-%dkB/nr_hugepages" % (folder, row["size"] // 1024)

    def read(self, row):
        """Return the pages that the kernel keeps for a row, without those it only lends."""
        path = self.path(row)
        total = (self.host.read(path) or "").strip()
        surplus = (self.host.read(path.replace("/nr_", "/surplus_")) or "").strip()
        return int(total or 0) - int(surplus or 0)

    def settable(self, row):
        """Tell whether this host may write the number of pages (asks, does not try)."""
        return os.access(self.host.path(self.path(row)), os.W_OK)

    def write(self, row):
        """Ask the kernel for the pages of a row; an error is kept and told by the read-back."""
        self._put(self.path(row), "%d\n" % row["pages"])

    def compact(self, row):
        """Have the kernel move pages together on the node of a row."""
        path = "%s/node%d/compact" % (_NODES, row["node"])
        if not self.host.exists(path):
            path = "/proc/sys/vm/compact_memory"
        self._put(path, "1\n")

    def drop_caches(self):
        """Have the kernel give up clean cached file content."""
        self._put("/proc/sys/vm/drop_caches", "1\n")

    def _put(self, path, text):
        try:
            with open(self.host.path(path), "wb") as stream:
                stream.write(text.encode("ascii"))
        except (IOError, OSError) as error:
            self.errors[path] = str(error)
