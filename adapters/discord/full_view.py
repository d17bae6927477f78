"""The full view: all that would run, page by page, in a private message."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import discord

from adapters.discord.card_views import CARD_CHARS, CARD_LINES, build_more_view
from adapters.discord.custom_ids import DiscordButton
from adapters.discord.full_view_layout import build_full_view, page_fits
from adapters.discord.groups import GroupMessages, draw_card
from adapters.discord.identities import read_identity, refuse_stranger
from adapters.discord.responses import InteractionReply
from gateway.errors import Conflict
from gateway.ports import Card, Desk, Record, card_of, draw, weight_of
from gateway.ports import full_view as pages_of

EVERYTHING = 10**9
BRIEF_LINES, BRIEF_CHARS = 10, 700


class FullViewPages:
    """Builds cards and full views of requests."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._groups = GroupMessages(desk)

    async def build_card(self, record: Record) -> Card:
        """Return the card at the size for channels."""
        return await draw_card(self._desk, record)

    async def build_whole_card(self, record: Record) -> Card:
        """Return the card without a size limit, and so with every control."""
        return await draw(partial(_build_card, record, EVERYTHING, EVERYTHING), *weight_of(record))

    async def build_brief_card(self, record: Record) -> Card:
        """Return the card with as much of what runs as a modal shows above its fields."""
        build = partial(_build_card, record, BRIEF_LINES, BRIEF_CHARS)
        return await draw(build, *weight_of(record))

    async def build_more(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Return what else may be done, if the person may decide the request."""
        record = await self.get_permitted(interaction, button.request_id)
        if record.final:
            raise Conflict("this was decided already; the card says how")
        if button.revision < record.shown_since:
            raise Conflict("the request has changed since you saw it; look at it again")
        identity = read_identity(interaction)
        person = await self._desk.requests.person(identity)
        reader = person.name if person else identity.written
        build = partial(_build_card, record, CARD_LINES, CARD_CHARS, reader)
        card = await draw(build, *weight_of(record))
        card = replace(card, inbox=self._desk.address_of(record.id))
        count = await self._groups.count(interaction, record.id)
        named = self.name_card(interaction, button)
        return InteractionReply(build_more_view(card, named, group=count))

    async def get_permitted(self, interaction: discord.Interaction, request_id: str) -> Record:
        """Return a request, if the person may decide it. Raises NotFound, Unauthorized."""
        record = await self._desk.requests.get(request_id)
        await refuse_stranger(self._desk, interaction, record)
        return record

    def name_card(self, interaction: discord.Interaction, button: DiscordButton) -> DiscordButton:
        """Return the button for a private message, with the id of the card's message."""
        message = interaction.message
        if message is not None and not message.flags.ephemeral and button.copy:
            return replace(button, card=str(message.id))
        return button

    async def build_page(
        self, interaction: discord.Interaction, button: DiscordButton
    ) -> InteractionReply:
        """Return the requested page, if the person may decide the request."""
        record = await self.get_permitted(interaction, button.request_id)
        message = interaction.message
        turning = message is not None and message.flags.ephemeral and button.more.isdecimal()
        button = self.name_card(interaction, button)
        page = int(button.more) - 1 if button.more.isdecimal() else 0
        return await self.build_full_view(record, interaction, button, page=page, replaces=turning)

    async def build_full_view(
        self,
        record: Record,
        interaction: discord.Interaction,
        button: DiscordButton,
        *,
        page: int = 0,
        replaces: bool = False,
    ) -> InteractionReply:
        """Return the full view of a record. The caller has checked the person's rights."""

        identity = read_identity(interaction)
        person = await self._desk.requests.person(identity)
        reader = person.name if person else identity.written

        def render() -> InteractionReply:
            view = pages_of(record, fits=page_fits)
            limit = interaction.filesize_limit
            card = _build_card(record, EVERYTHING, EVERYTHING, reader)
            card = replace(card, inbox=self._desk.address_of(record.id))
            return InteractionReply(
                build_full_view(card, view, button, page=page, limit=limit), replaces=replaces
            )

        return await draw(render, *weight_of(record))


def _build_card(record: Record, lines: int, chars: int, reader: str = "") -> Card:
    return card_of(record, lines=lines, chars=chars, reader=reader)
