"""Turns under Slack's limits: shared by replicas, kept by name, and spread out when missed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from adapters.slack.pace import UPDATES, Limit, Pace
from gateway.delivery import TryLater
from gateway.stores.outbox import RedisNotes
from gateway.stores.store import RedisStore


class Ticks:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0

    def now_ms(self) -> int:
        return self.now


async def wait_of(pace: Pace, name: str, limit: Limit) -> float:
    """Return how long somebody is told to wait, 0 when it is their turn."""
    try:
        await pace.turn("update T1", limit, name)
    except TryLater as wait:
        return wait.seconds
    return 0.0


@pytest.fixture
def notes(store: RedisStore) -> RedisNotes:
    """Return the notes of an adapter."""
    return RedisNotes(store, "slack")


async def test_a_turn_is_kept_under_its_name_and_spent_once(notes: RedisNotes) -> None:
    """Who must wait gets one turn, whichever replica asks again; it is not spent twice."""
    clock = Ticks()
    first, second = Pace(notes, clock), Pace(notes, clock)
    limit = Limit(60, 1)
    assert await wait_of(first, "a", limit) == 0
    assert 0.5 < await wait_of(first, "b", limit) <= 1.01
    assert 0.5 < await wait_of(second, "b", limit) <= 1.01
    assert 1.5 < await wait_of(second, "c", limit) <= 2.01
    clock.now = 1_050
    assert await wait_of(second, "b", limit) == 0


async def test_missed_turns_do_not_crowd(notes: RedisNotes) -> None:
    """Twenty turns were missed by a minute: few pass, the others follow one after the other."""
    clock = Ticks()
    pace = Pace(notes, clock)
    names = [str(number) for number in range(20)]
    for name in names:
        await wait_of(pace, name, UPDATES)
    clock.now = 60_000
    waits = [await wait_of(pace, name, UPDATES) for name in names]
    passed = [wait for wait in waits if wait == 0]
    later = sorted(wait for wait in waits if wait > 0)
    assert 1 <= len(passed) <= UPDATES.burst + 1
    gaps = [after - before for before, after in pairwise(later)]
    assert min(gaps) > 1.2
