"""Checks of `gateway doctor` for Discord."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import aiohttp
import discord

from adapters.discord import library
from adapters.discord.connection import log_in
from adapters.discord.custom_ids import read_target
from adapters.discord.permissions import check_target
from adapters.discord.settings import DiscordSettings, read_settings
from gateway.errors import GatewayError
from gateway.ports import Finding, report_doubt, report_failure, report_ok

Found = tuple[str, Finding]
_PAGE = "see docs/discord.md"
_MOST_CHANNELS = 20
_WORDS = "This is `gateway doctor --live`; the message goes away again."


async def run_checks(targets: Sequence[str], *, live: bool) -> list[Found]:
    """Run all checks, except those that depend on a failed one."""
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
        remedy = "set GATEWAY_DISCORD_TOKEN to the token of the portal's page Bot"
        return [*found, ("discord token", report_failure(str(error), remedy))]
    try:
        found.append(("discord token", report_ok(f"this is {client.user}")))
        found.append(("discord endpoint", _check_endpoint(client, settings)))
        for target in targets:
            place = await check_target(client, target)
            found.append(("discord channel", replace(place, says=f"{target}: {place.says}")))
        if not targets:
            remedy = "name discord:SERVER/CHANNEL in the targets of a route"
            found.append(("discord channel", report_doubt("no route leads to Discord", remedy)))
        if live:
            found += [("discord live", one) for one in await _try_channels(client, targets)]
    finally:
        await client.close()
    return found


def _check_endpoint(client: discord.Client, settings: DiscordSettings) -> Finding:
    application = client.application
    url = application.interactions_endpoint_url if application else None
    if url is not None and settings.public_key is None:
        says = f"Discord sends clicks to {url}, so that none comes over the gateway connection"
        return report_failure(
            says, "remove the Interactions Endpoint URL, or set GATEWAY_DISCORD_PUBLIC_KEY"
        )
    if url is None and settings.public_key is not None:
        says = "no Interactions Endpoint URL is set in the portal, so that no click comes"
        return report_failure(
            says, "set it to https://YOUR-HOST/discord/interactions, or unset the key"
        )
    return report_ok(
        f"clicks come to {url}" if url else "no Interactions Endpoint URL, as it must be"
    )


async def _try_channels(client: discord.Client, targets: Sequence[str]) -> list[Finding]:
    """Post and delete a message in each channel of the routes, one after the other."""
    read = [place for one in targets if (place := read_target(one))]
    channels = list(dict.fromkeys(place.channel for place in read if place.channel))
    if not channels:
        return [
            report_doubt("no route names a channel to try it in", "name discord:SERVER/CHANNEL")
        ]
    found = [await _try_channel(client, channel) for channel in channels[:_MOST_CHANNELS]]
    if rest := channels[_MOST_CHANNELS:]:
        says = f"after {_MOST_CHANNELS} channels, not tried: {', '.join(rest)}"
        found.append(report_doubt(says, "`discord channel` looked at each"))
    return found


async def _try_channel(client: discord.Client, name: str) -> Finding:
    channel = client.get_partial_messageable(int(name))
    try:
        message = await channel.send(_WORDS)
        await message.delete()
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        return report_failure(f"{name}: posting failed: {error}", _PAGE)
    return report_ok(f"{name}: a message was posted and deleted")
