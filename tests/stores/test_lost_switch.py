"""Where Redis lost the key of the kill switch, nothing is approved until an operator says more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import Remember, StoredRequest
from gateway.errors import Conflict, Unreachable
from gateway.models import Action, Status
from gateway.policy.grants.grant import Effect
from gateway.stores.grants import RedisGrants
from gateway.stores.requests import RedisStore
from tests.approvals.test_decision_dates import Late
from tests.hooks.stage import reviewed_in
from tests.world import PROCESS, World, assembled, click, identity, over_http

OTHER = "q" * 16


async def lose(store: RedisStore) -> None:
    """Drop the key."""
    await store.redis.delete(store.keys.meta)


async def refuse(doing: Any) -> None:
    """Check that something is refused, and that the refusal names the command to run."""
    with pytest.raises(Unreachable, match="nothing is approved; run `gateway stop-all`"):
        await doing


async def ask(world: World, **how: Any) -> None:
    """Put a route in force, and have the gateway read it."""
    await world.route(Route(approvers=("ann", "bob"), **how))


async def test_nothing_is_approved_handed_out_or_remembered(world: World) -> None:
    """By no person, vote, grant or rule, in no process; what denies still works."""
    waiting = await world.submit()
    await ask(world, quorum=2)
    voted = await world.submit(arguments={"command": "two"})
    await ask(world)
    taken = await world.submit(arguments={"command": "taken"})
    await world.core.requests.decide(click(taken))
    mine = over_http(PROCESS)
    assert (await world.approvals.state(taken.id, mine)).decision is not None
    granted = await world.submit(arguments={"command": "granted"})
    await world.core.requests.decide(click(granted, remember=Remember()))
    (grant,) = await world.core.grants.all()
    free, _ = await world.approvals.submit(
        (await world.submit(arguments={"command": "free"})).request, over_http(None)
    )
    await world.core.requests.decide(click(free))
    used = (await world.core.grants.get(grant.id)).used
    await lose(world.store)
    world.core.writer.forget_policy()
    await refuse(world.core.requests.decide(click(waiting)))
    await refuse(world.core.requests.decide(click(voted)))
    await refuse(world.core.requests.decide_all([click(waiting)]))
    await refuse(world.submit(arguments={"command": "granted"}))
    await refuse(world.submit(arguments={"command": "new"}))
    await refuse(world.approvals.consume(free.id, over_http(OTHER)))
    with pytest.raises(Conflict, match="kill switch"):
        await world.approvals.consume(taken.id, mine)
    await refuse(RedisGrants(world.store).add(replace(grant, id="ab" * 16)))
    denying = replace(grant, id="cd" * 16, effect=Effect.DENY)
    assert await RedisGrants(world.store).add(denying) == "ok"
    seen = [await world.approvals.state(taken.id, mine)]
    seen += await world.approvals.sync([taken.id, free.id], mine)
    assert [one.decision for one in seen] == [None] * 3
    for verb, body in (("sync", {"ids": [taken.id]}), ("consume", {"id": taken.id})):
        await world.send(verb, body)
        await world.handled()
        assert "decision" not in (await world.reply()).get("state", {}), verb
    await ask(world, mode=Mode.AUTO_APPROVE)
    await refuse(world.submit(arguments={"command": "by a rule"}))
    assert (await world.core.grants.get(grant.id)).used == used
    for record in (waiting, voted):
        kept = await world.core.requests.get(record.id)
        assert (kept.status, kept.votes) == (Status.PENDING, ())
    denied = await world.core.requests.decide(click(waiting, Action.DENY))
    assert denied.status is Status.DENIED
    await world.sweeper.sweep()
    assert (await world.core.requests.get(voted.id)).status is Status.PENDING


@pytest.fixture
async def hooked(server_url: str, namespace: str) -> AsyncIterator[World]:
    """Yield a gateway whose requests are judged after they are stored."""
    async with assembled(server_url, namespace, (Late(),)) as made:
        yield made


async def test_no_hook_approves(hooked: World) -> None:
    """Its answer is stored by the same script."""
    record = await hooked.submit()
    await lose(hooked.store)
    await refuse(reviewed_in(hooked, record.id))
    kept = await hooked.store.load(record.id)
    assert kept is not None
    assert kept.status is Status.PENDING


@pytest.mark.parametrize("on", [True, False])
async def test_an_operator_says_what_counts(world: World, on: bool) -> None:
    """Either command ends it, under a generation that no gateway has read before."""
    record = await world.submit()
    before = await world.store.generation()
    await lose(world.store)
    await world.store.check_schema()
    assert await world.store.is_stopped() is None
    switch = (await world.core.operator.status()).switch
    assert (switch.on, "it is unknown whether" in switch.state) == (True, True)
    current = await world.store.policy()
    people = tuple(replace(one, admin=True) for one in current.people)
    await world.put(people=people)
    await world.core.operator.stop_all(identity("ann"), on=on)
    assert await world.store.is_stopped() is on
    assert await world.store.generation() > before
    if on:
        with pytest.raises(Conflict, match="kill switch is on"):
            await world.core.requests.decide(click(record))
    else:
        done: StoredRequest = await world.core.requests.decide(click(record))
        assert done.status is Status.APPROVED


async def test_a_new_namespace_is_marked_and_one_in_use_is_not(store: RedisStore) -> None:
    """Only what holds nothing is new."""
    await store.redis.delete(store.keys.meta)
    await store.check_schema()
    assert await store.is_stopped() is False
    await store.note("something", data={})
    await lose(store)
    await store.check_schema()
    assert await store.is_stopped() is None
