"""Turns under a platform's limits: shared by replicas, kept by name, and spread out when missed."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from gateway.ports.outgoing import RetryLater
from gateway.ports.rate_limit import Pace, Rate
from gateway.stores.outbox import RedisNotes
from gateway.stores.requests import RedisStore

RATE = Rate(45, 2)


class Ticks:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        return self.now


async def wait_of(pace: Pace, name: str, rate: Rate) -> float:
    """Return how long somebody is told to wait, 0 when it is their turn."""
    try:
        await pace.slot("edits", rate, name)
    except RetryLater as wait:
        return wait.seconds
    return 0.0


@pytest.fixture
def notes(store: RedisStore) -> RedisNotes:
    """Return the notes of an adapter."""
    return RedisNotes(store, "chat")


async def test_a_turn_is_kept_under_its_name_and_spent_once(notes: RedisNotes) -> None:
    """Who must wait gets one turn, whichever replica asks again; it is not spent twice."""
    clock = Ticks()
    first, second = Pace(notes, clock), Pace(notes, clock)
    rate = Rate(60, 1)
    assert await wait_of(first, "a", rate) == 0
    assert 0.5 < await wait_of(first, "b", rate) <= 1.01
    assert 0.5 < await wait_of(second, "b", rate) <= 1.01
    assert 1.5 < await wait_of(second, "c", rate) <= 2.01
    clock.now = 1_050
    assert await wait_of(second, "b", rate) == 0


async def test_missed_turns_do_not_crowd(notes: RedisNotes) -> None:
    """Twenty turns were missed by a minute: few pass, the others follow one after the other."""
    clock = Ticks()
    pace = Pace(notes, clock)
    names = [str(number) for number in range(20)]
    for name in names:
        await wait_of(pace, name, RATE)
    clock.now = 60_000
    waits = [await wait_of(pace, name, RATE) for name in names]
    passed = [wait for wait in waits if wait == 0]
    later = sorted(wait for wait in waits if wait > 0)
    assert 1 <= len(passed) <= RATE.burst + 1
    gaps = [after - before for before, after in pairwise(later)]
    assert min(gaps) > 1.2


async def test_those_who_ask_together_go_one_after_the_other_and_by_rank(notes: RedisNotes) -> None:
    """Whoever asked first goes first, in whatever order they come; two are never inside at once."""
    pace, went = Pace(notes, Ticks()), list[int]()

    async def post(rank: int) -> None:
        async with pace.turn("posts", Rate(6000, 9), str(rank), rank=rank):
            went.append(rank)
            await notes.get("anything")
            assert went[-1] == rank

    await asyncio.gather(*(post(rank) for rank in (3, 1, 4, 0, 2)))
    assert went == [0, 1, 2, 3, 4]


async def test_a_full_line_is_left_for_later_and_then_goes_on(
    notes: RedisNotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call that hangs holds the others up for a while only, and what it held is given on."""
    monkeypatch.setattr("gateway.ports.rate_limit._CROWDED_SECONDS", 0.3)
    pace, rate = Pace(notes, Ticks()), Rate(6000, 9)
    async with pace.turn("posts", rate, "hangs"):
        with pytest.raises(RetryLater):
            async with pace.turn("posts", rate, "waits"):
                pass
    async with pace.turn("posts", rate, "waits"):
        pass
