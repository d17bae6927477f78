"""Programs that stand beside an agent and answer through the gateway what it asks.

The command `gateway bridge HOST` runs one of them, and loads no other.
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
        description="The command `gateway bridge HOST`: which bridge it runs.",
    )
    parser.add_argument("host", choices=_BRIDGES)
    host: str = parser.parse_args(argv[:1]).host
    module = import_module(f"gateway.integrations.bridges.{host.replace('-', '_')}")
    run: Callable[[Sequence[str]], int] = module.main
    return run(argv[1:])
