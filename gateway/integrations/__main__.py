"""The command `gateway` where only the agent's side is installed: `ask`, `wait`, `hook`, `bridge`
and `install`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from gateway.errors import InvalidRequest

_COMMANDS = ("ask", "wait", "hook", "bridge", "install")


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] not in _COMMANDS and not words[0].startswith("-"):
        sys.stderr.write(
            f"gateway: this is the agent's side alone ({', '.join(_COMMANDS)}): "
            f"run `gateway {words[0]}` where the gateway is installed\n"
        )
        return InvalidRequest.exit_code
    return _command(words)(words)


def _command(words: Sequence[str]) -> Callable[[Sequence[str]], int]:
    """Return what runs these words. A hook runs once per tool call, so nothing else is loaded."""
    if words[:1] == ["hook"]:
        from gateway.integrations import hook_process  # noqa: PLC0415 (see above)

        return hook_process.main
    if words[:1] == ["bridge"]:
        from gateway.integrations import bridge  # noqa: PLC0415 (see above)

        return lambda given: bridge.main(given[1:])
    if words[:1] == ["install"]:
        from gateway.integrations import install  # noqa: PLC0415 (see above)

        return lambda given: install.main(given[1:])
    from gateway.client import ask  # noqa: PLC0415 (see above)

    return ask.main


if __name__ == "__main__":
    sys.exit(run())
