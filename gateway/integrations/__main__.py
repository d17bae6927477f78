"""The command `gateway` of the agent-only distribution. Start at `run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway.errors import InvalidRequest
from gateway.integrations.commands import NAMES, find_command


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. Without a command, print the usage of `ask`."""
    words = list(sys.argv[1:] if argv is None else argv)
    if command := find_command(words):
        return command()
    if words and not words[0].startswith("-"):
        sys.stderr.write(
            f"gateway: only the commands for agents are installed here ({', '.join(NAMES)}): "
            f"run `gateway {words[0]}` where the gateway is installed\n"
        )
        return InvalidRequest.exit_code
    from gateway.client import commands  # noqa: PLC0415 (a hook needs none of it)

    return commands.main(words)


if __name__ == "__main__":
    sys.exit(run())
