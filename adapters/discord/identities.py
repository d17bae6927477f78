"""Who clicked, as Discord vouches for it in the interaction itself."""

from __future__ import annotations

import discord

from adapters.discord import library
from adapters.discord.custom_ids import PLATFORM
from gateway.errors import Unauthorized
from gateway.ports import Desk, Identity, Record


def read_identity(interaction: discord.Interaction) -> Identity:
    """Return the person, with the roles that they have in this server at this moment.

    A role counts only together with its server; in direct messages there are none.
    """
    user, guild = interaction.user, interaction.guild_id
    roles: tuple[str, ...] = ()
    if guild is not None and isinstance(user, discord.Member):
        roles = tuple(f"{PLATFORM}:{guild}/{role}" for role in library.role_ids(user))
    return Identity(platform=PLATFORM, id=str(user.id), groups=roles)


def find_objection(interaction: discord.Interaction) -> str | None:
    """Return what Discord tells against this person deciding anything, None when nothing."""
    user = interaction.user
    if user.bot:
        return "bots decide nothing"
    if isinstance(user, discord.Member) and user.is_timed_out():
        return "you are timed out in this server"
    return None


async def refuse_unfit(desk: Desk, interaction: discord.Interaction, request_id: str) -> None:
    """Refuse, and write down, what Discord tells against the person. Raises Unauthorized."""
    why = find_objection(interaction)
    if why is not None:
        await desk.requests.refuse(request_id, read_identity(interaction), why)
        raise Unauthorized(why)


async def refuse_stranger(desk: Desk, interaction: discord.Interaction, record: Record) -> None:
    """Refuse, and write down, whoever may not decide this request. Raises Unauthorized."""
    await refuse_unfit(desk, interaction, record.id)
    identity = read_identity(interaction)
    why = await desk.requests.may_decide(identity, record)
    if why is not None:
        await desk.requests.refuse(record.id, identity, why)
        raise Unauthorized(why)
