"""Commands of operators, straight on Redis: whoever can reach it as the gateway may run them."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from gateway.approvals.agent_removal import dismiss
from gateway.approvals.core import Core
from gateway.cli.answering import listed
from gateway.doctor import FAIL, examine, gateway_url
from gateway.errors import NotFound
from gateway.policy.hooks.host import HookHost, hosted
from gateway.server.connections import Backend, assembled, opened, url_of
from gateway.server.settings import Settings
from gateway.stores.credentials import AGENT, APPROVER, NewCredential
from gateway.stores.event_feed import RedisFeed


@asynccontextmanager
async def backend() -> AsyncIterator[Backend]:
    """Connect to the configured Redis, or to the running embedded server of the data folder."""
    settings = Settings()
    async with opened(settings, url_of(settings)) as found:
        yield found


async def agent_add(options: argparse.Namespace) -> int:
    """Make an agent."""
    async with backend() as found:
        new = await found.credentials.add_agent(options.name, options.owner)
    _show_once(new, options.json)
    if not options.json:
        print(f"Start the agent with GATEWAY_AGENT={new.name} and GATEWAY_TOKEN set to the token,")
        print("and GATEWAY_URL to where it reaches the gateway;")
        print(f"from this machine that is {gateway_url(Settings())}.")
    return 0


async def agent_rotate(options: argparse.Namespace) -> int:
    """Replace an agent's secrets."""
    async with backend() as found:
        _show_once(await found.credentials.rotate_agent(options.name), options.json)
    return 0


async def agent_revoke(options: argparse.Namespace) -> int:
    """Remove an agent."""
    async with backend() as found:
        try:
            await found.credentials.revoke_agent(options.name)
        finally:
            # Also where some server is silent, or an earlier call came only half way.
            cancelled = await dismiss(core_of(found), found.store, options.name)
    sentence = f"{options.name} is revoked: its connections are cut, {len(cancelled)} waiting "
    _gone(options, sentence + "requests cancelled, its grants ended", cancelled=len(cancelled))
    return 0


async def agent_list(options: argparse.Namespace) -> int:
    """List agents."""
    async with backend() as found:
        rows = await found.credentials.listed(AGENT)
    nothing = "no agent has a credential: gateway agent add NAME"
    return listed(map(asdict, rows), options, _agent, nothing)


async def approver_add(options: argparse.Namespace) -> int:
    """Make an approver."""
    async with backend() as found:
        new = await found.credentials.add_approver(options.name, admin=options.admin)
        _show_once(new, options.json)
    if not options.json:
        print(f"For the inbox: gateway login {new.name} prints a link that works once.")
        print("For the command line and the terminal: set GATEWAY_APPROVER_TOKEN to the token.")
    return 0


async def approver_revoke(options: argparse.Namespace) -> int:
    """Remove an approver."""
    async with backend() as found:
        await found.credentials.revoke_approver(options.name)
    _gone(options, f"{options.name} may not decide any more")
    return 0


async def approver_list(options: argparse.Namespace) -> int:
    """List approvers."""
    async with backend() as found:
        tokens = {row.name: row for row in await found.credentials.listed(APPROVER)}
        people = {person.name: person for person in (await found.store.policy()).people}
    for name in sorted({*tokens, *people}):
        row = {
            "name": name,
            "admin": name in people and people[name].admin,
            "in_policy": name in people,
            "token": name in tokens,
            "created": tokens[name].created if name in tokens else None,
        }
        print(json.dumps(row) if options.json else _approver(row))
    return 0


async def login(options: argparse.Namespace) -> int:
    """Print a one-time link to the inbox."""
    settings = Settings()
    url = gateway_url(settings)
    async with backend() as found:
        policy = await found.store.policy()
        if options.name not in {person.name for person in policy.people}:
            raise NotFound(f"there is no approver {options.name}: gateway approver add NAME")
        code = await found.logins.invite(options.name)
    print(f"{url}/inbox/login#code={code}")
    return 0


async def stop_all(options: argparse.Namespace) -> int:
    """Turn the kill switch on."""
    async with backend() as found:
        await found.store.set_stopped(True, by=options.by)
    print(
        "everything is denied until `gateway resume`; what was approved before cannot be recalled"
    )
    return 0


async def resume(options: argparse.Namespace) -> int:
    """Turn the kill switch off."""
    async with backend() as found:
        await found.store.set_stopped(False, by=options.by)
    print("requests are asked again")
    return 0


def core_of(found: Backend, hooks: HookHost | None = None) -> Core:
    """Return a core that changes what is there; nobody is served by them. Hooks are asked only by
    what judges a request anew, and must run."""
    feed = RedisFeed(found.store.redis, found.store.keys)
    return assembled(Settings(), found.store, feed, hooks or hosted(None), None)


async def doctor(options: argparse.Namespace) -> int:
    """Check everything."""
    checks = await examine(Settings(), backend, live=options.live)
    for check in checks:
        if options.json:
            print(json.dumps(asdict(check)))
        else:
            remedy = f"\n     {check.remedy}" if check.remedy else ""
            print(f"{check.result.upper():5}{check.name}: {check.says}{remedy}")
    return 1 if any(check.result == FAIL for check in checks) else 0


def _show_once(new: NewCredential, as_json: bool) -> None:
    """Print a credential the one time that it is known."""
    if as_json:
        print(json.dumps({name: value for name, value in asdict(new).items() if value is not None}))
        return
    print(f"name           {new.name}\ntoken          {new.token}")
    if new.redis_user:
        print(f"redis user     {new.redis_user}\nredis password {new.redis_password}")
    if not new.kept:
        print("warning: the server has no ACL file, so this user is gone when it restarts")
    for server, why in new.silent.items():
        print(f"warning: {server} does not know this user, nor that an older one is gone: {why}")
    if new.silent:
        print(f"when it is back: gateway agent rotate {new.name}")
    print("These are not shown again.")


def _agent(row: dict[str, Any]) -> str:
    return f"{row['name']:24} {row['owner'] or ''}"


def _approver(row: dict[str, Any]) -> str:
    if not row["in_policy"]:
        said = "may do nothing: no person of the policy in force"
    else:
        said = "admin" if row["admin"] else ""
        said += "" if row["token"] else "  no token"
    return f"{row['name']:24} {said}".rstrip()


def _gone(options: argparse.Namespace, sentence: str, **more: int) -> None:
    gone = {"name": options.name, "revoked": True, **more}
    print(json.dumps(gone) if options.json else sentence)
