#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell what hardware a host has for serving models, and what state it is in."""

DOCUMENTATION = r"""
module: accelerators
short_description: Tell what hardware a host has for serving models
version_added: 0.1.0
description:
  - Returns accelerators, what C(npu-smi) and C(nvidia-smi) say of them, the versions of kernel
    modules and libraries, network links, NUMA nodes, memory, disks, compiler and kernel headers as
    one fact.
  - What is in the machine is read from the PCI bus by vendor and class, whatever a tool says. A
    tool is absent, present but broken, or good. Each is started by its absolute path, in a known
    environment, and under a time limit.
options:
  budget:
    description: Seconds that all tools together may take.
    type: int
    default: 90
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
    description: Returns the fact C(vllm_fleet_hardware).
author:
  - The vllm-fleet developers (@vllm-fleet)
"""

EXAMPLES = r"""
- name: Learn what hardware the host has
  vllm_fleet.baremetal.accelerators:

- name: Show its NPUs
  ansible.builtin.debug:
    msg: "{{ ansible_facts['vllm_fleet_hardware'].pci | selectattr('kind', 'equalto', 'npu') }}"
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to C(ansible_facts).
  returned: always
  type: dict
  contains:
    vllm_fleet_hardware:
      description: The hardware and its state.
      returned: always
      type: dict
      contains:
        pci:
          description:
            - Accelerators, NVSwitches and network cards, with C(address), C(kind) (V(npu), V(gpu),
              V(nvswitch), V(network)), C(pci), C(class), C(subsystem), C(numa_node) (null where the
              firmware does not say), C(cpus), C(driver) and C(link).
          returned: always
          type: list
          elements: dict
          sample: [{address: "0000:c1:00.0", kind: npu, pci: "19e5:d802", numa_node: 3}]
        npu_smi:
          description:
            - What C(npu-smi) says, with C(state) (V(absent), V(broken), V(good)), C(path), C(rc),
              C(version), C(devices) (one for each chip), C(processes), C(health) (error codes of
              chips that are not well), C(board), C(failure) and C(needs_environment), which is true
              where it only works with variables that a login shell sets.
          returned: always
          type: dict
          sample: {state: good, path: /usr/local/sbin/npu-smi, version: 25.5.0}
        nvidia_smi:
          description:
            - What C(nvidia-smi) says, with C(state), C(path), C(rc), C(driver), C(cuda), C(gpus),
              C(topology) and C(failure).
          returned: always
          type: dict
          sample: {state: good, path: /usr/bin/nvidia-smi, driver: 580.159.04, cuda: "13.0"}
        ascend:
          description:
            - What the vendor's records say of C(driver), C(firmware), C(cann) (by generation of its
              directories) and C(nnal); C(module_loaded), the device C(nodes), the C(network) of the
              NPUs, and C(directories) that stand where a file belongs.
          returned: always
          type: dict
          sample: {driver: {state: installed, version: 25.5.0}, module_loaded: true}
        nvidia:
          description:
            - Versions of the module that is C(loaded), the one C(on_disk), the libraries
              (C(user_space)) and the C(fabric_manager); whether the module is C(open), and whether
              nouveau is loaded (C(nouveau_loaded)).
          returned: always
          type: dict
          sample: {loaded: 580.159.04, user_space: 580.159.04, open: true}
        rdma:
          description: Ports of RDMA devices with their state, layer, rate and NUMA node.
          returned: always
          type: list
          elements: dict
          sample: [{device: mlx5_0, port: 1, state: ACTIVE, layer: Ethernet}]
        interfaces:
          description: Network cards with state, speed in Mbit/s, MTU and NUMA node.
          returned: always
          type: list
          elements: dict
          sample: [{name: eth0, state: up, speed: 25000, mtu: 1500, numa_node: 0}]
        numa_nodes:
          description: NUMA nodes with C(id), C(cpus) as a list of ranges, and C(mem_kb).
          returned: always
          type: list
          elements: dict
          sample: [{id: 0, cpus: 0-31, mem_kb: 131072000}]
        memory_kb:
          description: Memory in kB, with C(total), C(available) and C(swap).
          returned: always
          type: dict
          sample: {total: 527894212, available: 510000000, swap: 0}
        disks:
          description: Disks with name, model, size in bytes, and whether they turn.
          returned: always
          type: list
          elements: dict
          sample: [{name: nvme0n1, model: '', bytes: 3840755982336, rotational: false}]
        file_systems:
          description:
            - The file systems that matter here, with C(path), C(mount), C(device), C(type),
              C(read_only), C(size) and C(free) in bytes (null over a network), and
              C(files_free_percent).
          returned: always
          type: list
          elements: dict
          sample: [{path: /, mount: /, read_only: false, free: 80000000000}]
        gcc:
          description: Version of gcc; empty where there is none.
          returned: always
          type: str
          sample: 10.3.1
        kernel_compiler:
          description: Version of the gcc that built the kernel; empty where another compiler did.
          returned: always
          type: str
          sample: 10.3.1
        kernel_headers:
          description:
            - The C(running) kernel, whether headers C(matching) it are there, the C(others) that
              are, and whether its C(modules) are there.
          returned: always
          type: dict
          sample: {running: 5.10.0-136, matching: false, others: [5.10.0-153], modules: true}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import hardware, hostread, tools


def main():
    """Run the module."""
    spec = {"budget": {"type": "int", "default": 90}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    runner = tools.Tools(module.params["budget"])
    facts = {"vllm_fleet_hardware": hardware.collect(hostread.Host(), runner)}
    module.exit_json(changed=False, ansible_facts=facts)


if __name__ == "__main__":
    main()
