"""`python -m vllm_fleet.lab` is `vllm-fleet lab`."""

from __future__ import annotations

import sys

from vllm_fleet.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["lab", *sys.argv[1:]]))
