"""Who clicked, as Discord vouches for it in the interaction itself."""

from __future__ import annotations

import discord

from adapters.discord.ids import PLATFORM
from gateway.records import Identity


def identity_of(interaction: discord.Interaction) -> Identity:
    """Return the person, with the roles that they have in this server at this moment.

    A role counts only together with its server; in direct messages there are none.
    """
    user, guild = interaction.user, interaction.guild_id
    roles: tuple[str, ...] = ()
    if guild is not None and isinstance(user, discord.Member):
        # `roles` resolves through the cache, which may be empty; these are the payload's own.
        roles = tuple(f"{PLATFORM}:{guild}/{role}" for role in user._roles)
    return Identity(platform=PLATFORM, id=str(user.id), groups=roles)


def unfit_to_decide(interaction: discord.Interaction) -> str | None:
    """Return what Discord tells against this person deciding anything, None when nothing."""
    user = interaction.user
    if user.bot:
        return "bots decide nothing"
    if isinstance(user, discord.Member) and user.is_timed_out():
        return "you are timed out in this server"
    return None
