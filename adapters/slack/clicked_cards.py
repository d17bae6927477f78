"""The card that somebody clicked: it shows the end at once, whatever else waits for Slack's limit.

A click on a card brings an address at which its message can be replaced, outside of all limits.
What was decided in a modal brings none: that card goes first in line. Either way the outbox edits
it too, and has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from adapters.slack.card_blocks import CARD_CHARS, CARD_LINES, build_message
from adapters.slack.grant_cards import build_grant_message
from adapters.slack.group_cards import build_group_message
from adapters.slack.payloads import PLATFORM, Interaction
from adapters.slack.posting import mention_people
from adapters.slack.private_replies import PrivateReply
from gateway.ports import (
    Card,
    Desk,
    GrantCard,
    GroupCard,
    MessageRef,
    Record,
    Urgency,
    card_of,
    draw,
    leads_to_inbox,
    posted_group_of,
    rank_edit,
    shows_group,
    weight_of,
)

_NOTE_SECONDS = 600.0
_FIRST, _SHOWN = "first", "shown"


class ClickedCards:
    """Replaces clicked cards, and says how urgent an edit still is."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._notes = desk.notes

    async def expect(self, ref: MessageRef | None) -> None:
        """Have the edit that shows the end on this card go first, before somebody decides."""
        if ref is not None:
            await self._notes.put(_name(ref), _FIRST, seconds=_NOTE_SECONDS)

    async def show_end(self, did: Interaction, record: Record, reply: PrivateReply) -> bool:
        """Replace the clicked card by one that shows the end; return whether Slack took it.

        There is nothing to do, which counts as done, for one that still waits.
        """
        if did.ref is None or not record.final:
            return True
        copy = did.form().copy
        if shows_group(copy):
            records = await self._desk.requests.list_on_card(record.id, copy)
            name = partial(mention_people, did.actor.team)
            made = build_group_message(await self.draw_group(records), copy, name)
        else:
            card = await self._draw(record)
            made = build_message(card, copy, called=mention_people(did.actor.team, card))
        done = await reply.replace(*made)
        await self._notes.put(_name(did.ref), _SHOWN if done else _FIRST, seconds=_NOTE_SECONDS)
        return done

    async def draw_group(self, records: Sequence[Record]) -> GroupCard:
        """Return the posted card of a group as it is now."""
        return posted_group_of([(one, await self._draw(one)) for one in records])

    async def _draw(self, record: Record) -> Card:
        card = await draw(
            lambda: card_of(record, lines=CARD_LINES, chars=CARD_CHARS), *weight_of(record)
        )
        leads = self._desk.address_of(record.id) if leads_to_inbox(card) else ""
        deciders = await self._desk.requests.deciders(record, PLATFORM)
        return replace(card, deciders=deciders, inbox=leads)

    async def show_grant_end(
        self, did: Interaction, card: GrantCard, copy: str, reply: PrivateReply
    ) -> None:
        """Replace the clicked card of a remembered decision, if that ended."""
        if card.ended and copy:
            await reply.replace(*build_grant_message(card, copy))

    async def rank(self, ref: MessageRef, card: Card) -> int:
        """Return the rank of an edit of a posted card."""
        known = await self._notes.get(_name(ref)) if card.disarms else None
        if known is None:
            return rank_edit(card)
        return (Urgency.CLICKED if known == _FIRST else Urgency.OTHER).rank(card.decided_at or 0)


def _name(ref: MessageRef) -> str:
    return f"clicked {ref.channel} {ref.message}"
