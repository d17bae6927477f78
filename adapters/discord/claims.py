"""Run `/approvals`, which adds channels and accounts to the policy; start with DiscordClaims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import aiohttp
import discord
from discord import ui

from adapters.discord.cards import MessageContent, build_view, escape_line
from adapters.discord.custom_ids import PLATFORM
from adapters.discord.grants import NO_REQUEST
from adapters.discord.interactions import InteractionReply, build_private_reply, read_identity
from adapters.discord.permissions_and_checks import check_channel
from gateway.chat import claiming
from gateway.chat.answering import describe_error
from gateway.errors import Unauthorized
from gateway.ports import FAIL, AdapterApi, Claimant, ClaimedPlace

ROUTES = "ag1:routes"  # the menu under /approvals here
_MOST_ROUTES, _ROUTE_CHARS = 25, 100  # of a menu in Discord
_LINE = 1000
_IN_SERVERS = "this command works only in a channel of a server"
_UNSURE = "⚠️ Discord did not confirm who you are. Nothing was changed. Try again in a moment."
_STRANGER = "only a full member of this channel's server may do that"


class DiscordClaims:
    """Runs `/approvals`."""

    def __init__(self, api: AdapterApi) -> None:
        self._api = api

    async def run(
        self, interaction: discord.Interaction, verb: str, *, code: str = "", route: str = ""
    ) -> InteractionReply:
        """Run a subcommand and return a private reply. If the person chose a `route` from the menu,
        the reply replaces the menu. Raises GatewayError."""
        try:
            return await self._run(interaction, verb, code, route)
        except claiming.NotClaimed as error:
            return _reply(" ".join(describe_error(error)))
        except (discord.HTTPException, aiohttp.ClientError):
            return _reply(_UNSURE)

    async def _run(
        self, interaction: discord.Interaction, verb: str, code: str, route: str
    ) -> InteractionReply:
        guild, by = await self._find_member(interaction)
        target = f"{PLATFORM}:{guild.id}/{interaction.channel_id}"
        if verb == claiming.WHO:
            return _reply(await claiming.describe_who(self._api, by.identity, target))
        if verb == claiming.ME:
            return _reply(await claiming.claim_account(self._api, code, by))
        place = await self._find_place(interaction, guild, target)
        if code:
            return _reply(await claiming.claim_place(self._api, code, by, place))
        if route:
            told = await claiming.add_place(self._api, by.identity, route, place)
            return replace(_reply(told), replaces=True)
        routes = await claiming.list_other_routes(self._api, by.identity, place)
        return InteractionReply(build_route_menu(routes))

    async def _find_member(
        self, interaction: discord.Interaction
    ) -> tuple[discord.Guild, Claimant]:
        """Ask Discord for the server and the member who ran the command. Raises Unauthorized unless
        this is a full member."""
        if interaction.guild_id is None:
            raise await self._refuse(interaction, _IN_SERVERS)
        try:
            guild = await interaction.client.fetch_guild(interaction.guild_id)
            member = await guild.fetch_member(interaction.user.id)
        except discord.NotFound:
            raise await self._refuse(interaction, _STRANGER) from None
        if member.bot or member.pending or member.flags.guest:
            raise await self._refuse(interaction, _STRANGER)
        words = claiming.describe_member(member.display_name, member.name, str(member.id))
        by = Claimant(identity=read_identity(interaction), handle=member.name, words=words)
        return guild, by

    async def _find_place(
        self, interaction: discord.Interaction, guild: discord.Guild, target: str
    ) -> ClaimedPlace:
        """Return the channel of the command. Raises Unauthorized if it belongs to another server,
        and NotClaimed if the bot cannot post cards there."""
        found = check_channel(interaction.channel, interaction.app_permissions)
        if found.result == FAIL:
            raise claiming.NotClaimed(f"{found.says}; {found.remedy}, then try again")
        try:
            channel = await guild.fetch_channel(interaction.channel_id or 0)
        except (discord.NotFound, discord.InvalidData):
            raise await self._refuse(interaction, _STRANGER) from None
        facts = f"{guild.approximate_member_count} members"
        words = claiming.describe_place(channel.name, guild.name, facts)
        return ClaimedPlace(target=target, words=words)

    async def _refuse(self, interaction: discord.Interaction, why: str) -> Unauthorized:
        """Record that somebody was refused, and return the refusal."""
        await self._api.requests.refuse(NO_REQUEST, read_identity(interaction), why)
        return Unauthorized(why)


def build_route_menu(routes: Sequence[str]) -> MessageContent:
    """Build a menu of routes: at most 25, without names that are too long for Discord."""
    shown = [one for one in routes if len(one) <= _ROUTE_CHARS][:_MOST_ROUTES]
    menu: ui.Select[Any] = ui.Select(
        custom_id=ROUTES,
        placeholder="Choose a route",
        options=[discord.SelectOption(label=one, value=one) for one in shown],
    )
    said = "Which route should also post its requests here?"
    if left := len(routes) - len(shown):
        said += f" {left} more do not fit here."
    view = build_view(ui.TextDisplay(said))
    view.add_item(ui.ActionRow(menu))
    return MessageContent(view)


def _reply(text: str) -> InteractionReply:
    """Build a private message. Keep its line breaks, because lines for a policy file need them."""
    return build_private_reply("\n".join(escape_line(one, _LINE) for one in text.split("\n")))
