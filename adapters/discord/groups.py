"""Several waiting requests of one group in a private message: each whole, answered one by one, or
all at once where all of them were read there."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import discord
from discord import ui

from adapters.discord.card_views import (
    CARD_CHARS,
    CARD_LINES,
    MOST_TEXT,
    READ,
    MessageContent,
    build_text_view,
    choose_group_colour,
)
from adapters.discord.custom_ids import PLATFORM, DiscordButton
from adapters.discord.group_cards import (
    ALL,
    MOST_COMPONENTS,
    NONE,
    PER_ITEM,
    build_all_row,
    build_group_view,
    build_item_row,
    draw_item,
    shows_all,
)
from adapters.discord.identities import read_identity
from adapters.discord.markup import count_units, escape_line
from gateway.errors import BatchRefused, Conflict, InvalidRequest, NotFound
from gateway.models import Action
from gateway.ports import (
    Card,
    Click,
    Desk,
    GroupCard,
    MessageRef,
    Record,
    Worklist,
    card_of,
    draw,
    group_card_of,
    leads_to_inbox,
    posted_group_of,
    read_revisions,
    weight_of,
)

IN_GROUP = "g"
GROUP_CHARS = 2600
_SPACE = 300  # for the title, and differences in Discord's counting
_MOST_ITEMS = (MOST_COMPONENTS - 8) // PER_ITEM  # the rest is what stands around them
_SEEN_SECONDS = 3600.0
_TOLD = 300
_ANSWERS = {ALL: Action.APPROVE, NONE: Action.DENY}


class GroupMessages:
    """Shows the group of a request, and answers all of it at once."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._worklist = Worklist(desk)

    async def count(self, interaction: discord.Interaction, request_id: str) -> int:
        """Return how many requests of this group wait for the person."""
        record = await self._desk.requests.get(request_id)
        return len(await self._worklist.list_group(read_identity(interaction), record))

    async def build(
        self, interaction: discord.Interaction, button: DiscordButton, told: str = ""
    ) -> MessageContent:
        """Return the group, as it stands now, below what came of the last tap."""
        identity = read_identity(interaction)
        record = await self._desk.requests.get(button.request_id)
        found = await self._worklist.list_group(identity, record)
        if not found:
            return build_text_view(told or "None of them waits any more.")
        person = await self._desk.requests.person(identity)
        reader = person.name if person else identity.written
        group = group_card_of(found, chars=GROUP_CHARS, each=CARD_CHARS, reader=reader)
        shown = list_drawn(group)
        together = group.together and len(shown) == len(group.items)
        kept = {"seen": [[card.request_id, card.revision] for card, _ in shown], "all": together}
        key = base64.urlsafe_b64encode(interaction.id.to_bytes(8, "big")).decode().rstrip("=")
        await self._desk.notes.put(_note(key), json.dumps(kept), seconds=_SEEN_SECONDS)
        return build_group(group, shown, button, key, told=told, together=together)

    async def decide(self, interaction: discord.Interaction, button: DiscordButton) -> str:
        """Answer all that the message showed, or none of it; return what came of it."""
        text = await self._desk.notes.get(_note(button.more))
        if text is None:
            raise Conflict("this was left open for too long; open it again")
        kept: dict[str, Any] = json.loads(text)
        if not kept["all"] and button.verb == ALL:
            raise InvalidRequest("not all of them can be read here: answer each")
        try:
            done = await self._decide_all(interaction, button, kept["seen"])
        except BatchRefused as refused:
            return str(refused)
        return f"All {len(done)} are {done[0].status.value}."

    async def decide_posted(
        self, interaction: discord.Interaction, button: DiscordButton, ref: MessageRef | None
    ) -> None:
        """Answer all that wait on the posted card of a group, as it showed them, or none of it.

        Raises NotFound, Conflict, InvalidRequest.
        """
        records = await self._desk.requests.list_on_card(button.request_id, button.copy)
        if not records or ref is None:
            raise NotFound("this is not the card of a group")
        seen = read_revisions(button.more, [one.id for one in records])
        whole = button.verb == NONE or shows_all(await self._draw(records))
        if not seen or not whole:
            raise InvalidRequest("not all of them can be read here: answer each")
        where = {"copy": button.copy, "ref": ref}
        try:
            await self._decide_all(interaction, button, seen.items(), **where)
        except BatchRefused as refused:
            raise Conflict(str(refused)) from refused

    async def build_posted(self, button: DiscordButton) -> MessageContent:
        """Return the posted card of a group as it is now. Raises NotFound."""
        records = await self._desk.requests.list_on_card(button.request_id, button.copy)
        if not records:
            raise NotFound("this is not the card of a group")
        return build_group_view(await self._draw(records), button.copy)

    async def _draw(self, records: Sequence[Record]) -> GroupCard:
        return posted_group_of([(one, await draw_card(self._desk, one)) for one in records])

    async def _decide_all(
        self,
        interaction: discord.Interaction,
        button: DiscordButton,
        seen: Iterable[tuple[str, int]],
        **where: Any,
    ) -> list[Record]:
        clicks = [
            Click(
                request_id=request_id,
                revision=revision,
                identity=read_identity(interaction),
                action=_ANSWERS[button.verb],
                nonce=f"{PLATFORM} {interaction.id}",
                **where,
            )
            for request_id, revision in seen
        ]
        return await self._desk.requests.decide_all(clicks)


