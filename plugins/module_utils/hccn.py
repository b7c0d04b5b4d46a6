# SPDX-License-Identifier: GPL-3.0-or-later
"""The network of the NPUs: hccn_tool's answers and /etc/hccn.conf. Pure: text in, data out."""

import re

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.terminal_text import plain

__metaclass__ = type

_TLS = re.compile(r"tls\s+switch\s*[\[:=\s]\s*(\d|enabled?|disabled?)", re.IGNORECASE)


def parse_link(text):
    """Return UP or DOWN of `-link -g`; '' where it is not told."""
    found = re.search(r"link status:\s*(\w+)", plain(text), re.IGNORECASE)
    return found.group(1).upper() if found else ""


def parse_health(text):
    """Return what `-net_health -g` says (Success, Socket fail, ...); '' where it is not told."""
    found = re.search(r"net health status:\s*(.+)", plain(text), re.IGNORECASE)
    return found.group(1).strip() if found else ""


def parse_address(text):
    """Return the address of `-ip -g`; '' where there is none."""
    found = re.search(r"ipaddr:\s*([0-9a-fA-F.:]+)", plain(text))
    return found.group(1) if found else ""


def parse_tls(text):
    """Return whether TLS is on, of `-tls -g`; None where it is not told."""
    found = _TLS.search(plain(text))
    if found is None:
        return None
    return found.group(1).lower() in ("1", "enable", "enabled")


def parse_conf(text):
    """Return {npu: {key: value}} of /etc/hccn.conf (`address_0=...`)."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"^\s*([A-Za-z]\w*?)_(\d+)\s*=\s*(.*?)\s*$", line)
        if match:
            found.setdefault(match.group(2), {})[match.group(1)] = match.group(3)
    return found
