"""The stage of the recording adapter: its messages stand in memory."""

from __future__ import annotations

from typing import Any

from gateway.cards.grant_cards import GrantCard
from gateway.domain.records import Click, Identity, MessageRef
from gateway.errors import GatewayError
from gateway.models import Action, new_id
from gateway.ports import AdapterApi
from gateway.ports.outgoing import DeliveryFailed, Notice, RetryLater
from tests.recording import Message, Plate, RecordingAdapter


class Memory:
    """The recording adapter."""

    target, nowhere, who = "rec:a", "rec:nowhere", "rec:ann"

    def __init__(self) -> None:
        self._messages: dict[str, Message] = {}
        self._plates: dict[str, Plate] = {}
        self._announced: list[tuple[Notice, GrantCard]] = []
        self._failures: list[Exception | None] = []
        self._edits: list[Exception] = []
        self._told: list[str] = []

    def adapter(self, api: AdapterApi) -> Any:
        self._api = api
        return _Refusing(
            messages=self._messages,
            plates=self._plates,
            announced=self._announced,
            failures=self._failures,
            edits=self._edits,
        )

    def texts(self) -> list[str]:
        plates = [self._plate(one.card) for one in self._plates.values()]
        return [*self._requests(), *plates]

    def announced(self) -> list[str]:
        return [" ".join([card.outcome, *card.notices]) for _, card in self._announced]

    def _plate(self, card: GrantCard) -> str:
        facts = [fact.text.text for fact in card.facts]
        until = [self.moment(card.until)] if card.until else []
        end = "" if card.ended else "Revoke"
        return " ".join(
            [card.title, card.words.text, *facts, *until, *card.notices, card.outcome, end]
        )

    def _requests(self) -> list[str]:
        return [
            " ".join(
                [one.card.title, *(str(block) for block in one.card.blocks), *one.card.notices]
                + ([self.moment(one.card.paused)] if one.card.paused else [])
                + [control.label for control in one.card.controls]
                + ([one.card.outcome.text] if one.card.outcome else [])
            )
            for one in self._messages.values()
        ]

    def links(self) -> list[str]:
        return [one.card.inbox for one in self._messages.values() if one.card.inbox]

    def moment(self, at_ms: int) -> str:
        return str(at_ms)

    def delete(self) -> None:
        self._messages.clear()
        self._plates.clear()

    async def press(self) -> None:
        key, message = list(self._messages.items())[-1]
        card = message.card
        press = Click(
            request_id=card.request_id,
            revision=card.revision,
            identity=Identity(platform="rec", id="ann"),
            action=Action.APPROVE,
            nonce=new_id(),
            copy=message.nonce,
            ref=MessageRef(adapter="rec", channel=message.target, message=key),
        )
        try:
            await self._api.requests.decide(press)
        except GatewayError as refusal:
            self._told.append(str(refusal))

    async def revoke(self) -> None:
        key, plate = list(self._plates.items())[-1]
        assert plate.card.confirm, "there is no button any more"
        ref = MessageRef(adapter="rec", channel=plate.target, message=key)
        who = Identity(platform="rec", id="ann")
        try:
            await self._api.grants.revoke(plate.card.grant_id, who, copy=plate.nonce, ref=ref)
        except GatewayError as refusal:
            self._told.append(str(refusal))

    def told(self) -> list[str]:
        return self._told

    def refuse_edits(self, times: int) -> None:
        self._edits += [DeliveryFailed("not allowed")] * times

    def limit_posts(self) -> None:
        self._failures.append(RetryLater(0.05))


class _Refusing(RecordingAdapter):
    """A recording adapter that knows one place, and whose edits may fail apart from posts."""

    def __init__(self, *, edits: list[Exception], **members: Any) -> None:
        super().__init__(**members)
        self._edits = edits

    async def deliver(self, target: str, card: Any, nonce: str) -> MessageRef:
        if target == Memory.nowhere:
            raise DeliveryFailed("there is no such place")
        return await super().deliver(target, card, nonce)

    async def update(self, ref: MessageRef, card: Any, nonce: str) -> None:
        if self._edits:
            raise self._edits.pop()
        await super().update(ref, card, nonce)
