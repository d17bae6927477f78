"""The command `gateway` where only the agent's side is installed: `ask`, `wait`, `run`, `hook`,
`bridge` and `mcp`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway.client.ask import main as ask
from gateway.client.run_command import main as run_command
from gateway.errors import InvalidRequest
from gateway.integrations import bridge, mcp_command, picoclaw

_COMMANDS = ("ask", "wait", "run", "hook", "bridge", "mcp")


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] not in _COMMANDS and not words[0].startswith("-"):
        sys.stderr.write(
            f"gateway: this is the agent's side alone ({', '.join(_COMMANDS)}): "
            f"run `gateway {words[0]}` where the gateway is installed\n"
        )
        return InvalidRequest.exit_code
    if words[:1] == ["bridge"]:
        return bridge.main(words[1:])
    if words[:1] == ["run"]:
        return run_command(words)
    if words[:1] == ["mcp"]:
        return mcp_command.main(words[1:])
    return picoclaw.main(words) if words[:1] == ["hook"] else ask(words)


if __name__ == "__main__":
    sys.exit(run())
