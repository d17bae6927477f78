"""The command `gateway bridge HOST`: which bridge it runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gateway.integrations import acp, codex_app_server, dexto, gptme_server, opencode

_BRIDGES = {
    "acp": acp.main,
    "codex-app-server": codex_app_server.main,
    "dexto": dexto.main,
    "gptme-server": gptme_server.main,
    "opencode": opencode.main,
}


def main(argv: Sequence[str]) -> int:
    """Run the bridge that the first word names; return the exit code."""
    parser = argparse.ArgumentParser(prog="gateway bridge", description=__doc__)
    parser.add_argument("host", choices=sorted(_BRIDGES))
    return _BRIDGES[parser.parse_args(argv[:1]).host](argv[1:])
