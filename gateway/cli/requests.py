"""`gateway pending`, `gateway history` and `gateway show`: what agents asked for."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from gateway.cli.answering import split_revision
from gateway.cli.formatting import REQUEST_HEAD, format_request, format_row, print_rows
from gateway.cli.http_access import connect_as_approver, find_request, read_page

_QUERIES = {"pending": "status=pending", "history": "final=true"}


async def show_pending(options: argparse.Namespace) -> int:
    """List a page of the pending requests."""
    return await asyncio.to_thread(_print_page, "pending", options, "nothing waits")


async def show_history(options: argparse.Namespace) -> int:
    """List a page of the requests that have ended."""
    return await asyncio.to_thread(_print_page, "history", options, "nothing has ended yet")


def _print_page(command: str, options: argparse.Namespace, nothing: str) -> int:
    """Print a page; say on standard error how to see the next one, if there is one."""
    with connect_as_approver() as http:
        rows, place = read_page(http, _QUERIES[command], options.after, options.limit)
    nothing = "no more" if options.after else nothing
    code = print_rows(rows, options, format_row, nothing, head=REQUEST_HEAD)
    if place is not None:
        more = f"gateway {command} --limit {options.limit} --after {place}"
        print(f"for more: {more}", file=sys.stderr)
    return code


async def show(options: argparse.Namespace) -> int:
    """Print one request in full."""
    with connect_as_approver() as http:
        record = await asyncio.to_thread(find_request, http, split_revision(options.id)[0])
        if options.reveal:
            path = f"/v1/requests/{record['request']['id']}?reveal=true"
            record = await asyncio.to_thread(http.call, "GET", path)
        print(json.dumps(record) if options.json else format_request(record))
        return 0
