"""A server whose memory is full refuses what is new; what people do against it still works."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from gateway.domain.policy_document import Budget, Mode, PolicyDocument, Route
from gateway.domain.records import SCHEMA_VERSION
from gateway.errors import OverBudget, Unauthorized
from gateway.models import Action, Status
from gateway.stores.connect import connect
from tests.faults.server import own_server
from tests.world import AGENT, PEOPLE, World, assembled, click


@dataclass
class Full:
    """A gateway on a server of its own, and that server."""

    world: World
    server: Any

    async def fill(self) -> None:
        """Leave no byte for anything new."""
        used = int((await self.server.info("memory"))["used_memory"])
        await self.server.config_set("maxmemory", used)
        await self.server.config_set("maxmemory-policy", "noeviction")


@pytest.fixture
async def full(tmp_path: Path) -> AsyncIterator[Full]:
    """Yield a gateway whose server can be filled."""
    async with own_server(tmp_path) as server:
        client = connect(server.url)
        async with assembled(server.url, "gw") as world:
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


async def test_a_new_version_starts_and_marks_what_it_changes(full: Full) -> None:
    """Or the version before would start again, and could not read what ends meanwhile."""
    store = full.world.store
    await full.server.hset(store.keys.meta, "schema", 1)
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
