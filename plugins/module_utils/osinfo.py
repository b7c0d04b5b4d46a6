# SPDX-License-Identifier: GPL-3.0-or-later
"""What an operating system is, read from its release files. Pure: text in, data out."""

import re

__metaclass__ = type

EL_IDS = ("rhel", "centos", "rocky", "almalinux", "ol")
RPM_IDS = EL_IDS + ("openEuler", "kylin", "fedora", "anolis", "uos")
DEB_IDS = ("debian", "ubuntu")
_SERVICE_PACK = re.compile(r"\bSP(\d+)", re.IGNORECASE)
# Kylin names its service packs in /etc/.productinfo; the code name is the second witness, and
# the only one that tells the 2403 refresh of SP3 from SP3.
_KYLIN_CODENAMES = {
    "tercel": "SP1",
    "sword": "SP2",
    "lance": "SP3",
    "halberd": "SP3-2403",
}
_UNQUOTE = re.compile(r"\\(.)")


def parse_os_release(text):
    """Return the variables of an os-release file."""
    values = {}
    for line in text.splitlines():
        name, separator, value = line.strip().partition("=")
        if separator and not name.startswith("#"):
            values[name.strip()] = _unquoted(value.strip())
    return values


def _unquoted(value):
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return _UNQUOTE.sub(r"\1", value)


def parse_productinfo(text):
    """Return the service pack and code name in Kylin's /etc/.productinfo ('' where not told)."""
    found = re.search(r"^release\s+\S+\s*(?:\(([^)]*)\))?\s*(?:/\(([^)]*)\))?", text, re.MULTILINE)
    if found is None:
        return {"service_pack": "", "codename": ""}
    return {"service_pack": _pack(found.group(1) or ""), "codename": found.group(2) or ""}


def _pack(text):
    found = _SERVICE_PACK.search(text)
    return "SP%s" % found.group(1) if found else ""


def identify(os_release, productinfo=""):
    """Return the identity of an operating system from the texts of its release files."""
    values = parse_os_release(os_release)
    found = {
        "id": values.get("ID", ""),
        "version_id": values.get("VERSION_ID", ""),
        "version": values.get("VERSION", ""),
        "name": values.get("NAME", ""),
        "codename": values.get("VERSION_CODENAME", "") or _bracketed(values.get("VERSION", "")),
        "service_pack": "",
        "edition": "",
    }
    if found["id"] == "openEuler":
        found.update(_openeuler(found))
    elif found["id"] == "kylin":
        found.update(_kylin(found, parse_productinfo(productinfo)))
    found["family"] = _family(found, values)
    found["key"] = _key(found)
    return found


def _bracketed(version):
    found = re.search(r"\(([^)]*)\)", version)
    return found.group(1) if found else ""


def _openeuler(found):
    lts = "LTS" in found["version"]
    return {
        "service_pack": _pack(found["version"]),
        "edition": "lts" if lts else "innovation",
        "codename": "",
    }


def _kylin(found, product):
    if "Advanced Server" not in found["name"]:
        return {"edition": "desktop"}
    codename = product["codename"] or found["codename"]
    told = _KYLIN_CODENAMES.get(codename.lower(), "")
    pack = product["service_pack"] or told
    # Both witnesses agree on SP3, and only the code name knows of the refresh.
    if pack and told.startswith(pack + "-"):
        pack = told
    return {"edition": "server", "service_pack": pack, "codename": codename}


def _family(found, values):
    if found["edition"] == "desktop" or found["id"] in DEB_IDS:
        return "deb"
    if found["id"] in RPM_IDS:
        return "rpm"
    like = values.get("ID_LIKE", "").split()
    if any(name in DEB_IDS for name in like):
        return "deb"
    return "rpm" if any(name in RPM_IDS for name in like) else ""


def _key(found):
    name, version = found["id"], found["version_id"]
    if name in EL_IDS:
        name, version = "el", version.split(".")[0]
    elif name == "debian":
        version = version.split(".")[0]
    elif found["edition"] == "desktop":
        name = "kylin-desktop"
    return "-".join(part for part in (name, version, found["service_pack"]) if part)


def package_manager(family, present):
    """Choose the package manager of a family from the program names present on the host."""
    if family == "deb":
        return "apt" if "apt-get" in present else ""
    for name in ("dnf5", "dnf", "yum"):
        if name in present:
            return name
    return ""


def parse_size_list(names):
    """Return the page sizes in bytes of directory names such as 'hugepages-2048kB', sorted."""
    found = [re.match(r"^hugepages-(\d+)kB$", name) for name in names]
    return sorted(int(match.group(1)) * 1024 for match in found if match)


def parse_meminfo(text):
    """Return {name: kB} of /proc/meminfo or of a node's meminfo."""
    lines = re.findall(r"^(?:Node\s+\d+\s+)?(\w+(?:\(\w+\))?):\s+(\d+)", text, re.MULTILINE)
    return {name: int(value) for name, value in lines}


def systemd_version(names):
    """Return systemd's version from the names of its shared library; None where not told."""
    found = [re.match(r"^libsystemd-shared-(\d+)", name) for name in names]
    versions = [int(match.group(1)) for match in found if match]
    return max(versions) if versions else None
