"""`python -m gateway.client`: the command `gateway` where only the agent's side is installed."""

from __future__ import annotations

import sys

from gateway.client.commands import main


def run() -> int:
    """Run `ask` or `wait`; return the exit code."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
