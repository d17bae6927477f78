"""What the bot needs in a server: the invite link with the least of it, and a check per channel."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import discord

from adapters.discord.connection import login_of, point_at
from adapters.discord.ids import Place, read_target
from adapters.discord.settings import read_settings
from gateway.errors import GatewayError

NEEDED = discord.Permissions(
    view_channel=True,
    send_messages=True,
    send_messages_in_threads=True,
    embed_links=True,
    attach_files=True,
    read_message_history=True,
)
_SCOPES = ("bot", "applications.commands")
_NAMES = {"read_messages": "view channel"}  # as Discord's own settings call it
_OF_THREADS = {"send_messages_in_threads"}


def add_commands(verbs: Any) -> None:
    """Add `gateway invite discord` and `gateway check discord`."""
    invite = verbs.add_parser("invite", help="print the link that adds the bot to a server")
    invite.set_defaults(run=_invite)
    check = verbs.add_parser("check", help="check the bot's permissions in channels")
    check.add_argument(
        "targets", nargs="+", metavar="TARGET", help="discord:SERVER/CHANNEL, as routes write it"
    )
    check.set_defaults(run=_check)


async def _invite(options: argparse.Namespace) -> int:
    async with _logged_in() as client:
        if client.application_id is None:
            raise GatewayError("Discord did not say which application this is")
        print(invite_link(client.application_id))
    return 0


async def _check(options: argparse.Namespace) -> int:
    failed = False
    async with _logged_in() as client:
        for target in options.targets:
            problem = await problem_at(client, target)
            failed = failed or bool(problem)
            print(f"{'FAIL' if problem else 'ok  '} {target}{f': {problem}' if problem else ''}")
    return 1 if failed else 0


def invite_link(application: int) -> str:
    """Return the link by which a server's owner adds the bot, with no permission too many."""
    return discord.utils.oauth_url(application, permissions=NEEDED, scopes=_SCOPES)


async def problem_at(client: discord.Client, target: str) -> str:
    """Say what keeps cards from being posted at a target, and what to do; empty when nothing."""
    place = read_target(target)
    if place is None:
        return "this is no place in Discord; write discord:SERVER/CHANNEL or discord:@USER"
    try:
        return await (_person(client, place) if place.user else _channel(client, place))
    except discord.NotFound:
        return "it does not exist, or the bot is not in the server: `gateway invite discord`"
    except discord.Forbidden:
        return "the bot cannot see it: let its role view the channel"
    except discord.HTTPException as error:
        return f"Discord refuses to tell ({error.status}, {error.code})"


async def _person(client: discord.Client, place: Place) -> str:
    # Whether somebody takes direct messages is known only once one was sent.
    await client.create_dm(discord.Object(int(place.user or 0)))
    return ""


async def _channel(client: discord.Client, place: Place) -> str:
    guild = await client.fetch_guild(int(place.guild or 0), with_counts=False)
    channel = await guild.fetch_channel(int(place.channel or 0))
    if isinstance(channel, discord.ForumChannel | discord.CategoryChannel):
        return "cards cannot be posted in a channel of this kind; use a text channel or a thread"
    if client.user is None:
        return "not logged in"
    member = await guild.fetch_member(client.user.id)
    parent: Any = channel
    skipped = _OF_THREADS
    if isinstance(channel, discord.Thread):
        # A thread has its channel's permissions, and one of its own.
        parent = await guild.fetch_channel(channel.parent_id)
        skipped = {"send_messages"}
    held = dict(parent.permissions_for(member))
    missing = [name for name, value in NEEDED if value and name not in skipped and not held[name]]
    if isinstance(channel, discord.Thread) and channel.locked and not held["manage_threads"]:
        return "the thread is locked"
    if not missing:
        return ""
    words = ", ".join(_NAMES.get(name, name.replace("_", " ")) for name in missing)
    return f"the bot lacks: {words}; allow it in the channel's permissions"


@asynccontextmanager
async def _logged_in() -> AsyncIterator[discord.Client]:
    settings = read_settings()
    point_at(settings)
    client = await login_of(settings)
    try:
        yield client
    finally:
        await client.close()
