"""An adapter that posts cards into memory, for tests of everything behind posted cards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from gateway.cards.card import Card
from gateway.cards.grant_cards import GrantCard
from gateway.domain.records import MessageRef
from gateway.ports import Desk
from gateway.ports.outgoing import CopyGone, Notice


@dataclass
class Message:
    """One posted message as people see it now."""

    target: str
    nonce: str
    card: Card
    edits: int = 0


@dataclass
class Plate:
    """One posted card of a remembered decision as people see it now."""

    target: str
    nonce: str
    card: GrantCard
    edits: int = 0


@dataclass
class RecordingAdapter:
    """Posts requests into `messages`, remembered decisions into `plates`.

    `failures` are raised in turn, one for each call, before it acts; those of `after` when it has
    acted, as an answer that got lost.
    """

    name: str = "rec"
    repeatable: bool = False
    card_lines: int = 60
    card_chars: int = 4000
    messages: dict[str, Message] = field(default_factory=dict)
    notices: list[tuple[Notice, Card]] = field(default_factory=list)
    plates: dict[str, Plate] = field(default_factory=dict)
    announced: list[tuple[Notice, GrantCard]] = field(default_factory=list)
    failures: list[Exception | None] = field(default_factory=list)
    after: list[Exception | None] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def run(self, desk: Desk) -> AsyncIterator[None]:
        yield

    async def deliver(self, target: str, card: Card, nonce: str) -> MessageRef:
        self._fail(self.failures)
        known = [key for key, one in self.messages.items() if one.nonce == nonce]
        repeated = bool(known) and self.repeatable
        number = known[0] if repeated else str(len(self.messages) + 1)
        if not repeated:
            # A repeated post leaves the message as it is.
            self.messages[number] = Message(target, nonce, card)
        self._fail(self.after)
        return MessageRef(adapter=self.name, channel=target, message=number)

    async def update(self, ref: MessageRef, card: Card, nonce: str) -> None:
        self._fail(self.failures)
        message = self.messages.get(ref.message)
        if message is None:
            raise CopyGone("the message was deleted")
        message.card, message.edits = card, message.edits + 1
        self._fail(self.after)

    async def tell(self, notice: Notice, card: Card) -> None:
        self._fail(self.failures)
        self.notices.append((notice, card))
        self._fail(self.after)

    async def deliver_grant(self, target: str, card: GrantCard, nonce: str) -> MessageRef:
        self._fail(self.failures)
        known = [key for key, one in self.plates.items() if one.nonce == nonce]
        repeated = bool(known) and self.repeatable
        number = known[0] if repeated else f"g{len(self.plates) + 1}"
        if not repeated:
            self.plates[number] = Plate(target, nonce, card)
        self._fail(self.after)
        return MessageRef(adapter=self.name, channel=target, message=number)

    async def update_grant(self, ref: MessageRef, card: GrantCard, nonce: str) -> None:
        self._fail(self.failures)
        plate = self.plates.get(ref.message)
        if plate is None:
            raise CopyGone("the message was deleted")
        plate.card, plate.edits = card, plate.edits + 1
        self._fail(self.after)

    async def tell_grant(self, notice: Notice, card: GrantCard) -> None:
        self._fail(self.failures)
        self.announced.append((notice, card))
        self._fail(self.after)

    def shown(self, target: str) -> Card:
        """Return the one card at a target."""
        (message,) = [one for one in self.messages.values() if one.target == target]
        return message.card

    @staticmethod
    def _fail(failures: list[Exception | None]) -> None:
        failure = failures.pop(0) if failures else None
        if failure is not None:
            raise failure
