"""`gateway doctor`: print the result of every check."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from gateway.cli.redis_access import connect_backend
from gateway.doctor import FAIL, examine
from gateway.server.settings import Settings


async def run(options: argparse.Namespace) -> int:
    """Run all checks and print them; the exit code is 1 when one failed."""
    checks = await examine(Settings(), connect_backend, live=options.live)
    for check in checks:
        if options.json:
            print(json.dumps(asdict(check)))
        else:
            remedy = f"\n     {check.remedy}" if check.remedy else ""
            print(f"{check.result.upper():5}{check.name}: {check.says}{remedy}")
    return 1 if any(check.result == FAIL for check in checks) else 0
