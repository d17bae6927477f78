"""`gateway agent …`: an agent's credential, and its pause after many denials.

`add`, `rotate`, `revoke` and `list` work straight on Redis, `paused` and `lift` over HTTP.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from contextlib import suppress
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from gateway.approvals.agent_removal import dismiss
from gateway.cli.credentials import print_once, print_revoked
from gateway.cli.formatting import print_rows, say, until
from gateway.cli.http_access import connect_as_approver
from gateway.cli.redis_access import connect_backend, operator_core
from gateway.doctor import gateway_url
from gateway.errors import GatewayError, NotFound
from gateway.server.settings import Settings
from gateway.stores.credentials import AGENT
from gateway.wire.local_discovery import name_data


async def add(options: argparse.Namespace) -> int:
    """Create an agent and print its credential."""
    async with connect_backend(acting=True) as found:
        new = await found.credentials.add_agent(options.name, options.owner)
    print_once(new, options.json)
    if not options.json:
        print(f"Start the agent with GATEWAY_AGENT={new.name} and GATEWAY_TOKEN set to the token,")
        print("and GATEWAY_URL to where it reaches the gateway;")
        with suppress(GatewayError):  # not known here: the agent is made all the same
            print(f"from this machine that is {gateway_url(Settings())}.")
        if (redis := Settings().own_redis) is not None:
            address = name_data(redis, "").partition(",")[0]
            print(f"Over Redis (docs/redis.md) it logs in as its Redis user at {address}.")
    return 0


async def rotate(options: argparse.Namespace) -> int:
    """Replace an agent's secrets; the old ones are valid for the overlap."""
    overlap_ms = 0 if options.now else options.overlap
    async with connect_backend(acting=True) as found:
        new = await found.credentials.rotate_agent(options.name, overlap_ms=overlap_ms)
    print_once(new, options.json)
    return 0


async def revoke(options: argparse.Namespace) -> int:
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


async def show_all(options: argparse.Namespace) -> int:
    """List agents."""
    async with connect_backend() as found:
        rows = await found.credentials.list_all(AGENT)
    nothing = "no agent has a credential: gateway agent add NAME"
    head = f"{'AGENT':24} OWNER"
    return print_rows(map(asdict, rows), options, _format_agent, nothing, head=head)


async def show_paused(options: argparse.Namespace) -> int:
    """List the agents that are paused after many denials."""
    with connect_as_approver() as http:
        rows = (await asyncio.to_thread(http.call, "GET", "/v1/agents/paused"))["items"]
    if options.json:
        print(json.dumps(rows))
        return 0
    return print_rows(rows, options, _format_pause, "no agent is paused", head="PAUSED AGENTS")


async def lift(options: argparse.Namespace) -> int:
    """End an agent's pause."""
    path = f"/v1/agents/{quote(options.name, safe='')}/lift"
    with connect_as_approver(acting=True) as http:
        try:
            done = await asyncio.to_thread(http.call, "POST", path, {})
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
