# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of what is built and installed: platforms, build keys, releases. Pure."""

import re

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils.pip_lock import (
    digest,
    normalise,
    parse_lock,
    render_lock,
)

__metaclass__ = type


def platform(host, python):
    """Return what two hosts must have in common so that one can build for the other."""
    return {
        "os": host["os"]["key"],
        "glibc": host["glibc"],
        "arch": host["arch"],
        "python": python,
    }


def platform_text(values):
    """Return a platform in words, for messages."""
    return "%s, %s, glibc %s, Python %s" % (
        values["os"],
        values["arch"],
        values["glibc"],
        values["python"],
    )


def build_inputs(host_platform, engine):
    """Return everything that a build depends on; lists whose order means nothing are sorted."""
    inputs = {"schema": 1, "platform": host_platform}
    inputs.update(engine)
    inputs["exclude"] = sorted(set(engine.get("exclude", [])), key=normalise)
    inputs["requirements"] = sorted(set(engine.get("requirements", [])))
    return inputs


def build_key(inputs):
    """Return the name of a build: readable in front, the digest of all inputs behind."""
    where = inputs["platform"]
    words = [
        inputs["distribution"],
        inputs["version"],
        inputs["target"],
        "py" + where["python"],
        where["os"],
        where["arch"],
        digest(inputs)[:12],
    ]
    return "-".join(re.sub(r"[^a-z0-9._+]+", "-", str(word).lower()) for word in words)


def release_id(lock, python):
    """Return the id of a release: a digest of what is installed and the interpreter it is in.

    Comments, order and line breaks of the lock do not count. The interpreter's path does: an
    environment belongs to the interpreter that made it.
    """
    pins = parse_lock(lock)
    return digest({"schema": 1, "lock": render_lock(pins), "python": python})[:16]


def pick_builder(key, builders):
    """Return which of the builders of a platform builds this key: always the same one."""
    ordered = sorted(builders)
    return ordered[int(digest(key)[:8], 16) % len(ordered)] if ordered else None
