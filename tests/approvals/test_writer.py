"""What the one writer does about each answer of the scripts, whoever asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.approvals.request_writer import Overtaken, Writer
from gateway.domain.health_and_metrics import Tally
from gateway.domain.policy_document import Route, Ruling
from gateway.domain.records import StoredRequest
from gateway.domain.store import ChangeKind, Transition
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import Conflict, NotFound, Unreachable
from gateway.models import Reason, Status
from gateway.policy.grant_book import GrantBook
from gateway.server.background import adapter_api
from gateway.stores.grants import RedisGrants
from tests.world import World, identity, policy


def step(record: StoredRequest, **guards: Any) -> Transition:
    """Return a transition that anyone may take, under these guards."""
    after = replace(record, reminders=record.reminders + 1, revision=record.revision + 1)
    return Transition(record, after, "reminded", ChangeKind.FACT)._replace(**guards)


async def test_after_so_many_tries_the_caller_is_told_to_come_again(world: World) -> None:
    """Each try decides about the request as it stands then; how many there are is bounded."""
    clock, record = SystemClock(), await world.submit()
    book = GrantBook(RedisGrants(world.store), clock)
    writer = Writer(world.store, clock, None, book, tally=Tally(), tries=3)
    seen: list[int] = []

    async def decide(found: StoredRequest, _ruling: Ruling | None = None) -> Transition:
        seen.append(found.revision)
        assert await world.core.writer.apply(step(found))  # somebody else is faster
        return step(found)

    async def decide_all(found: Sequence[StoredRequest | None]) -> list[Transition]:
        return [await decide(one) for one in found if one]

    with pytest.raises(Unreachable, match="being changed by others"):
        await writer.update(record.id, decide)
    assert seen == [1, 2, 3]
    with pytest.raises(Unreachable, match="being changed by others"):
        await writer.update_all([record.id], decide_all)
    assert seen == [1, 2, 3, 4, 5, 6]


async def test_what_was_decided_under_an_older_policy_is_decided_again(world: World) -> None:
    """Also where nobody clicked: the policy is read again, and the request with it."""
    record, writer = await world.submit(), world.core.writer
    await policy(world.store, Route(approvers=("eve",)))
    asked: list[tuple[str, ...]] = []

    async def decide(found: StoredRequest, _ruling: Ruling | None = None) -> Transition:
        current = await writer.policy()
        asked.append(current.routes[0].approvers)
        return step(found, kind=ChangeKind.DECISION, generation=current.generation)

    assert (await writer.update(record.id, decide)).changed
    assert asked == [("ann", "bob"), ("eve",)]


async def test_a_step_is_taken_only_of_what_was_seen(world: World) -> None:
    """A step that was worked out for a request as it stood is not forced on what it became."""
    record, writer = await world.submit(), world.core.writer
    assert await writer.apply(step(record))
    assert not await writer.apply(step(record))
    assert not await writer.apply(
        step(replace(record, request=replace(record.request, id="0" * 32)))
    )
    assert (await world.core.requests.get(record.id)).reminders == 1


async def test_who_comes_after_the_deadline_ends_the_request(world: World) -> None:
    """Looking at it, as answering it: it has expired, whether the clock has said so yet or not."""
    late = await world.submit(timeout=0.001)
    api = adapter_api("web", world.core, world.store)
    with pytest.raises(Overtaken, match="expired before your decision"):
        await api.requests.claim(late.id, identity("ann"))
    assert (await world.core.requests.get(late.id)).status is Status.EXPIRED
    with pytest.raises(Conflict, match="was decided already"):
        await api.requests.claim(late.id, identity("ann"))


async def test_the_kill_switch_ends_what_it_overtakes(world: World) -> None:
    """With the switch on, what would have gone on is denied, and says why."""
    record = await world.submit()
    await world.store.set_stopped(True, by="test")
    assert not await world.core.writer.apply(step(record, kind=ChangeKind.USE))
    ended = await world.core.requests.get(record.id)
    assert ended.decision is not None
    assert (ended.status, ended.decision.reason) == (Status.DENIED, Reason.STOPPED)


async def test_the_clock_ends_nothing_early(world: World) -> None:
    """The server's clock has the last word about what has expired."""

    async def nothing(_record: StoredRequest, _ruling: Ruling) -> None:
        return None

    record = await world.submit()
    await world.approvals.expire(record.id)
    assert not (await world.core.requests.get(record.id)).final
    await world.approvals.expire("0" * 32)
    with pytest.raises(NotFound):
        await world.core.writer.update("0" * 32, nothing)
