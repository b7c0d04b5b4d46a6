#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep hugepages on NUMA nodes, now and after a reboot, and read them back."""

DOCUMENTATION = r"""
module: hugepages
short_description: Keep hugepages on NUMA nodes
version_added: 0.1.0
description:
  - Asks the kernel for hugepages per NUMA node and size, and reads back what it gave. A kernel
    gives what it can find and reports no error, so that fewer pages than asked are a failure here.
  - Persists the same counts in a C(tmpfiles.d) file, which is carried out at each boot before any
    service runs.
  - A size that a pool names is declared as a whole. Nodes that no pool names get no pages of it.
    Sizes that no pool names are left alone.
  - Never reboots.
options:
  pools:
    description: The pools. An empty list removes the file and leaves the running pages.
    type: list
    elements: dict
    required: true
    suboptions:
      size:
        description: Size of a page, such as V(2M), V(1G) or V(536870912). The kernel must have it.
        type: str
        required: true
      count:
        description: Number of pages. Either this or O(pools[].memory).
        type: int
      memory:
        description:
          - Memory to keep, such as V(64G), rounded up to whole pages, or a share of each
            node's memory, such as V(50%).
        type: str
      node:
        description:
          - Number of a NUMA node, V(all) to spread the pages evenly over all nodes, or V(each)
            to keep so many on every node.
        type: str
        default: all
  path:
    description: The C(tmpfiles.d) file.
    type: path
    default: /etc/tmpfiles.d/vllm-fleet-hugepages.conf
  header:
    description: First lines of the file, as a comment.
    type: str
    default: Written by vllm-fleet
  attempts:
    description: How often the kernel is asked for the pages of one node and size.
    type: int
    default: 3
  compact:
    description: Have the kernel move memory together before it is asked again.
    type: bool
    default: false
  drop_caches:
    description: Have the kernel give up clean file caches before it is asked again.
    type: bool
    default: false
  max_node_percent:
    description: Largest share of a node's memory that the pools may take together.
    type: int
    default: 90
  boot_fallback:
    description:
      - Where the kernel gives too few pages, set them on its command line for the next boot
        and report RV(reboot_required), in place of a failure.
    type: bool
    default: false
attributes:
  check_mode:
    support: partial
    description: Predicts the file and the pages that are asked for.
    details:
      - Whether the kernel gives the pages, and so whether the boot loader is changed, only the run
        knows. Check mode starts no boot loader tool.
  diff_mode:
    support: full
    description: Shows the file and the running pages as two parts.
  idempotent:
    support: full
    description: The file, the pages and the boot configuration are compared with what is wanted.
  safe_file_operations:
    support: full
    description: Files are replaced in one step.
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Keep 64 GiB in pages of 2 MiB, spread over all nodes
  vllm_fleet.baremetal.hugepages:
    pools:
      - size: 2M
        memory: 64G

- name: Keep 8 pages of 1 GiB on node 1, at the next boot if need be
  vllm_fleet.baremetal.hugepages:
    pools:
      - size: 1G
        count: 8
        node: 1
    boot_fallback: true
"""

