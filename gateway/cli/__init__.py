"""The `gateway` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gateway.integrations.commands import find_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. It loads no module of another command."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] and words[0].startswith("--env-file"):
        from gateway.cli.commands import take_env_file  # noqa: PLC0415 (see above)
        from gateway.errors import InvalidRequest  # noqa: PLC0415 (see above)

        try:
            words = take_env_file(words)
        except InvalidRequest as error:
            print(f"gateway: {error}", file=sys.stderr)
            return error.exit_code
    if command := find_command(words):
        return command()
    from gateway.cli.commands import run  # noqa: PLC0415 (see above)

    return run(words)
