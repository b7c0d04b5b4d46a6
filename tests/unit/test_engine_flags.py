"""The engine's flags: the reader of vLLM's source, and the catalog file that it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engine_flags
import pytest

ARG_UTILS = """
from typing import TYPE_CHECKING, Literal, get_args
import argparse, json
from vllm.config import CacheConfig, SchedulerConfig, ModelConfig

def get_kwargs(cls): ...

class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        model_kwargs = get_kwargs(ModelConfig)
        group = parser.add_argument_group(title="ModelConfig")
        if not ("serve" in sys.argv[1:]):
            group.add_argument("--model", **model_kwargs["model"])
        group.add_argument("--quantization", "-q", **model_kwargs["quantization"])
        group.add_argument("--runner", **model_kwargs["runner"])
        cache_kwargs = get_kwargs(CacheConfig)
        group.add_argument("--gpu-memory-utilization", **cache_kwargs["fraction"])
        group.add_argument(
            "--enable-prefix-caching", **{**cache_kwargs["prefix"], "default": None})
        scheduler_kwargs = get_kwargs(SchedulerConfig)
        group.add_argument("--max-num-seqs", **scheduler_kwargs["max_num_seqs"])
        scheduler_kwargs["policy"]["choices"].append("lottery")
        group.add_argument("--policy", **scheduler_kwargs["policy"])
        for arg, type in [("--old-one", str), ("--old-two", bool)]:
            group.add_argument(arg, type=type, deprecated=True, help=f"{arg} goes away")
        group.add_argument("--extra", type=json.loads, default=None)
        return parser

class AsyncEngineArgs(EngineArgs):
    enable_log_requests: bool = False

    @staticmethod
    def add_cli_args(parser, async_args_only=False):
        if not async_args_only:
            parser = EngineArgs.add_cli_args(parser)
        parser.add_argument("--enable-log-requests", action=argparse.BooleanOptionalAction,
                            default=AsyncEngineArgs.enable_log_requests)
        return parser
"""
CONFIG = """
from typing import ClassVar, Literal, get_args
from pydantic import Field
from vllm.names import Method, RunnerOption
from .utils import config

@config
class ModelConfig:
    model: str = "tiny"
    quantization: Method | str | None = None
    runner: RunnerOption = "auto"

@config
class CacheConfig:
    fraction: float = Field(default=0.9, gt=0, le=1)
    prefix: bool = True

@config
class SchedulerConfig:
    DEFAULT_MAX_NUM_SEQS: ClassVar[int] = 128
    max_num_seqs: int = Field(default=DEFAULT_MAX_NUM_SEQS, ge=1)
    policy: Literal["fcfs", "priority"] = "fcfs"
"""
NAMES = """
from typing import Literal
Method = Literal["awq", "fp8"]
RunnerType = Literal["generate", "pooling"]
RunnerOption = Literal["auto", RunnerType]
"""
CLI_ARGS = """
import argparse
from vllm import envs
from vllm.engine.arg_utils import AsyncEngineArgs

@config
class BaseFrontendArgs:
    api_key: list[str] | None = None
    port: int = 8000
    quiet: bool = envs.VLLM_QUIET

    @classmethod
    def _customize_cli_kwargs(cls, frontend_kwargs):
        frontend_kwargs["port"]["default"] = 9000
        return frontend_kwargs

    @classmethod
    def add_cli_args(cls, parser):
        frontend_kwargs = get_kwargs(cls)
        frontend_kwargs = cls._customize_cli_kwargs(frontend_kwargs)
        group = parser.add_argument_group(title="Frontend")
        for key, value in frontend_kwargs.items():
            extra = value.pop("flags", [])
            group.add_argument(*extra, f"--{key.replace('_', '-')}", **value)
        return parser

@config
class FrontendArgs(BaseFrontendArgs):
    allowed_origins: list[str] = field(default_factory=lambda: ["*"])

    @classmethod
    def _customize_cli_kwargs(cls, frontend_kwargs):
        frontend_kwargs = super()._customize_cli_kwargs(frontend_kwargs)
        frontend_kwargs["allowed_origins"]["type"] = json.loads
        del frontend_kwargs["allowed_origins"]["nargs"]
        return frontend_kwargs

def make_arg_parser(parser):
    parser.add_argument("model_tag", type=str, nargs="?")
    parser.add_argument("--headless", action="store_true", default=False)
    parser = FrontendArgs.add_cli_args(parser)
    parser = AsyncEngineArgs.add_cli_args(parser)
    return parser
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a source tree with every form that vLLM's parser is built with."""
    files = {
        "engine/arg_utils.py": ARG_UTILS,
        "config/__init__.py": CONFIG,
        "names.py": NAMES,
        "entrypoints/openai/cli_args.py": CLI_ARGS,
    }
    for name, text in files.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_every_form_of_an_argument_is_read(source: Path) -> None:
    version, flags = engine_flags.read(f"9.9.9={source}")
    assert version == "9.9.9"
    assert flags == {
        "--headless": {"type": "flag", "default": False},
        "--api-key": {"type": "str", "nargs": "+", "default": None},
        "--port": {"type": "int", "default": 9000},
        "--quiet": {"type": "bool", "negation": True, "default_from": "envs.VLLM_QUIET"},
        "--allowed-origins": {"type": "json", "default": ["*"]},
        "--model": {"type": "str", "default": "tiny"},
        "--quantization": {
            "aliases": ["-q"],
            "type": "str",
            "known": ["awq", "fp8"],
            "default": None,
        },
        "--runner": {
            "type": "str",
            "choices": ["auto", "generate", "pooling"],
            "default": "auto",
        },
        "--gpu-memory-utilization": {"type": "float", "default": 0.9, "range": {"gt": 0, "le": 1}},
        "--enable-prefix-caching": {"type": "bool", "negation": True, "default": None},
        "--max-num-seqs": {"type": "int", "default": 128, "range": {"ge": 1}},
        "--policy": {
            "type": "str",
            "choices": ["fcfs", "priority", "lottery"],
            "default": "fcfs",
        },
        "--old-one": {"type": "str", "default": None, "deprecated": True},
        "--old-two": {"type": "bool", "default": None, "deprecated": True},
        "--extra": {"type": "json", "default": None},
        "--enable-log-requests": {"type": "bool", "negation": True, "default": False},
    }