RETURN = r"""
path:
  description: The C(tmpfiles.d) file.
  returned: always
  type: str
  sample: /etc/tmpfiles.d/vllm-fleet-hugepages.conf
pools:
  description: Each node and size that the pools come to.
  returned: when the pools are possible on this host
  type: list
  elements: dict
  contains:
    size:
      description: Size of a page in bytes.
      returned: always
      type: int
      sample: 2097152
    node:
      description: Number of the NUMA node.
      returned: always
      type: int
      sample: 0
    pages:
      description: Number of pages wanted.
      returned: always
      type: int
      sample: 512
    running_before:
      description: Number of pages that the kernel kept at the start.
      returned: always
      type: int
      sample: 0
    running:
      description: Number of pages that the kernel keeps at the end.
      returned: always
      type: int
      sample: 301
    persisted:
      description: Number of pages that the file named at the start; null where it named none.
      returned: always
      type: int
      sample: 512
reboot_required:
  description: Whether the wanted pages wait for a reboot.
  returned: always
  type: bool
  sample: false
boot_arguments:
  description: What the kernel's command line has to hold, where the boot loader was asked.
  returned: when the kernel gave too few pages
  type: str
  sample: hugepagesz=2M hugepages=1024
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import (
    boot_args,
    boot_loader,
    hostread,
    hugepage_plan,
    hugepage_sysfs,
    osinfo,
    pending_reboot,
)

PENDING = "hugepages"


def check(host, sysfs, params):
    """Return what is and what is wanted; raise BadPool where it cannot be. Changes nothing."""
    nodes = sysfs.nodes()
    rows = hugepage_plan.plan(params["pools"], nodes)
    hugepage_plan.check_memory(rows, nodes, params["max_node_percent"])
    paths = {(row["size"], row["node"]): sysfs.path(row) for row in rows}
    running = {(row["size"], row["node"]): sysfs.read(row) for row in rows}
    short = hugepage_plan.short(rows, running)
    for row in short:
        if not sysfs.settable(row):
            raise hugepage_plan.BadPool(
                "%s is not settable here (a container shares its kernel: set it on the machine"
                " below)" % sysfs.path(row)
            )
    before = host.read(params["path"])
    text = hugepage_plan.tmpfiles(rows, paths, params["header"]) if rows else None
    persisted = hugepage_plan.parse_tmpfiles(before or "")
    return {
        "rows": rows,
        "running": running,
        "short": short,
        "before": before,
        "text": text,
        "persisted": {key: persisted.get(path) for key, path in paths.items()},
    }


def diff(found, running, path):
    """Return the file and the running pages, before and after."""
    return [
        {
            "before_header": path,
            "after_header": path,
            "before": found["before"] or "",
            "after": found["text"] or "",
        },
        {
            "before_header": "running kernel",
            "after_header": "running kernel",
            "before": shown(found["rows"], found["running"]),
            "after": shown(found["rows"], running),
        },
    ]


def shown(rows, running):
    """Return one line per row with its running pages."""
    words = "node %d, %s: %d\n"
    return "".join(
        words
        % (row["node"], hugepage_plan.show_size(row["size"]), running[row["size"], row["node"]])
        for row in rows
    )


def write_file(module, path, text):
    """Replace or remove the file that persists the pages."""
    if text is None:
        os.unlink(path)
        return
    if not os.path.isdir(os.path.dirname(path)):
        os.makedirs(os.path.dirname(path), 0o755)
    draft = os.path.join(module.tmpdir, "hugepages")
    with open(draft, "wb") as stream:
        stream.write(text.encode("utf-8"))
    os.chmod(draft, 0o644)
    module.atomic_move(draft, path)


def apply(module, sysfs, found):
    """Write the file and ask the kernel for the pages; return what it holds then."""
    params = module.params

    def before_retry(row):
        if params["drop_caches"]:
            sysfs.drop_caches()
        if params["compact"]:
            sysfs.compact(row)

    if found["before"] != found["text"]:
        write_file(module, params["path"], found["text"])
    return hugepage_plan.settle(
        found["rows"], sysfs.read, sysfs.write, params["attempts"], before_retry
    )


def boot_wishes(host, found):
    """Return ({size: pages} for the kernel's command line, the default size, their words)."""
    totals = {size: pages for size, pages in hugepage_plan.totals(found["rows"]).items() if pages}
    meminfo = osinfo.parse_meminfo(host.read("/proc/meminfo") or "")
    default_size = meminfo.get("Hugepagesize", 0) * 1024
    return totals, default_size, " ".join(boot_args.arguments(totals))


def reason_of(words):
    """Return why a reboot is pending."""
    return "hugepages: %s" % words


def to_next_boot(module, host, found):
    """Put the pages on the kernel's command line; return (changed, the words).

    Raises BootLoaderError, also where the running kernel was booted so and still has too few.
    """
    totals, default_size, words = boot_wishes(host, found)
    if boot_args.holds((host.read("/proc/cmdline") or "").split(), totals, default_size):
        raise boot_loader.BootLoaderError(
            "this kernel was booted with '%s' and still has too few: the memory is not there"
            % words
        )
    return boot_loader.ensure(module, host, totals, default_size), words


def result_of(found, running, params):
    """Return the result that every way out shares."""
    rows = []
    for row in found["rows"]:
        key = row["size"], row["node"]
        rows.append(
            dict(
                row,
                running_before=found["running"][key],
                running=running[key],
                persisted=found["persisted"][key],
            )
        )
    return {"path": params["path"], "pools": rows, "reboot_required": False}


def predict(module, host, found):
    """Leave with what a run would ask for; pages that wait for a reboot are no change."""
    wanted = {(row["size"], row["node"]): row["pages"] for row in found["rows"]}
    words = boot_wishes(host, found)[2]
    waits = module.params["boot_fallback"] and bool(found["short"])
    waits = waits and pending_reboot.waits(host, PENDING, reason_of(words))
    result = result_of(found, found["running"], module.params)
    result["reboot_required"] = waits
    result["changed"] = found["before"] != found["text"] or (bool(found["short"]) and not waits)
    if result["changed"] and module._diff:
        result["diff"] = diff(found, wanted, module.params["path"])
    module.exit_json(**result)


def run(module, host, sysfs, found):
    """Carry out and leave with what the kernel holds."""
    running = apply(module, sysfs, found)
    still = hugepage_plan.short(found["rows"], running)
    result = result_of(found, running, module.params)
    result["changed"] = found["before"] != found["text"] or running != found["running"]
    if result["changed"] and module._diff:
        result["diff"] = diff(found, running, module.params["path"])
    told = "; ".join([hugepage_plan.tell(row) for row in still] + told_errors(sysfs))
    lacking = any(row["running"] < row["pages"] for row in still)
    if still and not (module.params["boot_fallback"] and lacking):
        module.fail_json(msg=told, **result)
    reason = ""
    if still:
        try:
            changed, result["boot_arguments"] = to_next_boot(module, host, found)
        except boot_loader.BootLoaderError as error:
            module.fail_json(msg="%s; %s" % (told, error), **result)
        result["changed"] = result["changed"] or changed
        result["reboot_required"] = True
        reason = reason_of(result["boot_arguments"])
        module.warn("%s. A reboot is required: %s" % (told, result["boot_arguments"]))
    settled = pending_reboot.settle(module, host, PENDING, reason)
    module.exit_json(**dict(result, changed=result["changed"] or settled))


def told_errors(sysfs):
    """Return the errors that writes met, one sentence each."""
    return ["%s: %s" % (path, sysfs.errors[path]) for path in sorted(sysfs.errors)]


def arguments():
    """Return the argument specification."""
    pool = {
        "size": {"type": "str", "required": True},
        "count": {"type": "int"},
        "memory": {"type": "str"},
        "node": {"type": "str", "default": "all"},
    }
    return {
        "pools": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": pool,
            "mutually_exclusive": [("count", "memory")],
            "required_one_of": [("count", "memory")],
        },
        "path": {"type": "path", "default": "/etc/tmpfiles.d/vllm-fleet-hugepages.conf"},
        "header": {"type": "str", "default": "Written by vllm-fleet"},
        "attempts": {"type": "int", "default": 3},
        "compact": {"type": "bool", "default": False},
        "drop_caches": {"type": "bool", "default": False},
        "max_node_percent": {"type": "int", "default": 90},
        "boot_fallback": {"type": "bool", "default": False},
    }


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec=arguments(), supports_check_mode=True)
    if not 1 <= module.params["attempts"] <= 100:
        module.fail_json(msg="attempts: allowed are 1 to 100")
    host = hostread.Host()
    sysfs = hugepage_sysfs.Sysfs(host)
    try:
        found = check(host, sysfs, module.params)
    except hugepage_plan.BadPool as error:
        module.fail_json(msg="pools: %s" % error)
    if module.check_mode:
        predict(module, host, found)
    run(module, host, sysfs, found)


if __name__ == "__main__":
    main()
