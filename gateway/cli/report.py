"""`gateway report`: how people decide, and how agents ask."""

from __future__ import annotations

import argparse
import json

from gateway.approvals.report_query import DAY_MS
from gateway.cli.redis_access import connect_backend, operator_core
from gateway.domain.clock import SystemClock
from gateway.domain.statistics import lines
from gateway.errors import InvalidRequest
from gateway.wire.codec import plain


async def run(options: argparse.Namespace) -> int:
    """Print how people decide, and how agents ask."""
    if options.days < 1:
        raise InvalidRequest("--days is at least 1")
    until = SystemClock().now_ms()
    async with connect_backend() as found:
        reporting = operator_core(found).reporting
        made = await reporting.read(since=until - options.days * DAY_MS, until=until)
    if options.json:
        print(json.dumps(plain(made)))
        return 0
    for line in lines(made):
        print(line)
    return 0
