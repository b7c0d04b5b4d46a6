"""``python -m vllm_fleet`` is the command itself."""

from __future__ import annotations

import sys

from vllm_fleet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
