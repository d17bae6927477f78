"""Define the bot's permissions and its invite link, and check both for `gateway doctor`; start with
`run_checks`."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
import discord

from adapters.discord import library
from adapters.discord.connection import log_in
from adapters.discord.custom_ids import DiscordPlace, read_target
from adapters.discord.live_trial import DiscordTrial
from adapters.discord.settings import DiscordSettings, read_settings
from gateway.errors import GatewayError
from gateway.ports import FAIL, Finding, LiveTrial, report_doubt, report_failure, report_ok

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


def add_commands(verbs: Any) -> None:
    """Add `gateway discord invite` and `gateway discord check`."""
    invite = verbs.add_parser(
        "invite", help="print the link with which you add the bot to a server"
    )
    invite.set_defaults(run=_invite)
    check = verbs.add_parser(
        "check", help="check the bot's permissions in the channels of your routes"
    )
    check.add_argument(
        "targets",
        nargs="+",
        metavar="TARGET",
        help="channel to check, written discord:SERVER/CHANNEL as in a route",
    )
    check.set_defaults(run=_check)


async def _invite(options: argparse.Namespace) -> int:
    async with _log_in() as client:
        print(build_invite_link(client))
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


def build_invite_link(client: discord.Client) -> str:
    """Return the link that adds the bot to a server, with only the needed permissions."""
    if client.application_id is None:
        raise GatewayError("Discord did not return the application's id; try again later")
    return discord.utils.oauth_url(client.application_id, permissions=NEEDED, scopes=_SCOPES)


async def check_target(client: discord.Client, target: str) -> Finding:
    """Check whether cards can be posted to a target."""
    place = read_target(target)
    if place is None:
        return report_failure(
            "this is not a Discord target",
            "write the target as discord:SERVER/CHANNEL or discord:@USER",
        )
    try:
        return await _check_place(client, place)
    except discord.NotFound:
        said = "the channel does not exist, or the bot is not in its server"
        return report_failure(said, "invite it with the link of `gateway discord invite`")
    except discord.Forbidden:
        return report_failure(
            "the bot cannot see the channel",
            "give the bot's role the permission View Channel there",
        )
    except discord.HTTPException as error:
        return report_failure(
            f"Discord refused the check ({error.status}, {error.code})", "try again later"
        )
    except (aiohttp.ClientError, OSError) as error:
        return report_failure(
            f"Discord did not respond ({type(error).__name__})", "try again later"
        )


async def _check_place(client: discord.Client, place: DiscordPlace) -> Finding:
    if place.user:
        await client.create_dm(discord.Object(int(place.user)))
        return report_ok(
            "not tested: only a sent message shows whether the user accepts direct messages"
        )
    return check_channel(*await _read_channel(client, place))


def check_channel(channel: Any, held: discord.Permissions) -> Finding:
    """Check whether the bot can post cards in a channel or thread, given its permissions there."""
    thread = isinstance(channel, discord.Thread)
    if isinstance(channel, discord.ForumChannel | discord.CategoryChannel):
        said = "cards cannot be posted in a channel of this kind"
        return report_failure(said, "use a text channel or a thread")
    skipped = "send_messages" if thread else "send_messages_in_threads"
    has = dict(held)
    missing = [name for name, value in NEEDED if value and name != skipped and not has[name]]
    if missing:
        words = ", ".join(_NAMES.get(name, name.replace("_", " ")) for name in missing)
        return report_failure(f"the bot lacks: {words}", "allow it in the channel's permissions")
    if thread and channel.locked and not held.manage_threads:
        return report_failure(
            "the thread is locked", "unlock the thread, or name another thread in the route"
        )
    return report_ok("the bot may post here")


async def _read_channel(
    client: discord.Client, place: DiscordPlace
) -> tuple[Any, discord.Permissions]:
    """Return a channel or thread and the bot's permissions there. Raises discord.py's errors."""
    guild = await client.fetch_guild(int(place.guild or 0), with_counts=False)
    channel: Any = await guild.fetch_channel(int(place.channel or 0))
    parent = channel
    if isinstance(channel, discord.Thread):
        # A thread takes its permissions from its channel.
        parent = await guild.fetch_channel(channel.parent_id)
    member = await guild.fetch_member(client.user.id if client.user else 0)
    return channel, parent.permissions_for(member)


@asynccontextmanager
async def _log_in() -> AsyncIterator[discord.Client]:
    settings = read_settings()
    library.prepare(settings)
    client = await log_in(settings)
    try:
        yield client
    finally:
        await client.close()


# Checks of `gateway doctor` for Discord.

Found = tuple[str, Finding]
_PAGE = "see docs/guides/discord.md"
_MOST_CHANNELS = 20
_WORDS = "Test message of `gateway doctor --live`. It will be deleted at once."


async def run_checks(
    targets: Sequence[str], *, live: bool, trial: LiveTrial | None = None
) -> list[Found]:
    """Run all checks except those that depend on a failed one; `live` also posts a message."""
    try:
        settings = read_settings()
    except GatewayError as error:
        return [("discord settings", report_failure(str(error), _PAGE))]
    over = "over HTTP" if settings.public_key else "over the gateway connection"
    found: list[Found] = [("discord settings", report_ok(f"clicks come {over}"))]
    try:
        library.prepare(settings)
    except GatewayError as error:
        return [*found, ("discord library", report_failure(str(error), _PAGE))]
    try:
        client = await log_in(settings)
    except GatewayError as error:
        remedy = "set GATEWAY_DISCORD_TOKEN to the token from the page Bot of the developer portal"
        return [*found, ("discord token", report_failure(str(error), remedy))]
    try:
        found.append(("discord token", report_ok(f"this is {client.user}")))
        found.append(("discord endpoint", check_endpoint(client, settings)))
        for target in targets:
            place = await check_target(client, target)
            found.append(("discord channel", replace(place, says=f"{target}: {place.says}")))
        if not targets:
            remedy = "add discord:SERVER/CHANNEL to the targets of a route"
            found.append(("discord channel", report_doubt("no route posts to Discord", remedy)))
        if live:
            found += [("discord live", one) for one in await _try_channels(client, targets)]
        if trial is not None:
            over_http = settings.public_key is not None
            tried = await DiscordTrial(client, trial, targets, over_http=over_http).run()
            found += [("discord live", one) for one in tried]
    finally:
        await client.close()
    return found


def check_endpoint(client: discord.Client, settings: DiscordSettings) -> Finding:
    """Check whether the portal's Interactions Endpoint URL fits the settings."""
    application = client.application
    url = application.interactions_endpoint_url if application else None
    if url is not None and settings.public_key is None:
        says = (
            f"Discord sends clicks to {url}, not Discord sends clicks over the gateway connection"
        )
        return report_failure(
            says, "remove the Interactions Endpoint URL, or set GATEWAY_DISCORD_PUBLIC_KEY"
        )
    if url is None and settings.public_key is not None:
        says = "no Interactions Endpoint URL is set in the portal, so no click can arrive"
        return report_failure(
            says,
            "set the URL to https://YOUR-HOST/discord/interactions, or unset "
            "GATEWAY_DISCORD_PUBLIC_KEY",
        )
    return report_ok(
        f"Discord sends clicks to {url}"
        if url
        else "no Interactions Endpoint URL is set in the portal, which is correct"
    )


