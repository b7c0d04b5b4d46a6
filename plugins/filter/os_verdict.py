# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the operating system of a host."""

from __future__ import annotations

from typing import Any

from ansible_collections.vllm_fleet.baremetal.plugins.plugin_utils import catalog, os_support

DOCUMENTATION = r"""
name: os_verdict
short_description: Judge the operating system of a host by the catalog
version_added: 0.1.0
description:
  - Returns RV(_value.verdict), one of V(good), V(bad) and V(unknown), RV(_value.reason), a
    sentence, RV(_value.row), the row of the catalog that says so, RV(_value.supported), the keys
    that are good, and RV(_value.kernel_headers), the package with the headers of the running
    kernel.
options:
  _input:
    description: The host, as M(vllm_fleet.baremetal.host_identity) returns it.
    type: dict
    required: true
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Show whether the operating system is supported
  ansible.builtin.debug:
    msg: "{{ (ansible_facts['vllm_fleet_host'] | vllm_fleet.baremetal.os_verdict).reason }}"
"""

RETURN = r"""
_value:
  description: The verdict.
  type: dict
  sample:
    verdict: good
    reason: openEuler 22.03 LTS-SP1 is supported.
    row: {key: openEuler-22.03-SP1}
    supported: [openEuler-22.03-SP1]
    kernel_headers: kernel-devel-5.10.0-136.12.0.86.oe2203sp1.aarch64
"""


def os_verdict(host: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict on a host's operating system."""
    known = catalog.load("operating_systems")
    found = os_support.verdict(host["os"], known)
    headers = os_support.kernel_headers(host["kernel"], host["os"]["family"], found["row"])
    return {**found, "supported": os_support.supported(known), "kernel_headers": headers}


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by its name."""
        return {"os_verdict": os_verdict}
