"""vllm-fleet: the command around the Ansible collection ``vllm_fleet.baremetal``."""

from importlib.metadata import version

__version__ = version("vllm-fleet")
