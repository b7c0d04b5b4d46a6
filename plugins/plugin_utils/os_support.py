# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge an operating system by the catalog. Pure: rows in, verdict out."""

from __future__ import annotations

import re
from typing import Any

Row = dict[str, Any]
_FLAVOUR = re.compile(r"^(?P<release>.+)\+(?P<flavour>\w+)$")


def verdict(system: Row, catalog: Row) -> Row:
    """Return {verdict, reason, row} for the `os` part of host_identity.

    verdict: good, bad or unknown. An edition that is refused as a whole comes before any row.
    """
    for row in catalog["editions"]:
        if system["id"] == row["id"] and system["edition"] == row["edition"]:
            return _told(row)
    for row in catalog["operating_systems"]:
        if system["key"] == row["key"]:
            return _told(row)
    named = system["key"] or "an operating system that its release files do not name"
    return {
        "verdict": "unknown",
        "reason": f"The catalog has no row for {named}.",
        "row": {},
    }


def _told(row: Row) -> Row:
    reason = row.get("reason") or f"{row['name']} is supported."
    return {"verdict": row["support"], "reason": reason, "row": row}


def supported(catalog: Row) -> list[str]:
    """Return the keys that are good."""
    return [row["key"] for row in catalog["operating_systems"] if row["support"] == "good"]


def kernel_headers(release: str, family: str, row: Row) -> str:
    """Return the exact name of the package with the headers of a running kernel.

    Enterprise Linux puts the flavour behind the release (5.14.0-1.el9.aarch64+64k) and into the
    name of the package (kernel-64k-devel-5.14.0-1.el9.aarch64).
    """
    flavour = _FLAVOUR.match(release)
    if family == "rpm" and flavour:
        return f"kernel-{flavour['flavour']}-devel-{flavour['release']}"
    default = "linux-headers-{release}" if family == "deb" else "kernel-devel-{release}"
    return str(row.get("kernel_headers") or default).format(release=release)
