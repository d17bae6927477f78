"""`gateway pending`, `gateway history` and `gateway show`: what agents asked for."""

from __future__ import annotations

import argparse
import asyncio
import json

from gateway.cli.answering import split_revision
from gateway.cli.formatting import format_line, format_request, print_rows
from gateway.cli.http_access import connect_as_approver, find_request, read_all


async def show_pending(options: argparse.Namespace) -> int:
    """List pending requests."""
    return await asyncio.to_thread(_print_all, "status=pending", options, "nothing waits")


async def show_history(options: argparse.Namespace) -> int:
    """List the requests that have ended."""
    return await asyncio.to_thread(_print_all, "final=true", options, "nothing has ended yet")


def _print_all(which: str, options: argparse.Namespace, nothing: str) -> int:
    with connect_as_approver() as http:
        return print_rows(read_all(http, which), options, format_line, nothing)


async def show(options: argparse.Namespace) -> int:
    """Print one request in full."""
    with connect_as_approver() as http:
        record = await asyncio.to_thread(find_request, http, split_revision(options.id)[0])
        if options.reveal:
            path = f"/v1/requests/{record['request']['id']}?reveal=true"
            record = await asyncio.to_thread(http.call, "GET", path)
        print(json.dumps(record) if options.json else format_request(record))
        return 0
