"""Turns under a platform's limits: shared by replicas, by rank, and none lost with who took it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.ports.outgoing import Limited, RetryLater
from gateway.ports.rate_limit import Priority, Rate, RateLimiter
from gateway.stores.outbox import RedisAdapterStorage
from gateway.stores.requests import RedisStore
from tests.waiting import moment

RATE = Rate(3, 60.0)
MANY = Rate(100, 60.0)


async def wait_of(
    pace: RateLimiter,
    name: str,
    rate: Rate = RATE,
    *,
    rank: int = 0,
    leave: int = 0,
    fails: Exception | None = None,
) -> float:
    """Return how long somebody is told to wait, 0 when it was their turn."""
    try:
        async with pace.slot("edits", rate, name, rank=rank, leave=leave):
            if fails is not None:
                raise fails
    except RetryLater as wait:
        return wait.seconds
    return 0.0


@pytest.fixture
def notes(store: RedisStore) -> RedisAdapterStorage:
    """Return the notes of an adapter."""
    return RedisAdapterStorage(store, "chat")


async def test_a_limit_is_used_at_once_and_never_passed(notes: RedisAdapterStorage) -> None:
    """As many go as the platform takes, from any replica; the next one when the first is old."""
    replicas = [RateLimiter(notes), RateLimiter(notes)]
    rate = Rate(3, 0.5)
    waits = [await wait_of(replicas[n % 2], str(n), rate) for n in range(4)]
    assert waits[:3] == [0, 0, 0]
    assert 0.2 < waits[3] <= 0.502
    begun = asyncio.get_running_loop().time()
    while await wait_of(replicas[1], "3", rate):
        await moment()
    assert asyncio.get_running_loop().time() - begun > 0.15


async def test_the_line_is_by_rank_whoever_came_first(notes: RedisAdapterStorage) -> None:
    """What a person decided goes before what ended by itself, and that before everything else;
    neither who came first nor a name's place in the alphabet counts."""
    pace = RateLimiter(notes)
    for name in "abc":
        await wait_of(pace, name)
    line = {"x": Priority.OTHER, "y": Priority.ENDED, "z": Priority.DECIDED}
    for place, (name, urgency) in enumerate(line.items()):
        await wait_of(pace, name, rank=urgency.rank(place))
    wider = Rate(RATE.most + 1, RATE.seconds)
    for name, urgency in line.items():
        waits = await wait_of(pace, name, wider, rank=urgency.rank(0))
        assert (waits == 0) == (urgency is Priority.DECIDED)


async def test_what_is_not_urgent_leaves_room(notes: RedisAdapterStorage) -> None:
    """The last of a limit goes to what takes buttons away, also when nothing waits for it yet."""
    pace = RateLimiter(notes)
    other = [await wait_of(pace, name, rank=Priority.OTHER.rank(0), leave=1) for name in "abc"]
    assert other[:2] == [0, 0]
    assert other[2] > 0
    assert await wait_of(pace, "d", rank=Priority.DECIDED.rank(0)) == 0


async def test_a_place_in_line_is_lost_by_not_coming_back(
    notes: RedisAdapterStorage, store: RedisStore
) -> None:
    """Whoever died in line holds up nobody: its place is kept for a while only."""
    pace = RateLimiter(notes)
    for name in "abc":
        await wait_of(pace, name)
    await wait_of(pace, "dies", rank=Priority.CLICKED.rank(0))
    wider = Rate(RATE.most + 1, RATE.seconds)
    assert await wait_of(pace, "next", wider, rank=Priority.DECIDED.rank(0)) > 0
    await store.redis.zadd(store.keys.note("chat", "kept edits"), {"dies": 1})
    assert await wait_of(pace, "next", wider, rank=Priority.DECIDED.rank(0)) == 0


