"""`gateway approver …`: the credentials of people who may decide."""

from __future__ import annotations

import argparse
import json
from typing import Any

from gateway.cli.credentials import print_once, print_revoked
from gateway.cli.formatting import print_rows
from gateway.cli.redis_access import connect_backend
from gateway.server.settings import Settings
from gateway.stores.credentials import APPROVER
from gateway.wire.local_discovery import OWNER_FILE, read_private, write_private


async def add(options: argparse.Namespace) -> int:
    """Create an approver and print the token."""
    async with connect_backend(acting=True) as found:
        new = await found.credentials.add_approver(options.name, admin=options.admin)
        print_once(new, options.json)
    if not options.json:
        print(f"For the inbox: gateway login {new.name} prints a link that works once.")
        print("For the command line and the terminal: set GATEWAY_APPROVER_TOKEN to the token.")
    return 0


async def rotate(options: argparse.Namespace) -> int:
    """Replace an approver's token; the old one is valid for the overlap."""
    overlap_ms = 0 if options.now else options.overlap
    kept = Settings().data_dir / OWNER_FILE
    async with connect_backend(acting=True) as found:
        credentials = found.credentials
        own = (read_private(kept) or {}).get("token", "")
        who = await credentials.authenticate(own)
        new = await credentials.rotate_approver(options.name, overlap_ms=overlap_ms)
    if who is not None and (who.kind, who.name) == (APPROVER, new.name):
        write_private(kept, json.dumps({"name": new.name, "token": new.token}))
    print_once(new, options.json)
    return 0


async def revoke(options: argparse.Namespace) -> int:
    """Remove an approver."""
    async with connect_backend(acting=True) as found:
        await found.credentials.revoke_approver(options.name)
    print_revoked(options, f"{options.name} may not decide any more")
    return 0


async def show_all(options: argparse.Namespace) -> int:
    """List approvers."""
    async with connect_backend() as found:
        tokens = {row.name: row for row in await found.credentials.list_all(APPROVER)}
        people = {person.name: person for person in (await found.store.policy()).people}
    rows = [
        {
            "name": name,
            "admin": name in people and people[name].admin,
            "in_policy": name in people,
            "token": name in tokens,
            "created": tokens[name].created if name in tokens else None,
        }
        for name in sorted({*tokens, *people})
    ]
    nothing = "there is no approver: gateway approver add NAME"
    head = f"{'APPROVER':24} NOTES"
    return print_rows(rows, options, _format_approver, nothing, head=head)


def _format_approver(row: dict[str, Any]) -> str:
    if not row["in_policy"]:
        notes = "may do nothing: no person of the policy in force"
    else:
        notes = "admin" if row["admin"] else ""
        notes += "" if row["token"] else "  no token"
    return f"{row['name']:24} {notes}".rstrip()