async def _try_channels(client: discord.Client, targets: Sequence[str]) -> list[Finding]:
    """Post and delete a message in each channel of the routes, one after the other."""
    read = [place for one in targets if (place := read_target(one))]
    channels = list(dict.fromkeys(place.channel for place in read if place.channel))
    if not channels:
        return [
            report_doubt("no route names a channel in which to test", "name discord:SERVER/CHANNEL")
        ]
    found = [await _try_channel(client, channel) for channel in channels[:_MOST_CHANNELS]]
    if rest := channels[_MOST_CHANNELS:]:
        says = f"only {_MOST_CHANNELS} channels are tested; not tested: {', '.join(rest)}"
        found.append(report_doubt(says, "run the check `discord channel` for each of them"))
    return found


async def _try_channel(client: discord.Client, name: str) -> Finding:
    channel = client.get_partial_messageable(int(name))
    try:
        message = await channel.send(_WORDS)
        await message.delete()
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        return report_failure(f"{name}: posting failed: {error}", _PAGE)
    return report_ok(f"{name}: a message was posted and deleted")


# The check of `gateway doctor` that Discord notifies the roles that routes mention.

_NAME = "discord mentions"
_REMEDY = (
    "make the role mentionable (Server Settings › Roles), or let the bot mention everyone in the "  # noqa: RUF001 (as Discord writes it)
    "channel"
)


async def check_mentions(called: Mapping[str, Sequence[str]]) -> list[tuple[str, Finding]]:
    """Check whether Discord notifies the roles that are mentioned in each target.

    Return nothing if the settings or the token fail; other checks report those.
    """
    roles = [
        (place, target, one.removeprefix(f"{place.guild}/"))
        for target, names in called.items()
        if (place := read_target(target)) is not None and place.channel
        for one in names
        if one.startswith(f"{place.guild}/")
    ]
    if not roles:
        return []
    try:
        settings = read_settings()
        library.prepare(settings)
        client = await log_in(settings)
    except GatewayError:
        return []
    try:
        return [(_NAME, await _check_role(client, *one)) for one in roles]
    finally:
        await client.close()


async def _check_role(
    client: discord.Client, place: DiscordPlace, target: str, role: str
) -> Finding:
    named = f"the role {place.guild}/{role}, mentioned in {target},"
    try:
        guild = await client.fetch_guild(int(place.guild or 0), with_counts=False)
        found = next((one for one in await guild.fetch_roles() if str(one.id) == role), None)
        if found is None:
            return report_failure(
                f"{named} does not exist", "name another role or person in the approvers"
            )
        if found.mentionable or (await _read_channel(client, place))[1].mention_everyone:
            return report_ok(f"{named} is notified")
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        said = f"cannot check whether {named} is notified: {type(error).__name__}"
        return report_doubt(said, "see the check `discord channel`")
    return report_doubt(f"the card shows the name of {named}, but Discord notifies nobody", _REMEDY)
