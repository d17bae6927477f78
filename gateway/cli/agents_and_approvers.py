"""`gateway agent …` and `gateway approver …`: manage credentials, which are shown only once.

`add`, `rotate`, `revoke` and `list` access Redis directly; `paused` and `lift` use HTTP.
"""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from typing import Any
from urllib.parse import quote

from gateway.approvals.deadlines import dismiss
from gateway.cli.http_access import connect_as_approver
from gateway.cli.redis_access import connect_backend, operator_core
from gateway.cli.requests import print_rows, say, until
from gateway.doctor import gateway_url
from gateway.errors import GatewayError, NotFound
from gateway.server.settings import Settings
from gateway.stores.credentials import AGENT, APPROVER, NewCredential
from gateway.wire.local_discovery import OWNER_FILE, name_data, read_private, write_private

# Prints new credentials, and that one was revoked.


def print_once(new: NewCredential, as_json: bool) -> None:
    """Print a new credential, which cannot be shown again."""
    if as_json:
        print(json.dumps({name: value for name, value in asdict(new).items() if value is not None}))
        return
    print(f"name           {new.name}\ntoken          {new.token}")
    if new.redis_user:
        print(f"redis user     {new.redis_user}\nredis password {new.redis_password}")
    if new.old_until is not None:
        until = datetime.fromtimestamp(new.old_until / 1000).astimezone()
        print(f"the old token is valid until {until:%Y-%m-%d %H:%M:%S %z}; --now ends it at once")
    if not new.kept:
        print("warning: the server has no ACL file, so this user is gone when it restarts")
    for server, why in new.silent.items():
        print(f"warning: {server} does not have this user, and may still have an older one: {why}")
    if new.silent:
        print(f"when the server is back, run: gateway agent rotate {new.name}")
    print("These are not shown again.")


def print_revoked(options: argparse.Namespace, sentence: str, **more: int) -> None:
    """Print that a credential was revoked: a sentence, or with --json an object that includes
    `more`."""
    members = {"name": options.name, "revoked": True, **more}
    print(json.dumps(members) if options.json else sentence)


async def add_agent(options: argparse.Namespace) -> int:
    """Create an agent and print its credential."""
    async with connect_backend(acting=True) as found:
        new = await found.credentials.add_agent(options.name, options.owner)
    print_once(new, options.json)
    if not options.json:
        print(f"Start the agent with GATEWAY_AGENT={new.name} and GATEWAY_TOKEN set to the token,")
        print("and GATEWAY_URL to the address at which it reaches the gateway;")
        with suppress(GatewayError):  # not known here: the agent is made all the same
            print(f"from this machine that is {gateway_url(Settings())}.")
        if (redis := Settings().own_redis) is not None:
            address = name_data(redis, "").partition(",")[0]
            print(f"Over Redis (docs/guides/deploy.md) it logs in as its Redis user at {address}.")
    return 0


async def rotate_agent(options: argparse.Namespace) -> int:
    """Replace an agent's secrets; the old ones are valid for the overlap."""
    overlap_ms = 0 if options.now else options.overlap
    async with connect_backend(acting=True) as found:
        new = await found.credentials.rotate_agent(options.name, overlap_ms=overlap_ms)
    print_once(new, options.json)
    return 0


async def revoke_agent(options: argparse.Namespace) -> int:
    """Remove an agent."""
    async with connect_backend(acting=True) as found:
        try:
            await found.credentials.revoke_agent(options.name)
        finally:
            # Also when a server does not answer, or an earlier call stopped half way.
            cancelled = await dismiss(operator_core(found), found.store, options.name)
    sentence = f"{options.name} is revoked: its connections are cut, {len(cancelled)} waiting "
    print_revoked(
        options, sentence + "requests cancelled, its grants ended", cancelled=len(cancelled)
    )
    return 0


async def list_agents(options: argparse.Namespace) -> int:
    """List agents."""
    async with connect_backend() as found:
        rows = await found.credentials.list_all(AGENT)
    nothing = "no agent has a credential: gateway agent add NAME"
    head = f"{'AGENT':24} OWNER"
    return print_rows(map(asdict, rows), options, _format_agent, nothing, head=head)


def show_paused(options: argparse.Namespace) -> int:
    """List the agents that are in a cool-down after many denials."""
    with connect_as_approver() as http:
        rows = http.call("GET", "/v1/agents/paused")["items"]
    if options.json:
        print(json.dumps(rows))
        return 0
    return print_rows(rows, options, _format_pause, "no agent is paused", head="PAUSED AGENTS")


def lift(options: argparse.Namespace) -> int:
    """End an agent's cool-down."""
    path = f"/v1/agents/{quote(options.name, safe='')}/lift"
    with connect_as_approver(acting=True) as http:
        try:
            done = http.call("POST", path, {})
        except NotFound:
            raise NotFound(f"there is no agent {options.name}") from None
    lifted = f"{options.name} may ask again"
    say(done, lifted if done["lifted"] else f"{options.name} was not paused", options)
    return 0


def _format_agent(row: dict[str, Any]) -> str:
    old = row["old_until"]
    note = f"  the old token ends {until(old)}" if old is not None else ""
    return f"{row['name']:24} {row['owner'] or ''}{note}".rstrip()


def _format_pause(one: dict[str, Any]) -> str:
    return f"{one['agent']}  until {until(one['until'])}, or `gateway agent lift {one['agent']}`"


# `gateway approver …`: the credentials of people who may decide.


async def add_approver(options: argparse.Namespace) -> int:
    """Create an approver and print the token."""
    async with connect_backend(acting=True) as found:
        new = await found.credentials.add_approver(options.name, admin=options.admin)
        print_once(new, options.json)
    if not options.json:
        print(f"For the inbox: gateway login {new.name} prints a link that works once.")
        print("For the command line and the terminal: set GATEWAY_APPROVER_TOKEN to the token.")
    return 0


async def rotate_approver(options: argparse.Namespace) -> int:
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


async def revoke_approver(options: argparse.Namespace) -> int:
    """Remove an approver."""
    async with connect_backend(acting=True) as found:
        await found.credentials.revoke_approver(options.name)
    print_revoked(options, f"{options.name} may not decide any more")
    return 0


async def list_approvers(options: argparse.Namespace) -> int:
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
        notes = "may do nothing: not a person in the active policy"
    else:
        notes = "admin" if row["admin"] else ""
        notes += "" if row["token"] else "  no token"
    return f"{row['name']:24} {notes}".rstrip()
