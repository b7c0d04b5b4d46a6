# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has for its engine instances: releases, models, units, and instances left behind."""

import os
import pwd
import re
import stat

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import engine_state

UNITS = "/etc/systemd/system"
ETC = "/etc/vllm-fleet"
UNIT_TEMPLATE = UNITS + "/vllm@.service"
MARK = "Written by vllm-fleet"
UNIT = re.compile(r"^vllm@(.+)\.service(\.d)?$")


def installed_releases(folder):
    """Return the ids of complete releases: those with a release.json and an interpreter."""
    return [name for name in _names(folder) if is_release(os.path.join(folder, name))]


def is_release(path):
    """Tell whether a complete release is installed at the path."""
    parts = ("release.json", os.path.join("bin", "python"))
    return all(os.path.exists(os.path.join(path, part)) for part in parts)


def default_release(folder):
    """Return the release that a person sees as current, else the only one; else ''."""
    found = installed_releases(folder)
    link = os.path.join(os.path.dirname(folder.rstrip("/")), "current")
    current = os.path.basename(os.path.realpath(link))
    if os.path.islink(link) and current in found:
        return current
    return found[0] if len(found) == 1 else ""


def foreign_template(path=UNIT_TEMPLATE):
    """Tell whether there is a vllm@.service that we did not write."""
    return os.path.lexists(path) and MARK not in _read(path)


def left_behind(wanted, units=UNITS, etc=ETC):
    """Return [{name, owned, enabled}] of instances on the host that are not wanted.

    owned: files of ours name it. What is only enabled by somebody's hand is not ours to remove.
    """
    owned = {name[:-4] for name in _names(os.path.join(etc, "instances"), ".env")}
    for folder in _names(units, ".service.d"):
        if os.path.exists(os.path.join(units, folder, "10-vllm-fleet.conf")):
            owned |= _instances([folder])
    enabled = set()
    for folder in _names(units, ".wants"):
        enabled |= _instances(_names(os.path.join(units, folder)))
    return [
        {"name": name, "owned": name in owned, "enabled": name in enabled}
        for name in sorted((owned | enabled) - set(wanted))
    ]


def _instances(names):
    found = [UNIT.match(name) for name in names]
    return {match.group(1) for match in found if match}


def model_problem(path, user):
    """Say why a model folder cannot be served by the user; None where it can."""
    if not os.path.isdir(path):
        return "there is no folder %s on this host" % path
    if not os.path.exists(os.path.join(path, "config.json")):
        return "%s holds no config.json, so it is no model" % path
    return None if user is None else unreadable(path, user)


def unreadable(path, user):
    """Say which part of the path the user may not enter; None where every part is open."""
    groups = set(os.getgrouplist(user.pw_name, user.pw_gid))
    parts = path.rstrip("/").split("/")
    for count in range(1, len(parts) + 1):
        folder = "/".join(parts[:count]) or "/"
        if not _may_enter(os.stat(folder), user.pw_uid, groups):
            return "the user %s may not enter %s" % (user.pw_name, folder)
    return None


def _may_enter(found, uid, groups):
    if uid == 0:
        return True
    if found.st_uid == uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid in groups:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


def find_user(name):
    """Return the account of the name; None where the host does not have it."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def foreign_holders(holders, tolerated):
    """Return those that listen on a port and belong to none of the tolerated instances."""
    units = {engine_state.unit_name(name) for name in tolerated}
    return [holder for holder in holders if not units & set(holder["units"])]


def _names(folder, suffix=""):
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(suffix))
    except OSError:
        return []


def _read(path):
    try:
        with open(path, "rb") as stream:
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
