"""Global options before and after the verb."""

from __future__ import annotations

import pytest

from vllm_fleet.cli.argv import GLOBAL_OPTIONS, normalise
from vllm_fleet.cli.options import global_parameters


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("apply -i inv", "apply -i inv"),
        ("-i inv apply", "apply -i inv"),
        ("-iinv apply", "apply -iinv"),
        ("--inventory=inv apply", "apply --inventory=inv"),
        ("-i a -i b --json -v apply --check", "apply -i a -i b --json -v --check"),
        ("-vvv status", "status -vvv"),
        ("--limit apply apply", "apply --limit apply"),
        ("-e @f --forks 5 -u root apply --diff", "apply -e @f --forks 5 -u root --diff"),
        ("--json lab up npu-01", "lab up --json npu-01"),
        ("--json lab", "lab --json"),
        ("--version", "--version"),
        ("-i inv --help", "--help"),
        ("--json --version", "--version"),
        ("-i inv", ""),
        ("-i", ""),
        ("--bogus apply", "--bogus apply"),
        ("", ""),
    ],
)
def test_global_options_move_behind_the_verb(given: str, wanted: str) -> None:
    assert normalise(given.split()) == wanted.split()


def test_every_declared_option_is_known_to_the_normaliser() -> None:
    declared = set()
    for parameter in global_parameters():
        option = parameter.annotation.__metadata__[0]
        declared |= {option.default, *(option.param_decls or ())}
    assert declared <= set(GLOBAL_OPTIONS)
    assert set(GLOBAL_OPTIONS) - declared == {"-vv", "-vvv"}
