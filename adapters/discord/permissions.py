"""The bot's permissions: the invite link with the fewest possible, and a check per target."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import discord

from adapters.discord import library
from adapters.discord.connection import log_in
from adapters.discord.custom_ids import DiscordPlace, read_target
from adapters.discord.settings import read_settings
from gateway.errors import GatewayError
from gateway.ports import FAIL, Finding, report_failure, report_ok

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
    async with _log_in() as client:
        if client.application_id is None:
            raise GatewayError("Discord did not say which application this is")
        print(build_invite_link(client.application_id))
    return 0


async def _check(options: argparse.Namespace) -> int:
    wrong = False
    async with _log_in() as client:
        for target in options.targets:
            found = await check_target(client, target)
            wrong = wrong or found.result == FAIL
            remedy = f"; {found.remedy}" if found.remedy else ""
            print(f"{found.result:<4} {target}: {found.says}{remedy}")
    return 1 if wrong else 0


def build_invite_link(application: int) -> str:
    """Return the link that adds the bot to a server, with only the needed permissions."""
    return discord.utils.oauth_url(application, permissions=NEEDED, scopes=_SCOPES)


async def check_target(client: discord.Client, target: str) -> Finding:
    """Check whether cards can be posted to a target."""
    place = read_target(target)
    if place is None:
        return report_failure(
            "this is not a target in Discord", "write discord:SERVER/CHANNEL or discord:@USER"
        )
    try:
        return await (_check_person(client, place) if place.user else _check_channel(client, place))
    except discord.NotFound:
        said = "it does not exist, or the bot is not in the server"
        return report_failure(said, "invite it with the link of `gateway invite discord`")
    except discord.Forbidden:
        return report_failure("the bot cannot see it", "let its role view the channel")
    except discord.HTTPException as error:
        return report_failure(
            f"Discord refuses to tell ({error.status}, {error.code})", "try again later"
        )
    except (aiohttp.ClientError, OSError) as error:
        return report_failure(f"no answer from Discord ({type(error).__name__})", "try again later")


async def _check_person(client: discord.Client, place: DiscordPlace) -> Finding:
    await client.create_dm(discord.Object(int(place.user or 0)))
    return report_ok("whether they take direct messages shows when one is sent")


async def _check_channel(client: discord.Client, place: DiscordPlace) -> Finding:
    guild = await client.fetch_guild(int(place.guild or 0), with_counts=False)
    channel = await guild.fetch_channel(int(place.channel or 0))
    if isinstance(channel, discord.ForumChannel | discord.CategoryChannel):
        said = "cards cannot be posted in a channel of this kind"
        return report_failure(said, "use a text channel or a thread")
    if client.user is None:
        return report_failure("not logged in", "see GATEWAY_DISCORD_TOKEN")
    member = await guild.fetch_member(client.user.id)
    parent: Any = channel
    skipped = _OF_THREADS
    if isinstance(channel, discord.Thread):
        # A thread inherits its channel's permissions and has one of its own.
        parent = await guild.fetch_channel(channel.parent_id)
        skipped = {"send_messages"}
    held = dict(parent.permissions_for(member))
    missing = [name for name, value in NEEDED if value and name not in skipped and not held[name]]
    if missing:
        words = ", ".join(_NAMES.get(name, name.replace("_", " ")) for name in missing)
        return report_failure(f"the bot lacks: {words}", "allow it in the channel's permissions")
    if isinstance(channel, discord.Thread) and channel.locked and not held["manage_threads"]:
        return report_failure("the thread is locked", "unlock it, or name another in the route")
    return report_ok("the bot may post here")


async def read_permissions(client: discord.Client, place: DiscordPlace) -> discord.Permissions:
    """Return what the bot may do in a channel or a thread. Raises discord's errors."""
    guild = await client.fetch_guild(int(place.guild or 0), with_counts=False)
    channel: Any = await guild.fetch_channel(int(place.channel or 0))
    if isinstance(channel, discord.Thread):
        channel = await guild.fetch_channel(channel.parent_id)
    member = await guild.fetch_member(client.user.id if client.user else 0)
    held: discord.Permissions = channel.permissions_for(member)
    return held


@asynccontextmanager
async def _log_in() -> AsyncIterator[discord.Client]:
    settings = read_settings()
    library.prepare(settings)
    client = await log_in(settings)
    try:
        yield client
    finally:
        await client.close()
