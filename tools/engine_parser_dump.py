#!/usr/bin/env python3
"""Print the argument parser of the vLLM that is installed, as JSON (imports vLLM).

Run it with the engine's own Python; ``tools/engine_flags.py --compare-parser`` holds the catalog's
reading of the source against it:

    /opt/vllm/current/bin/python tools/engine_parser_dump.py > parser.json
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def parser_module() -> str:
    """Return the module that makes the server's parser; it moved from release to release."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        raise SystemExit("vllm is not installed for this Python")
    root = Path(spec.origin).parent
    for path in sorted((root / "entrypoints").rglob("cli_args.py")):
        text = path.read_text(encoding="utf-8")
        if "def make_arg_parser" in text and "class FrontendArgs" in text:
            return ".".join(("vllm", *path.relative_to(root).with_suffix("").parts))
    raise SystemExit(f"no parser found in {root}")


def action_row(action: argparse.Action) -> dict[str, Any]:
    """Return what a flag of the parser takes."""
    return {
        "names": list(action.option_strings),
        "action": type(action).__name__,
        "nargs": action.nargs,
        "choices": None if action.choices is None else list(action.choices),
    }


def main() -> int:
    """Print the parser."""
    module = importlib.import_module(parser_module())
    parser = module.make_arg_parser(module.FlexibleArgumentParser())
    rows = [action_row(action) for action in parser._actions if action.option_strings]
    json.dump([row for row in rows if "--help" not in row["names"]], sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
