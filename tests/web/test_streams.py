"""The live stream over HTTP: what it says, and when it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from adapters.web.live_updates import MOST_STREAMS, Streams
from tests.waiting import moment
from tests.web.inbox import COMMAND, Inbox, inbox
from tests.web.visitor import Visitor, visitor

pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def stream(who: Visitor) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    """Yield the messages of a live stream that has said it is ready."""
    async with who.http.get(f"{who.url}/inbox/api/changes") as answer:
        assert answer.status == 200, await answer.text()
        messages = _messages(answer.content)
        name, data = await anext(messages)
        assert (name, data["beat"] > 0) == ("ready", True)
        yield messages


async def _messages(content: Any) -> AsyncIterator[tuple[str, Any]]:
    name = ""
    async for line in content:
        text = line.decode().rstrip("\n")
        if text.startswith("event: "):
            name = text.removeprefix("event: ")
        elif text.startswith("data: "):
            yield name, json.loads(text.removeprefix("data: "))


async def rest(messages: AsyncIterator[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return what a stream still says until it ends."""
    async with asyncio.timeout(40):
        return [message async for message in messages]


async def test_it_names_what_changed_and_nothing_else(box: Inbox) -> None:
    """Ids and the kind of change: the page reads the rest with its own rights."""
    async with visitor(box) as ann, stream(ann) as messages:
        record = await box.ask(**COMMAND)
        assert await anext(messages) == ("changed", {"id": record.id, "type": "submitted"})
        await box.decide(record)
        assert await anext(messages) == ("changed", {"id": record.id, "type": "approved"})


async def test_it_ends_on_sign_out_in_every_tab(box: Inbox) -> None:
    """At once, not at the next beat; another person's stream goes on."""
    async with (
        visitor(box) as ann,
        visitor(box, "bob") as bob,
        stream(ann) as first,
        stream(ann) as second,
        stream(bob) as other,
    ):
        assert (await ann.post("logout", {}))[0] == 200
        assert await rest(first) == []
        assert await rest(second) == []
        record = await box.ask(**COMMAND)
        assert (await anext(other))[1]["id"] == record.id


async def test_it_ends_when_the_approver_is_removed(box: Inbox) -> None:
    """No request is named to somebody who may no longer read."""
    async with visitor(box, "bob") as bob, stream(bob) as messages:
        await box.gateway.backend.credentials.revoke_approver("bob")
        assert [name for name, _ in await rest(messages) if name == "changed"] == []


async def test_one_session_has_so_many_streams(box: Inbox) -> None:
    """One more is refused with words; when one is closed there is room again."""
    async with visitor(box) as ann, stream(ann), stream(ann), stream(ann):
        async with stream(ann):
            assert await refusal(ann) == (429, "too_many_pages")
        assert MOST_STREAMS == 4
        async with asyncio.timeout(40):
            while await refusal(ann) is not None:
                await moment()


async def test_all_visitors_together_have_so_many_streams(
    box: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever signs in again and again opens no more than that."""
    monkeypatch.setattr("adapters.web.live_updates.MOST_OF_ALL", 2)
    async with visitor(box) as ann, visitor(box, "bob") as bob, stream(ann), stream(bob):
        assert await refusal(bob) == (429, "too_many_pages")


async def test_none_begins_once_the_gateway_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that asks as the gateway stops is told so, and holds nothing up."""
    made: list[Streams] = []

    class Kept(Streams):
        def __init__(self, *parts: Any) -> None:
            super().__init__(*parts)
            made.append(self)

    monkeypatch.setattr("adapters.web.adapter.Streams", Kept)
    async with inbox(tmp_path) as box, visitor(box) as ann:
        made[0].end_all()
        async with asyncio.timeout(15):
            assert await refusal(ann) == (503, "stopping")


async def refusal(who: Visitor) -> tuple[int, str] | None:
    """Return how one more stream is refused, None when it is not."""
    async with who.http.get(f"{who.url}/inbox/api/changes") as answer:
        return None if answer.status == 200 else (answer.status, (await answer.json())["code"])


async def test_it_ends_when_the_server_counts_from_lower_ids(box: Inbox) -> None:
    """As after a restore: events were missed, so the page must come back and read anew."""
    store = box.gateway.backend.store
    async with visitor(box) as ann, stream(ann) as messages:
        await store.redis.delete(store.keys.events)
        await store.redis.xadd(store.keys.events, {"type": "restored", "at": "1"}, id="1-1")
        with pytest.raises(aiohttp.ClientError):
            await rest(messages)
