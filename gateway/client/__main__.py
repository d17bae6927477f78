"""`python -m gateway.client`: run `gateway ask`, `wait` or `run`. Start at `run`."""

from __future__ import annotations

import sys

from gateway.client.commands import main


def run() -> int:
    """Run the command line of this process; return the exit code."""
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
