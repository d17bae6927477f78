"""The `gateway` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_LIGHT = ("ask", "wait")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code.

    `ask`, `wait` and `hook` run once per tool call of an agent, so they load no other command.
    `bridge`, which runs beside a host, and `install` load the agent's side alone.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] and words[0].startswith("--env-file"):
        from gateway.cli.env_file import take_env_file  # noqa: PLC0415 (see above)
        from gateway.errors import InvalidRequest  # noqa: PLC0415 (see above)

        try:
            words = take_env_file(words)
        except InvalidRequest as error:
            print(f"gateway: {error}", file=sys.stderr)
            return error.exit_code
    if words[:1] and words[0] in _LIGHT:
        from gateway.client.ask import main as ask  # noqa: PLC0415 (see above)

        return ask(words)
    if words[:1] == ["hook"]:
        from gateway.integrations.hook_process import main as hook  # noqa: PLC0415 (see above)

        return hook(words)
    if words[:1] == ["install"]:
        from gateway.integrations.install import main as install  # noqa: PLC0415 (see above)

        return install(words[1:])
    if words[:1] == ["bridge"]:
        from gateway.integrations.bridge import main as bridge  # noqa: PLC0415 (see above)

        return bridge(words[1:])
    from gateway.cli.commands import run  # noqa: PLC0415 (see above)

    return run(words)
