# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn wished hugepage pools into a number of pages per node and size. Pure.

Everything is counted in bytes and whole pages: a fraction of a page is rounded up.
"""

import re
from decimal import ROUND_CEILING, Decimal

__metaclass__ = type

_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([kKMGT]?)(?:i?B)?$")
_UNITS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4}
_PERCENT = re.compile(r"^(\d+(?:\.\d+)?)\s*%$")


class BadPool(ValueError):
    """A pool that cannot be meant, or that the host cannot have."""


def parse_size(text):
    """Return the bytes of '2M', '1GiB', '1.5G' or '2097152', rounded up."""
    found = _SIZE.match(str(text).strip())
    if found is None:
        raise BadPool("%r is no size, such as 2M, 1G or 2097152" % text)
    unit = found.group(2)
    power = _UNITS["k" if unit == "K" else unit]
    return _ceiling(Decimal(found.group(1)) * 1024**power)


def _ceiling(number):
    return int(number.to_integral_value(rounding=ROUND_CEILING))


def show_size(size):
    """Return a size the way the kernel's command line wants it: 2M, 1G, 64K."""
    for unit, factor in (("G", 1024**3), ("M", 1024**2), ("K", 1024)):
        if size % factor == 0:
            return "%d%s" % (size // factor, unit)
    return str(size)


def pages_for(memory, size):
    """Return the whole pages that hold so many bytes."""
    return -(-memory // size)


def spread(total, nodes):
    """Return {node: pages} of a total spread evenly; the lowest nodes take the remainder."""
    share, rest = divmod(total, len(nodes))
    return {node: share + (1 if place < rest else 0) for place, node in enumerate(nodes)}


def plan(pools, nodes):
    """Return [{size, node, pages}] that the pools ask for, sorted by node and size.

    A size that a pool names is declared as a whole: nodes that no pool names get no pages of it.
    nodes: {id: {"memory": bytes, "sizes": [bytes]}}. Raises BadPool with a sentence.
    """
    if pools and not nodes:
        raise BadPool("the kernel shows no memory node and no hugepages at all")
    wanted = {}
    for place, pool in enumerate(pools):
        _add_pool(wanted, place, pool, nodes)
    for size in {size for size, _node in wanted}:
        for node in nodes:
            if size in nodes[node]["sizes"]:
                wanted.setdefault((size, node), 0)
    rows = [{"size": size, "node": node, "pages": wanted[size, node]} for size, node in wanted]
    return sorted(rows, key=lambda row: (row["node"], row["size"]))


def _add_pool(wanted, place, pool, nodes):
    try:
        _add(wanted, _pool_pages(pool, nodes), parse_size(pool["size"]))
    except BadPool as error:
        raise BadPool("pool %d: %s" % (place + 1, error)) from None


def _add(wanted, pages, size):
    for node, count in pages.items():
        if (size, node) in wanted:
            raise BadPool("size %s on node %d is asked for twice" % (show_size(size), node))
        wanted[size, node] = count


def _pool_pages(pool, nodes):
    size = parse_size(pool["size"])
    chosen = _chosen_nodes(pool["node"], nodes)
    for node in chosen:
        _check_size(size, node, nodes[node]["sizes"])
    if pool.get("count") is not None:
        return _counted(pool["node"], _checked_count(pool["count"]), chosen)
    percent = _PERCENT.match(str(pool.get("memory") or "").strip())
    if percent:
        return _percentage(Decimal(percent.group(1)), size, chosen, nodes)
    if not pool.get("memory"):
        raise BadPool("neither count nor memory is given")
    return _counted(pool["node"], pages_for(parse_size(pool["memory"]), size), chosen)


def _chosen_nodes(node, nodes):
    if node in ("all", "each"):
        return sorted(nodes)
    if not re.match(r"^\d+$", str(node)):
        raise BadPool("node %r is neither a number nor 'all' nor 'each'" % node)
    if int(node) not in nodes:
        raise BadPool("there is no node %s; this host has %s" % (node, _listed(nodes)))
    return [int(node)]


def _listed(nodes):
    return ", ".join(str(node) for node in sorted(nodes))


def _check_size(size, node, sizes):
    if size not in sizes:
        allowed = ", ".join(show_size(one) for one in sorted(sizes)) or "none"
        raise BadPool(
            "this kernel has no hugepages of %s on node %d; allowed sizes: %s"
            % (show_size(size), node, allowed)
        )


def _checked_count(count):
    if isinstance(count, bool) or int(count) != count or count < 0:
        raise BadPool("count %r is no whole number of pages" % count)
    return int(count)


def _counted(node, pages, chosen):
    if node == "all":
        return spread(pages, chosen)
    return dict.fromkeys(chosen, pages)


def _percentage(percent, size, chosen, nodes):
    if percent > 100:
        raise BadPool("memory %s%% is more than there is" % percent)
    share = percent / Decimal(100)
    return {node: pages_for(_ceiling(nodes[node]["memory"] * share), size) for node in chosen}


def check_memory(rows, nodes, limit_percent):
    """Raise BadPool where the pages of a node take more than so much of its memory."""
    for node in sorted(nodes):
        asked = sum(row["pages"] * row["size"] for row in rows if row["node"] == node)
        memory = nodes[node]["memory"]
        if asked * 100 > memory * limit_percent:
            raise BadPool(
                "node %d has %d MiB of memory and %d MiB of hugepages are asked for; at most %d%%"
                " of a node may be taken (max_node_percent)"
                % (node, memory // 1024**2, asked // 1024**2, limit_percent)
            )


def totals(rows):
    """Return {size: pages} over all nodes."""
    found = {}
    for row in rows:
        found[row["size"]] = found.get(row["size"], 0) + row["pages"]
    return found


def short(rows, running):
    """Return the rows that the kernel does not hold as wanted, each with what it has.

    running: {(size, node): pages}.
    """
    found = []
    for row in rows:
        has = running.get((row["size"], row["node"]), 0)
        if has != row["pages"]:
            found.append(dict(row, running=has))
    return found


def tell(row):
    """Return the sentence on a row that the kernel does not hold as wanted."""
    where = "%s pages on node %d" % (show_size(row["size"]), row["node"])
    if row["running"] > row["pages"]:
        return "%s: %d are there and only %d wanted: the others are in use" % (
            where,
            row["running"],
            row["pages"],
        )
    return "%s: %d of %d: needs boot parameter or reboot" % (where, row["running"], row["pages"])


def tmpfiles(rows, paths, header):
    """Return the text of a tmpfiles.d file that gives every count again at boot.

    paths: {(size, node): file}. 'w!' lines are carried out at boot only, before any service runs.
    """
    lines = ["# %s" % line for line in header.splitlines()]
    for row in rows:
        lines.append("w! %s - - - - %d" % (paths[row["size"], row["node"]], row["pages"]))
    return "\n".join(lines) + "\n"


def parse_tmpfiles(text):
    """Return {path: pages} of the text of a tmpfiles.d file."""
    found = re.findall(r"^w!?\s+(\S+)\s.*\s(\d+)$", text, re.MULTILINE)
    return {path: int(pages) for path, pages in found}


def settle(rows, read, write, attempts, before_retry):
    """Ask the kernel for every row until it holds, at most so many times; return what it holds.

    The kernel gives what it can and reports no error, so that each write is read back. Rows that
    give pages back come first, since others may need their memory.
    """
    for row in sorted(rows, key=lambda row: row["pages"] - read(row)):
        for attempt in range(attempts):
            if read(row) == row["pages"]:
                break
            if attempt:
                before_retry(row)
            write(row)
    return {(row["size"], row["node"]): read(row) for row in rows}
