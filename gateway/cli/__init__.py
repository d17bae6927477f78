"""The `gateway` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

_LIGHT = {
    "ask": "gateway.client.ask",
    "wait": "gateway.client.ask",
    "run": "gateway.client.run_command",
    "hook": "gateway.integrations.hook_process",
}
"""The modules of the commands that run once per tool call of an agent, with all words."""
_AGENT_SIDE = {
    "bridge": "gateway.integrations.bridge",
    "install": "gateway.integrations.install",
    "mcp": "gateway.integrations.mcp_command",
}
"""Those that load the agent's side alone, with the words after their name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. It loads no module of another command."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] and words[0].startswith("--env-file"):
        from gateway.cli.env_file import take_env_file  # noqa: PLC0415 (see above)
        from gateway.errors import InvalidRequest  # noqa: PLC0415 (see above)

        try:
            words = take_env_file(words)
        except InvalidRequest as error:
            print(f"gateway: {error}", file=sys.stderr)
            return error.exit_code
    return _run(words)


def _run(words: list[str]) -> int:
    name = words[0] if words else ""
    if name in _LIGHT:
        code: int = import_module(_LIGHT[name]).main(words)
    elif name in _AGENT_SIDE:
        code = import_module(_AGENT_SIDE[name]).main(words[1:])
    else:
        code = import_module("gateway.cli.commands").run(words)
    return code
