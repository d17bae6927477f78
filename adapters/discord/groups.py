"""Several waiting requests of one group in a private message: each whole, answered one by one, or
all at once where all of them were read there."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import discord
from discord import ui

from adapters.discord.card_views import (
    CARD_CHARS,
    MOST_TEXT,
    READ,
    MessageContent,
    build_text_view,
    render_blocks,
    render_findings,
    render_head,
)
from adapters.discord.custom_ids import PLATFORM, DiscordButton
from adapters.discord.identities import read_identity
from adapters.discord.markup import count_units, escape_line
from gateway.errors import BatchRefused, Conflict, InvalidRequest
from gateway.models import Action, RiskLevel
from gateway.ports import (
    Card,
    Click,
    Desk,
    GroupCard,
    Worklist,
    group_card_of,
    is_simple,
    named_facts,
)

ALL, NONE = "all", "none"
IN_GROUP = "g"
GROUP_CHARS = 2600
_SPACE = 300  # for the title, and differences in Discord's counting
_MOST_ITEMS = 8  # each is four components, of forty
_SEEN_SECONDS = 3600.0
_FACT = 160
_TOLD = 300
_ANSWERS = {ALL: Action.APPROVE, NONE: Action.DENY}


class Groups:
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
        if not kept["all"]:
            raise InvalidRequest("not all of them can be read here: answer each")
        clicks = [
            Click(
                request_id=request_id,
                revision=revision,
                identity=read_identity(interaction),
                action=_ANSWERS[button.verb],
                nonce=f"{PLATFORM} {interaction.id}",
            )
            for request_id, revision in kept["seen"]
        ]
        try:
            done = await self._desk.requests.decide_all(clicks)
        except BatchRefused as refused:
            return str(refused)
        return f"All {len(done)} are {done[0].status.value}."


def list_drawn(group: GroupCard) -> list[tuple[Card, str]]:
    """Return the items with their texts, as far as they find room, each whole or not at all."""
    left = MOST_TEXT - _SPACE
    drawn: list[tuple[Card, str]] = []
    for card in group.items[:_MOST_ITEMS]:
        text, whole = _draw_item(card)
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
    container: ui.Container[Any] = ui.Container()
    title = f"### {escape_line(group.title.text, _TOLD)}"
    said = escape_line(f"{told[:1].upper()}{told[1:]}", _TOLD) if told else ""
    container.add_item(ui.TextDisplay("\n".join(filter(None, (title, said)))))
    for card, text in shown:
        container.add_item(ui.Separator())
        container.add_item(ui.TextDisplay(text))
        container.add_item(_build_row(card))
    hidden = group.more + len(group.items) - len(shown)
    if hidden:
        container.add_item(ui.TextDisplay(f"-# {hidden} more do not fit here: open each alone."))
    if together:
        container.add_item(ui.Separator())
        container.add_item(_build_all(len(shown), button, key))
    elif len(shown) > 1:
        text = "-# Each is answered alone: not all may be approved at once."
        container.add_item(ui.TextDisplay(text))
    view = ui.LayoutView(timeout=None)
    view.add_item(container)
    view.stop()
    return MessageContent(view)


def _draw_item(card: Card) -> tuple[str, bool]:
    """Return a request's head, exactly what runs and what was found, and whether it is whole."""
    blocks, whole = render_blocks(card, MOST_TEXT)
    facts = " · ".join(
        f"**{fact.label}** {escape_line(fact.text.text, _FACT)}" for fact in named_facts(card)
    )
    reasons = "; ".join(reason.text for reason in card.reasons)
    high = card.risk is RiskLevel.HIGH
    lead = "🔴 High risk" if high else "🟡 Medium risk"
    risk = f"{lead}: {escape_line(reasons, _TOLD)}" if reasons else lead
    parts = (
        render_head(card),
        blocks,
        facts,
        risk if high or reasons else "",
        render_findings(card, _TOLD),
        "\n".join(f"⚠️ {notice}" for notice in card.notices),
    )
    return "\n".join(filter(None, parts)), whole and card.complete


def _build_row(card: Card) -> ui.ActionRow[Any]:
    base = DiscordButton(
        verb=READ, request_id=card.request_id, revision=card.revision, more=IN_GROUP
    )
    row: ui.ActionRow[Any] = ui.ActionRow()
    if is_simple(card):
        approve = base.with_verb(Action.APPROVE.value, more=IN_GROUP)
        row.add_item(_button("Approve", approve, discord.ButtonStyle.success))
    deny = base.with_verb(Action.DENY.value, more=IN_GROUP)
    row.add_item(_button("Deny", deny, discord.ButtonStyle.danger))
    label = "Details" if is_simple(card) else "Review…"
    row.add_item(_button(label, base.with_verb(READ), discord.ButtonStyle.secondary))
    return row


def _build_all(count: int, button: DiscordButton, key: str) -> ui.ActionRow[Any]:
    row: ui.ActionRow[Any] = ui.ActionRow()
    every = button.with_verb(ALL, more=key)
    row.add_item(_button(f"Approve all {count}", every, discord.ButtonStyle.success))
    none = button.with_verb(NONE, more=key)
    row.add_item(_button(f"Deny all {count}", none, discord.ButtonStyle.danger))
    return row


def _button(label: str, wanted: DiscordButton, style: discord.ButtonStyle) -> ui.Button[Any]:
    return ui.Button(label=label, style=style, custom_id=wanted.custom_id)


def _note(key: str) -> str:
    return f"group {key}"
