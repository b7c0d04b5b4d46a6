"""Quoting for systemd, and the table of what which version knows."""

from __future__ import annotations

import pytest
from ansible_collections.vllm_fleet.baremetal.plugins.module_utils import systemd_text


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("--port=8000", "--port=8000"),
        ("two words", '"two words"'),
        ("", '""'),
        ('{"a":"b c"}', '"{\\"a\\":\\"b c\\"}"'),
        ("100%", '"100%%"'),
        ("$HOME and ${X}", '"$$HOME and $${X}"'),
        ("back\\slash", '"back\\\\slash"'),
        ("a\nb\tc", '"a\\x0ab\\x09c"'),
        (";", '";"'),
        ("it's", '"it\'s"'),
        ("模型", '"模型"'),
    ],
)
def test_words_of_an_exec_line(word: str, written: str) -> None:
    assert systemd_text.quote_argument(word) == written


def test_placeholder_becomes_the_variable_and_the_rest_stays_quoted() -> None:
    line = systemd_text.exec_line(["{release}/bin/python", "5%{release}"], {"{release}": "R"})
    assert line == '"${R}/bin/python" "5%%${R}"'


AWKWARD = {
    "JSON": '{"a": "b c", "d": [1, 2]}',
    "DOLLAR": "$HOME ${X} `id`",
    "BACKSLASH": "a\\b\\\\c",
    "QUOTES": 'it\'s "so"',
    "EMPTY": "",
    "HASH": "# no comment; nor this",
    "SPACES": "  kept  ",
    "UNICODE": "模型",
}


def test_environment_file_round_trip() -> None:
    text = systemd_text.environment_file(AWKWARD)
    assert systemd_text.parse_environment_file(text) == AWKWARD
    assert [line.split("=")[0] for line in text.splitlines()] == sorted(AWKWARD)


def test_environment_file_of_another_hand_is_read() -> None:
    text = "# comment\nVLLM_API_KEY=plain\n\nnonsense\n"
    assert systemd_text.parse_environment_file(text) == {"VLLM_API_KEY": "plain"}


@pytest.mark.parametrize(("name", "value"), [("A-B", "x"), ("1A", "x"), ("A", "x\ny"), ("", "")])
def test_variables_that_no_environment_file_can_hold(name: str, value: str) -> None:
    assert systemd_text.environment_problem(name, value)


def test_a_value_is_not_shown_when_it_is_refused() -> None:
    assert "geheim" not in str(systemd_text.environment_problem("A", "geheim\n"))


WANTED = {
    "NoNewPrivileges": True,
    "ProtectKernelLogs": True,
    "ProtectProc": "invisible",
    "NUMAPolicy": "bind",
    "AllowedCPUs": "0-3",
    "ProtectClock": None,
}


@pytest.mark.parametrize(
    ("version", "cgroup", "kept"),
    [
        (239, "v1", ["NoNewPrivileges=yes"]),
        (243, "v1", ["NoNewPrivileges=yes", "NUMAPolicy=bind"]),
        (
            249,
            "v1",
            [
                "NoNewPrivileges=yes",
                "ProtectKernelLogs=yes",
                "ProtectProc=invisible",
                "NUMAPolicy=bind",
            ],
        ),
        (
            255,
            "v2",
            [
                "NoNewPrivileges=yes",
                "ProtectKernelLogs=yes",
                "ProtectProc=invisible",
                "NUMAPolicy=bind",
                "AllowedCPUs=0-3",
            ],
        ),
    ],
)
def test_only_what_this_systemd_knows_is_kept(version: int, cgroup: str, kept: list[str]) -> None:
    assert systemd_text.directive_lines(WANTED, version, cgroup) == kept


def test_a_misspelt_directive_is_named() -> None:
    assert "ProtectSytem" in systemd_text.directive_problems({"ProtectSytem": "strict"})[0]
    assert systemd_text.directive_problems(WANTED) == []
