"""What a command loads before it runs: its own module, and little else."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli import http_access, main
from gateway.cli.commands import _parser, find_command, make_parser
from gateway.server.plugins import adapter_class
from tests.frame.tree import ROOT
from tests.sweeps import sweep

_LOADED = """
import sys, json
from gateway.cli import main
main(sys.argv[1:])
print(json.dumps(sorted(sys.modules)))
"""


def parsers_that_run(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser of every command below this one."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers_that_run(below)
    if parser.get_default("run"):
        yield parser


def test_every_command_names_a_function_that_is_there() -> None:
    """They are named by text, so that none is imported until it runs."""
    found = list(parsers_that_run(_parser()[0]))
    assert len(found) > 30
    for parser in found:
        assert callable(find_command(parser.get_default("run"))), parser.prog


@sweep(
    "words",
    ["apply -", "hook codex", "adapter terminal", "demo", "run -- true", "mcp server"],
    few=2,
)
def test_a_closed_standard_input_is_an_empty_one(words: str, tmp_path: Path) -> None:
    """As after `<&-`: no command fails for want of it."""
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "gateway.cli", *words.split()],
        env={"GATEWAY_DATA_DIR": str(tmp_path), "GATEWAY_CONNECT_TIMEOUT": "0.1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "AttributeError" not in done.stderr


@pytest.mark.parametrize("words", ["pending", "approve x"])
def test_a_command_over_http_loads_no_server(words: str, tmp_path: Path) -> None:
    """Nor Redis, nor pydantic: a person at a terminal, and a script, wait a fifth of a second."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *words.split()],
        env={"GATEWAY_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "you run no gateway" in done.stderr
    loaded = json.loads(done.stdout)
    dear = ("gateway.server", "gateway.stores", "gateway.policy", "redis", "pydantic", "aiohttp")
    assert [name for name in loaded if name.startswith(dear)] == []


def test_a_fault_in_the_code_is_not_explained_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody expected keeps its traceback."""
    monkeypatch.setattr(http_access, "state_folder", lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["pending"])


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_an_option_loads_no_adapter(option: str) -> None:
    """Nor what adapters are made of, which takes most of a second."""
    loaded = "import sys\nfrom gateway.cli import main\n"
    loaded += f"try:\n main([{option!r}])\nfinally:\n print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=False
    )
    assert "gateway" in done.stdout
    assert not {"gateway.ports", "pydantic", "redis", "aiohttp"} & set(done.stdout.split())


def test_the_help_names_every_command_of_our_adapters() -> None:
    """As `gateway NAME` lists it."""
    text = make_parser().format_help()
    for name in ("slack", "discord", "saiki", "web", "terminal"):
        verbs = argparse.ArgumentParser().add_subparsers()
        adapter_class(name)().commands(verbs)
        named = " ".join(line for line in text.splitlines() if f"gateway {name} " in line)
        for verb in verbs.choices:
            assert re.search(rf"\b{verb}\b", named), (name, verb)
