"""The command `gateway` where only the agent's side is installed: `ask`, `wait`, `run`, `hook`,
`bridge`, `mcp` and `install`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway.client.ask import main as ask
from gateway.client.run_command import main as run_command
from gateway.errors import InvalidRequest
from gateway.integrations.hook_process import main as hook

_COMMANDS = ("ask", "wait", "run", "hook", "bridge", "mcp", "install")


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
        from gateway.integrations import bridge  # noqa: PLC0415 (a hook runs once per tool call)

        return bridge.main(words[1:])
    if words[:1] == ["run"]:
        return run_command(words)
    if words[:1] == ["mcp"]:
        from gateway.integrations import mcp_command  # noqa: PLC0415 (as above)

        return mcp_command.main(words[1:])
    if words[:1] == ["install"]:
        from gateway.integrations import install  # noqa: PLC0415 (as above)

        return install.main(words[1:])
    return hook(words) if words[:1] == ["hook"] else ask(words)


if __name__ == "__main__":
    sys.exit(run())
