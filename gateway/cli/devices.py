"""`gateway devices`: list where a person is signed in to the inbox, or end that."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from gateway.cli.formatting import ago, print_rows, say
from gateway.cli.redis_access import connect_backend
from gateway.errors import InvalidRequest, NotFound
from gateway.ports.logins import Device

_SHORT = 12  # characters of an id, as the audit has them


async def run(options: argparse.Namespace) -> int:
    """List a person's devices, or end one or all of their sessions."""
    name = options.name
    async with connect_backend(acting=options.end is not None or options.end_all) as found:
        listed = await found.logins.list_devices_of(name)
        if options.end is None and not options.end_all:
            head = f"{'DEVICE':{_SHORT}}  {'WHAT':28}  {'WITH':8}  LAST USED"
            rows = ({**asdict(one), "id": one.id[:_SHORT]} for one in listed)
            return print_rows(rows, options, _format_row, f"{name} is signed in nowhere", head=head)
        ids = tuple(one.id for one in listed) if options.end_all else (_find(listed, options.end),)
        count = await found.logins.end_devices_of(name, ids, by="operator")
    say({"name": name, "ended": count}, f"{name} was signed out on {count} device(s)", options)
    return 0


def _find(listed: list[Device], start: str) -> str:
    """Return the whole id that begins so."""
    fitting = [one.id for one in listed if start and one.id.startswith(start)]
    if not fitting:
        raise NotFound(f"no device begins with {start!r}: see `gateway devices NAME`")
    if len(fitting) > 1:
        raise InvalidRequest(f"more than one device begins with {start!r}")
    return fitting[0]


def _format_row(row: dict[str, Any]) -> str:
    words = row["words"] or "unknown"
    return f"{row['id']:{_SHORT}}  {words:28}  {row['way']:8}  {ago(row['used'])}"
