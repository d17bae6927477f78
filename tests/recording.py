"""An adapter that posts cards into memory, for tests of everything behind posted cards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway.cards.card import Card
from gateway.cards.grant_cards import GrantCard
from gateway.domain.records import MessageRef
from gateway.ports import Adapter, AdapterApi, CopyGone, Notice, Shown


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
class RecordingAdapter(Adapter):
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
    async def run(self, api: AdapterApi) -> AsyncIterator[None]:
        yield

    async def deliver(self, target: str, shown: Shown, nonce: str) -> MessageRef:
        self._fail(self.failures)
        posted: Mapping[str, Message | Plate] = (
            self.plates if isinstance(shown, GrantCard) else self.messages
        )
        known = [key for key, one in posted.items() if one.nonce == nonce]
        repeated = bool(known) and self.repeatable
        number = known[0] if repeated else str(len(posted) + 1)
        if not repeated:
            # A repeated post leaves the message as it is.
            if isinstance(shown, GrantCard):
                number = f"g{number}"
                self.plates[number] = Plate(target, nonce, shown)
            else:
                self.messages[number] = Message(target, nonce, shown)
        self._fail(self.after)
        return MessageRef(adapter=self.name, channel=target, message=number)

    async def update(self, ref: MessageRef, shown: Shown, nonce: str) -> None:
        self._fail(self.failures)
        message: Any = self.messages.get(ref.message) or self.plates.get(ref.message)
        if message is None:
            raise CopyGone("the message was deleted")
        message.card, message.edits = shown, message.edits + 1
        self._fail(self.after)

    async def tell(self, notice: Notice, shown: Shown) -> None:
        self._fail(self.failures)
        if isinstance(shown, GrantCard):
            self.announced.append((notice, shown))
        else:
            self.notices.append((notice, shown))
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
