#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what a host is, from its own files."""

DOCUMENTATION = r"""
module: host_identity
short_description: Tell what a host is
version_added: 0.1.0
description:
  - Returns the operating system, kernel, page size, libraries and hardware layout of a host as
    one fact. Everything is read from files, no program is started.
  - The operating system gets one normalised key, since distributions put their service pack in
    different places and Ansible's own facts leave it out or know no package manager.
attributes:
  check_mode:
    support: full
    description: Reads only.
  diff_mode:
    support: none
    description: Changes nothing.
  idempotent:
    support: full
    description: Reads only.
  facts:
    support: full
    description: Returns the fact C(vllm_fleet_host).
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Learn what the host is
  vllm_fleet.baremetal.host_identity:

- name: Show its key
  ansible.builtin.debug:
    msg: "{{ ansible_facts['vllm_fleet_host'].os.key }}"
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to C(ansible_facts).
  returned: always
  type: dict
  contains:
    vllm_fleet_host:
      description: What the host is.
      returned: always
      type: dict
      contains:
        os:
          description:
            - The operating system, with C(id), C(version_id), C(version), C(service_pack),
              C(name), C(codename), C(edition), C(key) and C(family).
          returned: always
          type: dict
          sample:
            id: openEuler
            version_id: "22.03"
            version: 22.03 (LTS-SP1)
            service_pack: SP1
            name: openEuler
            codename: ''
            edition: lts
            key: openEuler-22.03-SP1
            family: rpm
        kernel:
          description: Release of the running kernel.
          returned: always
          type: str
          sample: 5.10.0-136.12.0.86.oe2203sp1.aarch64
        arch:
          description: Machine name of the running kernel.
          returned: always
          type: str
          sample: aarch64
        page_size:
          description: Size of a memory page in bytes.
          returned: always
          type: int
          sample: 65536
        glibc:
          description: Version of the C library; empty where it is not glibc.
          returned: always
          type: str
          sample: "2.34"
        systemd:
          description: Version of systemd as a number; null where there is none.
          returned: always
          type: int
          sample: 249
        cgroup:
          description: C(v1), C(v2) or C(hybrid); empty where none is mounted.
          returned: always
          type: str
          sample: v1
        package_manager:
          description: C(dnf), C(dnf5), C(yum) or C(apt), from what is on the host; empty if none.
          returned: always
          type: str
          sample: dnf
        python:
          description: The interpreter that runs modules, with C(executable) and C(version).
          returned: always
          type: dict
          sample: {executable: /usr/bin/python3, version: 3.9.9}
        numa_nodes:
          description: NUMA nodes with C(id), C(cpus) as a list of ranges, and C(mem_kb).
          returned: always
          type: list
          elements: dict
          sample: [{id: 0, cpus: 0-31, mem_kb: 131072000}]
        hugepage_sizes:
          description: Hugepage sizes of the running kernel in bytes.
          returned: always
          type: list
          elements: int
          sample: [2097152, 536870912]
        memory_kb:
          description: Memory of the host in kB.
          returned: always
          type: int
          sample: 527894212
        cpus:
          description: Number of online CPUs.
          returned: always
          type: int
          sample: 128
        is_container:
          description: Whether the host shares its kernel with a machine below it.
          returned: always
          type: bool
          sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import hostread, identity


def main():
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    facts = {"vllm_fleet_host": identity.collect(hostread.Host())}
    module.exit_json(changed=False, ansible_facts=facts)


if __name__ == "__main__":
    main()
