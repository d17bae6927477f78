"""A server whose memory is full refuses what is new; what people do against it still works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from gateway.domain.policy_document import Budget, Mode, PolicyDocument, Route
from gateway.domain.records import SCHEMA_VERSION, Remember
from gateway.errors import NotRemembered, OverBudget, Unauthorized
from gateway.models import Action, Status
from gateway.stores.connect import connect
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from tests.faults.server import own_server
from tests.world import AGENT, PEOPLE, World, assembled, click


@dataclass
class Full:
    """A gateway on a server of its own, and that server."""

    world: World
    server: Any

    async def fill(self) -> None:
        """Leave no byte for anything new, also when the server frees some of its own."""
        used = int((await self.server.info("memory"))["used_memory"])
        await self.server.config_set("maxmemory", used // 2)
        await self.server.config_set("maxmemory-policy", "noeviction")


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[Full]:
    """Yield a gateway whose server can be filled."""
    async with own_server(tmp_path) as server:
        client = connect(server.url)
        async with assembled(server.url, "gw", denial_minutes=5) as world:
            yield Full(world, client)
        await client.aclose()


async def test_what_waits_is_denied_and_what_is_new_is_refused(full: Full) -> None:
    """An ending frees memory first; nothing else may take any."""
    record = await full.world.submit()
    await full.fill()
    with pytest.raises(OutOfMemoryError):
        await full.world.submit()
    denied = await full.world.core.requests.decide(click(record, Action.DENY))
    assert denied.status is Status.DENIED


async def test_a_denial_counts_and_answers_the_same_call_though_redis_is_full(full: Full) -> None:
    """Nothing is written after it that could be refused; whoever denied is told that it counts."""
    records = [await full.world.submit(arguments={"command": str(one)}) for one in range(3)]
    await full.fill()
    denied = await full.world.core.requests.decide(click(records[0], Action.DENY))
    assert denied.status is Status.DENIED
    batch = [click(one, Action.DENY) for one in records[1:]]
    ended = await full.world.core.requests.decide_all(batch)
    assert {one.status for one in ended} == {Status.DENIED}
    await full.server.config_set("maxmemory", 0)
    for one in range(3):
        again = await full.world.submit(arguments={"command": str(one)})
        assert again.status is Status.DENIED


@pytest.mark.parametrize("action", [Action.APPROVE, Action.DENY])
async def test_what_follows_an_answer_never_makes_it_an_error(full: Full, action: Action) -> None:
    """The answer is recorded; whoever gave it is told what was not, and why. Sent again with room,
    the click is remembered too, once."""
    record = await full.world.submit()
    answer = click(record, action, remember=Remember(lifetime="1d"))
    await full.fill()
    with pytest.raises(NotRemembered, match="but it was not remembered: Redis is full"):
        await full.world.core.requests.decide(answer)
    await full.server.config_set("maxmemory", 0)
    kept = await full.world.core.requests.get(record.id)
    assert kept.final
    assert kept.decision is not None
    assert kept.decision.action is action
    assert await full.world.core.grants.all() == []
    for _ in range(2):
        await full.world.core.requests.decide(answer)
    assert len(await full.world.core.grants.all()) == 1


async def test_the_kill_switch_and_revocations_work(full: Full) -> None:
    """Whoever filled it is stopped and thrown out, and the audit says so."""
    world = full.world
    await world.credentials.add_approver("zoe")
    await full.fill()
    await world.store.set_stopped(True, by="root")
    assert await world.store.is_stopped()
    await world.credentials.revoke_approver("zoe")
    assert "zoe" not in {one.name for one in (await world.store.policy()).people}
    await world.credentials.revoke_agent(AGENT)
    with pytest.raises(Unauthorized):
        await world.credentials.holder(AGENT)
    await full.server.config_set("maxmemory", 0)
    told = [one.type for one in await world.events()]
    assert [one for one in told if one in ("stopped", "policy_applied", "agent_revoked")][-3:] == [
        "stopped",
        "policy_applied",
        "agent_revoked",
    ]


async def test_a_new_namespace_is_marked(full: Full) -> None:
    """Or another version could start on it, and would not read what this one writes."""
    store = RedisStore(full.world.store.redis, Keys("new"))
    await full.fill()
    await store.check_schema()
    assert int(await full.server.hget(store.keys.meta, "schema")) == SCHEMA_VERSION


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.AUTO_APPROVE])
async def test_an_agent_hands_in_so_much_a_day_whatever_becomes_of_it(
    world: World, mode: Mode
) -> None:
    """What was withdrawn or decided by a rule is kept as well, and counts."""
    current = await world.store.policy()
    route = Route(approvers=("ann",), mode=mode)
    budget = Budget(daily=4 * 1200)
    await world.store.apply(
        PolicyDocument(
            generation=current.generation, people=PEOPLE, routes=(route,), budgets=(budget,)
        ),
        by="test",
    )
    world.core.writer.forget_policy()
    for _ in range(4):
        record = await world.submit()
        if not record.final:
            await world.core.requests.decide(click(record, Action.DENY))
    with pytest.raises(OverBudget, match="today"):
        await world.submit()
