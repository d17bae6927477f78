"""The check of `gateway doctor` whether roles that routes call are notified in Discord at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aiohttp
import discord

from adapters.discord import library
from adapters.discord.connection import log_in
from adapters.discord.custom_ids import DiscordPlace, read_target
from adapters.discord.permissions import read_permissions
from adapters.discord.settings import read_settings
from gateway.errors import GatewayError
from gateway.ports import Finding, report_doubt, report_failure, report_ok

_NAME = "discord mentions"
_REMEDY = (
    "make the role mentionable (Server Settings › Roles), or let the bot mention everyone in the "  # noqa: RUF001 (as Discord writes it)
    "channel"
)


async def check_mentions(called: Mapping[str, Sequence[str]]) -> list[tuple[str, Finding]]:
    """Check the roles that are called in each target; see `gateway.ports.HasMentionChecks`.

    What the other checks fail at (settings, the token) is left to them.
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
    named = f"the role {place.guild}/{role}, which {target} calls,"
    try:
        guild = await client.fetch_guild(int(place.guild or 0), with_counts=False)
        found = next((one for one in await guild.fetch_roles() if str(one.id) == role), None)
        if found is None:
            return report_failure(f"{named} does not exist", "name another in the approvers")
        if found.mentionable or (await read_permissions(client, place)).mention_everyone:
            return report_ok(f"{named} is notified")
    except (discord.DiscordException, aiohttp.ClientError, OSError) as error:
        said = f"whether {named} is notified cannot be seen: {type(error).__name__}"
        return report_doubt(said, "see `discord channel`")
    return report_doubt(f"{named} is shown by name, and nobody is notified", _REMEDY)