async def draw_card(desk: Desk, record: Record) -> Card:
    """Return the card of a request at the size for channels."""
    card = await draw(
        lambda: card_of(record, lines=CARD_LINES, chars=CARD_CHARS), *weight_of(record)
    )
    leads = desk.address_of(record.id) if leads_to_inbox(card) else ""
    deciders = await desk.requests.deciders(record, PLATFORM)
    return replace(card, deciders=deciders, inbox=leads)


def list_drawn(group: GroupCard) -> list[tuple[Card, str]]:
    """Return the items with their texts, as far as they find room, each whole or not at all."""
    left = MOST_TEXT - _SPACE
    drawn: list[tuple[Card, str]] = []
    for card in group.items[:_MOST_ITEMS]:
        text, whole = draw_item(card)
        if not whole or count_units(text) + 2 > left:
            continue
        left -= count_units(text) + 2
        drawn.append((card, text))
    return drawn


def build_group(
    group: GroupCard,
    shown: Sequence[tuple[Card, str]],
    button: DiscordButton,
    key: str,
    *,
    told: str = "",
    together: bool,
) -> MessageContent:
    """Return the message of a group."""
    colour = choose_group_colour(group.items)
    container: ui.Container[Any] = ui.Container(accent_colour=colour)
    title = f"### {escape_line(group.title.text, _TOLD)}"
    said = escape_line(f"{told[:1].upper()}{told[1:]}", _TOLD) if told else ""
    container.add_item(ui.TextDisplay("\n".join(filter(None, (title, said)))))
    for card, text in shown:
        container.add_item(ui.Separator())
        container.add_item(ui.TextDisplay(text))
        base = DiscordButton(
            verb=READ, request_id=card.request_id, revision=card.revision, more=IN_GROUP
        )
        container.add_item(build_item_row(card, base, whole=True))
    hidden = group.more + len(group.items) - len(shown)
    if hidden:
        container.add_item(ui.TextDisplay(f"-# {hidden} more do not fit here: open each alone."))
    if len(shown) > 1:
        container.add_item(ui.Separator())
        every = build_all_row(len(shown), button, key, approves=together, hidden=bool(hidden))
        container.add_item(every)
        if not together:
            text = "-# Not all may be approved at once: decide each by itself."
            container.add_item(ui.TextDisplay(text))
    view = ui.LayoutView(timeout=None)
    view.add_item(container)
    view.stop()
    return MessageContent(view)


def _note(key: str) -> str:
    return f"group {key}"
