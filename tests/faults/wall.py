"""A chat platform that is one file: cards are pinned to a wall, and ann clicks on some of them.

The wall outlives the gateway, and as platforms do it makes one message of one nonce, and delivers a
click again until the gateway has answered it.
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
from gateway.domain.records import Click, Identity, MessageRef, Remember
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.errors import Conflict, Unauthorized
from gateway.models import Action, new_id
from gateway.ports import Adapter, AdapterApi, Claimant, ClaimedPlace, Notice, Shown

CHANNEL = "wall:a"
ANN = Identity(platform="wall", id="ann")


class Wall:
    """The file: a line for each time that a message is posted or changed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "wall.jsonl"

    def lines(self) -> list[dict[str, Any]]:
        """Return what was written on it, in order."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    @property
    def invitation(self) -> Path:
        """The file in which a code of the operator stands."""
        return self._path.with_name("invitation")

    def write(self, card: Card, nonce: str) -> None:
        """Have the message of a nonce show a card."""
        line = {
            "message": nonce,
            "target": CHANNEL,
            "id": card.request_id,
            "tool": json.loads(card.tool.text),  # it stands quoted
            "revision": card.revision,
            "status": card.status.value,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class WallAdapter(Adapter):
    """Posts to the wall in the data folder. What asks to be remembered, ann remembers, and
    what asks to be lifted, she lifts. What asks her to join has her type the operator's code."""

    name = "wall"
    card_lines = 60
    card_chars = 4000
    repeatable = True

    def __init__(self) -> None:
        self._wall = Wall(Path(os.environ["GATEWAY_DATA_DIR"]))
        self._clicks: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._api: AdapterApi | None = None

    @asynccontextmanager
    async def run(self, api: AdapterApi) -> AsyncIterator[None]:
        """Deliver what was clicked before, and go on."""
        assert isinstance(api, AdapterApi)
        self._api, place = api, new_id()
        await api.notes.put("place", place, seconds=60)
        assert await api.notes.extend("place", place, seconds=60)
        for line in self._wall.lines():
            self._clicks.put_nowait(line)
        clicking = asyncio.create_task(self._click(api), name="wall clicks")
        try:
            yield
        finally:
            await cancel_and_wait(clicking)

    async def deliver(self, target: str, shown: Shown, nonce: str) -> MessageRef:
        """Post a card, once."""
        assert target == CHANNEL and self._api is not None
        await self._api.notes.delay("posts", per_minute=6000, burst=100)
        await self._api.notes.take_turn("posts", nonce, rank=0, most=999, seconds=1.0, leave=0)
        known = [line["message"] for line in self._wall.lines()]
        if isinstance(shown, Card) and nonce not in known:  # what is remembered stands nowhere
            self._wall.write(shown, nonce)
            self._clicks.put_nowait(self._wall.lines()[-1])
        return _ref(nonce)

    async def update(self, ref: MessageRef, shown: Shown, nonce: str) -> None:
        """Change a message."""
        assert ref == _ref(nonce)
        if isinstance(shown, Card):
            self._wall.write(shown, nonce)

    async def tell(self, notice: Notice, shown: Shown) -> None:
        """Take what a remembered decision announces; no route asks for other notices."""
        assert not isinstance(shown, Card), notice

    async def _click(self, api: AdapterApi) -> None:
        while True:
            line = await self._clicks.get()
            if line["tool"] == "lift" and line["status"] == "pending":
                await api.operator.lift((await api.requests.get(line["id"])).request.agent, ANN)
            if line["tool"] == "join" and line["status"] == "pending":
                await self._join(api)
            if line["tool"] != "remember" or line["status"] != "pending":
                continue
            click = Click(
                request_id=line["id"],
                revision=line["revision"],
                identity=ANN,
                action=Action.APPROVE,
                nonce=line["message"],
                copy=line["message"],
                ref=_ref(line["message"]),
                remember=Remember(),
            )
            try:
                await api.requests.decide(click)
            except (Conflict, Unauthorized):
                continue

    async def _join(self, api: AdapterApi) -> None:
        """Type the code, and once more: the same claim keeps its number."""
        code, place = (
            self._wall.invitation.read_text(encoding="utf-8"),
            ClaimedPlace(target=CHANNEL, words="a"),
        )
        by = Claimant(identity=ANN, handle="ann", words="Ann")
        number = await api.claims.claim(code, by, place)
        assert await api.claims.claim(code, by, place) == number


def _ref(nonce: str) -> MessageRef:
    return MessageRef(adapter=WallAdapter.name, channel=CHANNEL, message=nonce)
