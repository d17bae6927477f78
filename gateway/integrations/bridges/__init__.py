"""Bridges: programs that answer a coding agent's permission questions through the gateway.

The command `gateway bridge HOST` runs one bridge, and loads no other. Start at `main`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module

_BRIDGES = ("acp", "codex-app-server", "dexto", "gptme-server", "opencode")


def main(argv: Sequence[str]) -> int:
    """Run the bridge that the first word names; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="gateway bridge",
        description="Answer a coding agent's permission questions through the gateway.",
    )
    parser.add_argument("host", choices=_BRIDGES, help="name of the coding agent or protocol")
    host: str = parser.parse_args(argv[:1]).host
    module = import_module(f"gateway.integrations.bridges.{host.replace('-', '_')}")
    run: Callable[[Sequence[str]], int] = module.main
    return run(argv[1:])
