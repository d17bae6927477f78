"""A chat platform that is one file, whose gateway is killed at a step of delivering a card.

Unlike the wall it may make a second message of a nonce that it knows, so that a card which is
posted twice is seen twice. Cards are pinned to two places; ann presses every card that asks her, as
soon as the last place has it, and again whenever the gateway comes back.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.cards.card import Card
from gateway.domain.records import AuditEvent, Click, Identity, MessageRef
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.errors import Conflict
from gateway.models import Action, new_id
from gateway.ports import Adapter, AdapterApi, Notice, Shown
from tests.faults.roles import Deadly

ANN = Identity(platform="board", id="ann")
PLACES = ("board:a", "board:b")
REPEATABLE = "BOARD_REPEATABLE"
DIES = "BOARD_DIES"
"""The setting that names the step to die at and the passing of it: `update 2`."""


class Board:
    """The file: a line for each time that a message is posted or changed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "board.jsonl"
        self._told = folder / "told.txt"

    def lines(self) -> list[dict[str, Any]]:
        """Return what was written on it, in order."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def messages(self) -> dict[str, dict[str, Any]]:
        """Return every message as it is seen now."""
        return {line["message"]: line for line in self.lines()}

    def told(self) -> list[str]:
        """Return the nonces of the notices on it, each once: it knows repeated ones."""
        text = self._told.read_text(encoding="utf-8") if self._told.exists() else ""
        return sorted(set(text.split()))

    def tell(self, nonce: str) -> None:
        """Put up a notice."""
        with self._told.open("a", encoding="utf-8") as file:
            file.write(f"{nonce}\n")

    def write(self, message: str, target: str, card: Card, nonce: str) -> None:
        """Have a message show a card."""
        line = {
            "message": message,
            "target": target,
            "nonce": nonce,
            "id": card.request_id,
            "revision": card.revision,
            "status": card.status.value,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class BoardAdapter(Adapter):
    """Posts to the board in the data folder."""

    name = "board"
    card_lines = 60
    card_chars = 4000

    def __init__(self) -> None:
        self._board = Board(Path(os.environ["GATEWAY_DATA_DIR"]))
        self.repeatable = os.environ[REPEATABLE] == "yes"
        step, nth = os.environ[DIES].split()
        self._at = Deadly(step, int(nth))

    @asynccontextmanager
    async def run(self, api: AdapterApi) -> AsyncIterator[None]:
        """Connect, with ann before the board."""
        async with api.feed.changes() as changes:
            pressing = asyncio.create_task(self._ann(api, changes), name="board clicks")
            try:
                yield
            finally:
                await cancel_and_wait(pressing)

    async def deliver(self, target: str, shown: Shown, nonce: str) -> MessageRef:
        """Post a card."""
        assert isinstance(shown, Card)
        self._at("deliver")
        known = [key for key, one in self._board.messages().items() if one["nonce"] == nonce]
        if self.repeatable and known:
            message = known[0]
        else:
            message = new_id()
            self._board.write(message, target, shown, nonce)
        self._at("delivered")
        return _ref(target, message)

    async def update(self, ref: MessageRef, shown: Shown, nonce: str) -> None:
        """Change a message."""
        assert isinstance(shown, Card)
        self._at("update")
        self._board.write(ref.message, ref.channel, shown, nonce)
        self._at("updated")

    async def tell(self, notice: Notice, shown: Shown) -> None:
        """Put up a notice."""
        self._at("tell")
        self._board.tell(notice.nonce)
        self._at("told")

    async def _ann(self, api: AdapterApi, changes: AsyncIterator[AuditEvent]) -> None:
        await self._press_all(api)
        async for event in changes:
            if event.type == "delivered" and event.data["target"] == PLACES[-1]:
                self._at("saved")
                await self._press_all(api)

    async def _press_all(self, api: AdapterApi) -> None:
        asking = [one for one in self._board.messages().values() if one["status"] == "pending"]
        await asyncio.gather(*(self._press(api, line) for line in asking))

    async def _press(self, api: AdapterApi, line: dict[str, Any]) -> None:
        click = Click(
            request_id=line["id"],
            revision=line["revision"],
            identity=ANN,
            action=Action.APPROVE,
            nonce=new_id(),
            copy=line["nonce"],
            ref=_ref(line["target"], line["message"]),
        )
        self._at("click")
        try:
            await api.requests.decide(click)
        except Conflict:
            return  # the other copy was pressed first
        self._at("decided")


def _ref(target: str, message: str) -> MessageRef:
    return MessageRef(adapter=BoardAdapter.name, channel=target, message=message)