async def test_who_leaves_the_line_makes_those_behind_come_sooner(
    notes: RedisAdapterStorage, store: RedisStore
) -> None:
    """The first of those that stay is looked at again at once, once, and is told an earlier time;
    one that was told the right time is left alone."""
    pace, queue, rate = RateLimiter(notes), store.keys.dirty("chat"), Rate(3, 9.0)

    async def wait(number: int) -> float:
        with pytest.raises(RetryLater) as later:
            async with pace.turn("edits", rate, f"n{number}", rank=number, about=f"id {number}"):
                raise AssertionError
        return later.value.seconds

    for name in "abc":
        assert await wait_of(pace, name, rate) == 0
    waits = [await wait(number) for number in range(6)]
    assert max(waits[:3]) < 9.1
    assert min(waits[3:]) > 17
    for number in (0, 1):
        await pace.leave(f"n{number}")
    assert await store.redis.zrange(queue, 0, -1) == []
    await pace.leave("n2")
    assert await store.redis.zrange(queue, 0, -1) == ["id 3"]
    assert await wait(3) < 9.1
    await store.redis.delete(queue)
    for number in (4, 5):
        await wait(number)
    assert await store.redis.zrange(queue, 0, -1) == []


async def test_a_turn_that_is_free_sooner_is_taken_sooner(
    notes: RedisAdapterStorage, store: RedisStore
) -> None:
    """After a call that was never sent, whoever waits first is looked at again, also when it is
    looked at already: then once more."""
    pace, queue = RateLimiter(notes), store.keys.dirty("chat")
    for name in "abc":
        await wait_of(pace, name)
    with pytest.raises(RetryLater):
        async with pace.slot("edits", RATE, "first", rank=0, about="id"):
            raise AssertionError
    await store.redis.zadd(queue, {"id": 10**15})  # the lease of whoever looks at it
    await notes.return_turn("edits", "a")
    await wait_of(pace, "second", rank=1)
    assert await store.redis.zscore(queue, "id") <= await store.now()


async def test_a_refusal_stops_everybody_until_it_is_over(notes: RedisAdapterStorage) -> None:
    """Retry-After holds for all replicas, not only for the call that was refused."""
    assert await wait_of(RateLimiter(notes), "a", MANY, fails=Limited(30.0)) == 30.0
    assert 29 < await wait_of(RateLimiter(notes), "b", MANY) <= 30


async def test_a_call_that_was_never_sent_costs_nothing(notes: RedisAdapterStorage) -> None:
    """After an outage the whole limit is there for what waits; a call in doubt counts."""
    pace = RateLimiter(notes)
    for name in "abcdef":
        assert await wait_of(pace, name, fails=RetryLater(1.0, unsent=True)) == 1.0
    assert await wait_of(pace, "g", fails=RetryLater(1.0)) == 1.0
    assert [await wait_of(pace, name) for name in "hi"] == [0, 0]
    assert await wait_of(pace, "j") > 1


async def test_those_who_ask_together_go_one_after_the_other_and_by_rank(
    notes: RedisAdapterStorage,
) -> None:
    """Whoever asked first goes first, in whatever order they come; two are never inside at once."""
    pace, went = RateLimiter(notes), list[int]()

    async def post(rank: int) -> None:
        async with pace.turn("posts", MANY, str(rank), rank=rank):
            went.append(rank)
            await notes.get("anything")
            assert went[-1] == rank

    await asyncio.gather(*(post(rank) for rank in (3, 1, 4, 0, 2)))
    assert went == [0, 1, 2, 3, 4]


async def test_a_full_line_is_left_for_later_and_then_goes_on(
    notes: RedisAdapterStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call that hangs holds the others up for a while only, and what it held is given on."""
    monkeypatch.setattr("gateway.ports.rate_limit._CROWDED_SECONDS", 0.3)
    pace = RateLimiter(notes)
    async with pace.turn("posts", MANY, "hangs"):
        with pytest.raises(RetryLater):
            async with pace.turn("posts", MANY, "waits"):
                pass
    async with pace.turn("posts", MANY, "waits"):
        pass
