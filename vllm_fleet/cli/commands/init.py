"""``init``: write a starter inventory."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from vllm_fleet.cli.options import GlobalOptions
from vllm_fleet.cli.output import document, out
from vllm_fleet.errors import ConfigError, ExitCode


def init(
    options: GlobalOptions,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write into.")],
    example: Annotated[
        str, typer.Option("--example", metavar="NAME", help="Which example to start from.")
    ] = "mixed",
) -> ExitCode:
    """Write a commented starter inventory."""
    source = _example(example)
    names = sorted(path.name for path in source.iterdir())
    there = [name for name in names if (directory / name).exists()]
    if there:
        raise ConfigError(f"{directory} already has {', '.join(there)}: nothing was written")
    for name in names:
        _copy(source / name, directory / name)
    files = [str(path) for path in sorted(directory.rglob("*")) if path.is_file()]
    if options.json:
        document("init", directory=str(directory), example=example, files=files)
    else:
        out("\n".join(f"wrote {name}" for name in files))
        out(f"Edit them, then: vllm-fleet validate -i {directory}")
    return ExitCode.OK


def _example(name: str) -> Path:
    """Return the folder of an example in the collection."""
    from vllm_fleet import collection
    from vllm_fleet.inventory.load import collection_search_paths

    found = collection.find(collection_search_paths())
    collection.require_same_version(found)
    folder = found.root / "inventories"
    folders = (path for path in folder.glob("*") if path.is_dir())
    known = sorted(path.name for path in folders if not path.name.startswith("lab"))
    if name not in known:
        raise ConfigError(f"there is no example {name}; there are: {', '.join(known) or 'none'}")
    return folder / name


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
