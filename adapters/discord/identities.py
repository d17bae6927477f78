"""Who clicked, from the interaction itself, and whether they may decide."""

from __future__ import annotations

import discord

from adapters.discord import library
from adapters.discord.custom_ids import PLATFORM
from gateway.errors import Unauthorized
from gateway.ports import Desk, Identity, Record


def read_identity(interaction: discord.Interaction) -> Identity:
    """Return the person with their current roles in this server.

    Roles are qualified by their server; in direct messages there are none.
    """
    user, guild = interaction.user, interaction.guild_id
    roles: tuple[str, ...] = ()
    if guild is not None and isinstance(user, discord.Member):
        roles = tuple(f"{PLATFORM}:{guild}/{role}" for role in library.role_ids(user))
    return Identity(platform=PLATFORM, id=str(user.id), groups=roles)


def find_objection(interaction: discord.Interaction) -> str | None:
    """Return why this person may decide nothing in Discord, None when they may."""
    user = interaction.user
    if user.bot:
        return "bots decide nothing"
    if isinstance(user, discord.Member) and user.is_timed_out():
        return "you are timed out in this server"
    return None


async def refuse_unfit(desk: Desk, interaction: discord.Interaction, request_id: str) -> None:
    """Refuse bots and people who are timed out, and record it. Raises Unauthorized."""
    why = find_objection(interaction)
    if why is not None:
        await desk.requests.refuse(request_id, read_identity(interaction), why)
        raise Unauthorized(why)


async def refuse_stranger(desk: Desk, interaction: discord.Interaction, record: Record) -> None:
    """Refuse people who may not decide this request, and record it. Raises Unauthorized."""
    await refuse_unfit(desk, interaction, record.id)
    identity = read_identity(interaction)
    why = await desk.requests.may_decide(identity, record)
    if why is not None:
        await desk.requests.refuse(record.id, identity, why)
        raise Unauthorized(why)