def test_history_merges_and_splits_again() -> None:
    one = {"type": "int", "default": 1}
    two = {"type": "int", "default": 2}
    per_version: dict[str, dict[str, Any]] = {
        "0.9.0": {"--a": one, "--gone": one},
        "0.10.0": {"--a": one},
        "0.11.0": {"--a": two, "--gone": one},
    }
    history = engine_flags.merge(per_version)
    assert [(r["first"], r["last"]) for r in history["--a"]] == [
        ("0.9.0", "0.10.0"),
        ("0.11.0", "0.11.0"),
    ]
    assert [(r["first"], r["last"]) for r in history["--gone"]] == [
        ("0.9.0", "0.9.0"),
        ("0.11.0", "0.11.0"),
    ]
    assert engine_flags.split(history, list(per_version)) == per_version


def test_writing_the_file_again_changes_nothing(tmp_path: Path) -> None:
    again = tmp_path / "vllm.yml"
    engine_flags.write(engine_flags.load(engine_flags.OUTPUT), again)
    assert again.read_text() == engine_flags.OUTPUT.read_text()


def test_help_is_compared_by_name(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = {"--max-num-seqs": {"type": "int"}, "--eager": {"type": "bool", "negation": True}}
    text = "options:\n  --max-num-seqs N\n  --eager, --no-eager\n  --new N  like --other\n"
    assert engine_flags.compare_help(flags, text) == 2
    printed = capsys.readouterr().out
    assert "only in the real parser: --new" in printed


def test_a_real_parser_is_compared_flag_by_flag() -> None:
    flags = {
        "--max-num-seqs": {"type": "int"},
        "--eager": {"type": "bool", "negation": True, "aliases": ["-e"]},
        "--kind": {"type": "str", "choices": ["a"]},
        "--gone": {"type": "str"},
    }
    real = [
        {"names": ["--max-num-seqs"], "action": "_StoreAction", "nargs": "+", "choices": None},
        {
            "names": ["-e", "--eager", "--no-eager"],
            "action": "BooleanOptionalAction",
            "nargs": 0,
            "choices": None,
        },
        {"names": ["--kind"], "action": "_StoreAction", "nargs": None, "choices": ["a", "b", None]},
        {"names": ["--new"], "action": "_StoreAction", "nargs": None, "choices": None},
    ]
    assert engine_flags.parser_differences(flags, real) == [
        "only in the real parser: --new",
        "only read here: --gone",
        "--kind: choices read as ['a'], really ['a', 'b']",
        "--max-num-seqs: values read as None, really +",
    ]


@pytest.fixture(scope="module")
def catalog() -> dict[str, dict[str, Any]]:
    return engine_flags.load(engine_flags.OUTPUT)


@pytest.mark.parametrize(
    "version", ["0.11.0", "0.13.0", "0.18.0", "0.20.0", "0.23.0", "0.27.0", "0.33.0"]
)
def test_the_catalog_has_these_releases(catalog: dict[str, dict[str, Any]], version: str) -> None:
    assert len(catalog[version]) > 150
    assert "--max-num-seqs" in catalog[version]


# Read by hand in the sources: (version, flag, there, default).
FACTS = [
    ("0.18.0", "--gpu-memory-utilization", True, 0.9),
    ("0.23.0", "--gpu-memory-utilization", True, 0.92),
    ("0.33.0", "--gpu-memory-utilization", True, 0.92),
    ("0.18.0", "--swap-space", False, None),
    ("0.33.0", "--swap-space", False, None),
    ("0.23.0", "--calculate-kv-scales", True, False),
    ("0.33.0", "--calculate-kv-scales", False, None),
    ("0.18.0", "--disable-log-requests", False, None),
    ("0.18.0", "--enable-log-requests", True, False),
    ("0.18.0", "--numa-bind", False, None),
    ("0.23.0", "--numa-bind", True, False),
    ("0.23.0", "--max-num-active-seqs", False, None),
    ("0.33.0", "--max-num-active-seqs", True, None),
    ("0.23.0", "--max-num-partial-prefills", True, 1),
    ("0.33.0", "--max-num-partial-prefills", False, None),
    ("0.33.0", "--disable-log-stats", True, False),
    ("0.18.0", "--ssl-cert-reqs", True, 0),
    ("0.33.0", "--port", True, 8000),
]


@pytest.mark.parametrize(("version", "flag", "there", "default"), FACTS)
def test_facts_read_by_hand(
    catalog: dict[str, dict[str, Any]], version: str, flag: str, there: bool, default: Any
) -> None:
    assert (flag in catalog[version]) is there
    if there:
        assert catalog[version][flag]["default"] == default


def test_kv_cache_dtypes_differ_by_release(catalog: dict[str, dict[str, Any]]) -> None:
    old = catalog["0.18.0"]["--kv-cache-dtype"]["choices"]
    assert {"auto", "fp8", "fp8_ds_mla"} <= set(old)
    assert "nvfp4" not in old
    assert "nvfp4" in catalog["0.23.0"]["--kv-cache-dtype"]["choices"]
