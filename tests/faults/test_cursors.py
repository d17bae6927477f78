"""Stream ids that an agent made up, or that begin again lower down, leave nobody deaf."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import Unreachable
from gateway.stores.event_feed import RedisFeed
from gateway.wire.codec import plain
from tests.world import AGENT, World, click, request

GREATEST = f"{2**64 - 1}-{2**64 - 1}"
FAR_AHEAD = "99999999999999-0"


@pytest.mark.parametrize("chosen", [FAR_AHEAD, GREATEST])
async def test_an_agent_that_chose_the_greatest_id_is_still_read(world: World, chosen: str) -> None:
    """It is handled as if it came now, and the next entry has an ordinary id again."""
    first, second = request(timeout=60.0), request()
    await world.send("submit", plain(first), entry=chosen)
    async with world.ingress().running():
        state = (await world.reply())["state"]
        assert state["id"] == first.id
        record = await world.core.requests.get(first.id)
        assert record.deadline == record.created + 60_000
        await world.send("submit", plain(second))
        assert (await world.reply())["id"] == second.id


async def test_entries_behind_a_lower_id_are_read(world: World) -> None:
    """A stream that begins anew with lower ids, as on a restored server, is read from its start."""
    stream = world.store.keys.ingress(AGENT)
    first, second, third = request(), request(), request()
    async with world.ingress().running():
        await world.send("submit", plain(first))
        assert (await world.reply())["id"] == first.id
        await world.store.redis.delete(stream)
        await world.send("submit", plain(second), entry="1-1")
        assert (await world.reply())["id"] == second.id
        await world.send("submit", plain(third), entry="1-2")
        assert (await world.reply())["id"] == third.id


async def test_a_wiped_stream_is_read_on(world: World) -> None:
    """`XADD MAXLEN 0` costs an agent its own unread entries, and nothing that comes after."""
    lost, after = request(), request()
    await world.send("submit", plain(lost))
    await world.store.redis.xadd(
        world.store.keys.ingress(AGENT), {"v": "1"}, maxlen=0, approximate=False
    )
    async with world.ingress().running():
        await world.send("submit", plain(after))
        assert (await world.reply())["id"] == after.id
    assert await world.events(lost.id) == []


async def test_the_event_feed_goes_back(world: World) -> None:
    """Behind a lower last id the feed hears new events, and those who listened are told to look."""
    feed = RedisFeed(world.blocking, world.store.keys, block_ms=50)
    record = await world.submit()
    events = world.store.keys.events
    async with feed.running():
        async with feed.changes() as changes, feed.watch(record.id) as wait:
            await world.store.redis.xadd(events, await fields_of(world, events), id=FAR_AHEAD)
            while (await anext(changes)).id != FAR_AHEAD:
                pass
            await wait(5)
            older = await world.store.redis.xrange(events, count=1)
            await world.store.redis.delete(events)
            await world.store.redis.xadd(events, older[0][1], id=older[0][0])
            assert await wait(5)
            with pytest.raises(Unreachable):
                await anext(changes)
        async with feed.changes() as changes, asyncio.timeout(40):
            await world.core.requests.decide(click(record))
            assert (await anext(changes)).type == "approved"


async def fields_of(world: World, stream: str) -> dict[str, str]:
    """Return the fields of a stream's last entry."""
    last: dict[str, str] = (await world.store.redis.xrevrange(stream, count=1))[0][1]
    return last
