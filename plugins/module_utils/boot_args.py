# SPDX-License-Identifier: GPL-3.0-or-later
"""Hugepages on the kernel's command line: pairs of hugepagesz= and hugepages=. Pure."""

import re

from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import hugepage_plan

__metaclass__ = type

DROP_IN_VARIABLE = "GRUB_CMDLINE_LINUX"
_LINE = re.compile(r'^([ \t]*GRUB_CMDLINE_LINUX=)(["\']?)(.*?)(["\']?)[ \t]*$', re.MULTILINE)
_ARGS = re.compile(r'^args="(.*)"\s*$', re.MULTILINE)


def arguments(totals):
    """Return the words that give {size: pages} at boot; each size is named once."""
    words = []
    for size in sorted(totals):
        words += ["hugepagesz=%s" % hugepage_plan.show_size(size), "hugepages=%d" % totals[size]]
    return words


def parse(words, default_size):
    """Return {size: pages} of the pairs in a command line, and the words that are no pair.

    A hugepages= that follows no hugepagesz= counts for the kernel's default size.
    """
    pairs, rest, size = {}, [], default_size
    for word in words:
        name, _equals, value = word.partition("=")
        if name == "default_hugepagesz" and value:
            size = hugepage_plan.parse_size(value)
            rest.append(word)
        elif name == "hugepagesz" and value:
            size = hugepage_plan.parse_size(value)
        elif name == "hugepages" and value.isdigit():
            pairs[size] = int(value)
        else:
            rest.append(word)
    return pairs, rest


def merged(words, totals, default_size):
    """Return the pairs that a command line should have: ours, and those of other sizes."""
    pairs, _rest = parse(words, default_size)
    pairs.update(totals)
    return arguments(pairs)


def holds(words, totals, default_size):
    """Tell whether a command line gives at least our pairs."""
    pairs, _rest = parse(words, default_size)
    return all(pairs.get(size) == count for size, count in totals.items())


def grubby_lines(text):
    """Return the words of each kernel's args line in the output of 'grubby --info=ALL'."""
    return [found.split() for found in _ARGS.findall(text)]


def drop_in(header, totals):
    """Return the text of a file in /etc/default/grub.d that adds our words."""
    words = " ".join(arguments(totals))
    return '# %s\n%s="$%s %s"\n' % (header, DROP_IN_VARIABLE, DROP_IN_VARIABLE, words)


def edited_default(text, totals, default_size):
    """Return /etc/default/grub with our pairs in GRUB_CMDLINE_LINUX and all else as it was."""
    found = list(_LINE.finditer(text))
    if not found:
        end = "" if text.endswith("\n") or not text else "\n"
        words = " ".join(arguments(totals))
        return '%s%s%s="%s"\n' % (text, end, DROP_IN_VARIABLE, words)
    last = found[-1]
    words = last.group(3).split()
    kept = parse(words, default_size)[1] + merged(words, totals, default_size)
    line = '%s"%s"' % (last.group(1), " ".join(kept))
    return text[: last.start()] + line + text[last.end() :]


def default_words(text):
    """Return the words of GRUB_CMDLINE_LINUX in /etc/default/grub."""
    found = _LINE.findall(text)
    return found[-1][2].split() if found else []
