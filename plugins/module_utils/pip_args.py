# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments and environment for pip: where packages come from, and nothing by accident. Pure."""

import re

__metaclass__ = type

ARGUMENTS = {
    "index_url": {"type": "str"},
    "extra_index_urls": {"type": "list", "elements": "str", "default": []},
    "find_links": {"type": "list", "elements": "str", "default": []},
    "trusted_hosts": {"type": "list", "elements": "str", "default": []},
}
_USERINFO = re.compile(r"^[a-z+]+://[^/@\s]+@", re.IGNORECASE)


class SourceError(ValueError):
    """A package source that must not be used."""


def source_arguments(params, local=()):
    """Return pip's arguments that say where packages come from.

    With an index, it is used. With find-links alone, no index is. With neither, pip's own
    configuration on the host decides.
    """
    check_sources(params)
    arguments = []
    if params.get("index_url"):
        arguments += ["--index-url", params["index_url"]]
    elif params.get("find_links"):
        arguments.append("--no-index")
    for option, key in (
        ("--extra-index-url", "extra_index_urls"),
        ("--find-links", "find_links"),
        ("--trusted-host", "trusted_hosts"),
    ):
        for value in params.get(key) or []:
            arguments += [option, value]
    for place in local:
        arguments += ["--find-links", place]
    return arguments


def check_sources(params):
    """Raise SourceError for a source with a user name in it: pip would print and log it."""
    urls = [params.get("index_url") or ""]
    urls += (params.get("extra_index_urls") or []) + (params.get("find_links") or [])
    for url in urls:
        if _USERINFO.match(url):
            raise SourceError(
                "the address of a package source holds a user name or password: put it in the "
                "file .netrc of root on the host instead"
            )
    if params.get("extra_index_urls") and not params.get("index_url"):
        raise SourceError("extra_index_urls needs index_url")


def environment(params):
    """Return the environment for pip: C locale, never a question, no configuration of the host.

    The host's configuration counts only where the options name no source.
    """
    wanted = {
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "C",
        "PIP_NO_INPUT": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COLOR": "1",
        "PIP_PROGRESS_BAR": "off",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUTF8": "1",
    }
    if params.get("index_url") or params.get("find_links"):
        wanted["PIP_CONFIG_FILE"] = "/dev/null"
    return wanted
