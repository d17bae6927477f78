"""How grants come to be and end: crashes, limits, admins, disuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.approvals.services import Core, OtherStores
from gateway.domain.policy_document import Route
from gateway.domain.records import Person, Remember
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import Conflict, Unauthorized
from gateway.models import Action, Kind, Reason, Status
from gateway.policy.grants.grant import Effect
from gateway.ports import ManualGrantRequest
from gateway.server.app import run_gateway
from gateway.server.connections import core_over
from gateway.server.settings import Settings
from gateway.stores.grants import RedisGrants
from gateway.stores.outbox import RedisAdapterStorage, RedisOutbox
from gateway.stores.requests import RedisGroups, RedisStore
from tests.approvals.test_grant_creation import GIT_LOG, remember, widest
from tests.clocks import ShiftedClock
from tests.world import AGENT, World, click, identity, over_http, policy, request


class Broken(BaseException):
    """Stands for a gateway that is killed."""


async def test_a_click_retried_after_a_crash_still_remembers(world: World) -> None:
    """The decision was stored, the grant was not: the same click makes up for it, once."""
    record = await world.submit()
    tap = click(record, remember=Remember())
    steps: list[str] = []

    def at(step: str) -> None:
        steps.append(step)
        if step == "grant_add:before" and steps.count(step) == 1:
            raise Broken

    store = RedisStore(world.store.redis, world.store.keys, at=at)
    crashing = core_over(store, world.feed, [], SystemClock(), world.signer)
    with pytest.raises(Broken):
        await crashing.requests.decide(tap)
    assert (await world.core.requests.get(record.id)).status is Status.APPROVED
    await crashing.requests.decide(tap)
    await world.core.requests.decide(tap)
    (grant,) = await world.core.grants.all()
    await world.core.grant_service.revoke(grant.id, identity("ann"))
    await world.core.requests.decide(tap)
    assert await world.core.grants.all() == []


async def test_row_62_the_kill_switch_beats_every_grant(world: World) -> None:
    """With it on, a covered request is denied."""
    await remember(world, await world.submit())
    await world.store.set_stopped(True, by="test")
    stopped = await world.submit()
    assert stopped.status is Status.DENIED
    assert stopped.decision is not None
    assert stopped.decision.reason is Reason.STOPPED


async def test_there_is_an_end_to_patterns(world: World) -> None:
    """Patterns are tried one by one, so their number is limited; exact grants are not."""
    core = Core(
        world.store,
        world.feed,
        [],
        SystemClock(),
        signer=world.signer,
        stores=OtherStores(
            RedisGrants(world.store, most_patterns=1),
            RedisOutbox(world.store),
            RedisGroups(world.store),
            RedisAdapterStorage(world.store, "suggestions"),
        ),
        denial_minutes=0,
    )
    world = replace(world, core=core)
    first = await world.submit(**GIT_LOG)
    await remember(world, first, offer=widest(first))
    second = await world.submit(kind=Kind.COMMAND, arguments={"command": "git status"})
    with pytest.raises(Conflict, match="too many"):
        await remember(world, second, offer=widest(second))
    await remember(world, await world.submit(arguments={"command": "x"}))


async def test_only_an_admin_makes_a_grant_without_a_request(world: World) -> None:
    """Pre-approval is an admin's; the grant then works like any other."""
    record = await world.submit()
    match = (await remember(world, record)).match
    await world.core.grant_service.revoke_all(identity("ann"))
    wish = ManualGrantRequest(agent="bot", effect=Effect.ALLOW, chosen=match, lifetime="1w")
    for nobody in ("ann", "stranger"):
        with pytest.raises(Unauthorized):
            await world.core.grant_service.create(identity(nobody), record.id, wish)
        with pytest.raises(Unauthorized):
            await world.core.grant_service.offers(identity(nobody), "bot", record.id, Effect.ALLOW)
    current = await world.store.policy()
    root = Person(name="root", identities=("token:root",), admin=True)
    await world.store.apply(replace(current, people=(*current.people, root)), by="test")
    made = await world.core.grant_service.create(identity("root"), record.id, wish)
    assert made.made_by == "root"
    assert (await world.submit(session="any")).status is Status.APPROVED


async def test_only_those_concerned_end_a_grant(world: World) -> None:
    """Strangers, and people of other routes, cannot; its maker can, even when removed since."""
    grant = await remember(world, await world.submit())
    for nobody in ("eve", "stranger"):
        with pytest.raises(Unauthorized):
            await world.core.grant_service.revoke(grant.id, identity(nobody))
        assert await world.core.grant_service.revoke_all(identity(nobody)) == []
    await policy(world.store, Route(approvers=("bob",)))
    await world.core.grant_service.revoke(grant.id, identity("ann"))


async def test_the_reach_is_counted_from_history(world: World) -> None:
    """Before it is confirmed, an approver sees what the grant would have done."""
    for number in range(3):
        arguments = {"command": f"git log -n {number}"}
        record = await world.submit(kind=Kind.COMMAND, arguments=arguments)
        await world.core.requests.decide(
            click(record, Action.DENY if number == 2 else Action.APPROVE)
        )
    record = await world.submit(**GIT_LOG)
    reach = await world.core.remembering.reach(record, widest(record))
    assert (reach.looked_at, reach.covered, reach.approved, reach.denied) == (3, 3, 2, 1)


async def test_the_clock_ends_no_grant_that_may_still_be_used(world: World) -> None:
    """A gateway whose clock is ahead takes nothing away, and nothing is announced after the end."""
    grant = await remember(world, await world.submit(), everywhere=True, lifetime="1d")
    grants = RedisGrants(world.store)
    assert not await grants.end(grant, why="expired", by="the clock", only_spent=True)
    assert (await world.submit()).status is Status.APPROVED
    assert await grants.end(grant, why="revoked", by="ann")
    said = await grants.say(
        grant, "told", before="", after="soon", event="grant_ending", announced=False
    )
    assert not said
    assert "grant_ending" not in {one.type for one in await world.events()}


async def test_with_memory_only_a_restart_forgets_all(tmp_path: Path) -> None:
    """By its setting, a gateway on the same data asks again for what it had remembered."""
    settings = Settings(data_dir=tmp_path / "state", port=0, adapters=(), grants="memory")
    for remembered in (1, 0):
        async with run_gateway(settings) as gateway:
            if remembered:
                await policy(gateway.backend.store, Route(approvers=("ann",)))
                await gateway.backend.credentials.add_agent(AGENT)
                gateway.core.writer.forget_policy()
            record, _ = await gateway.core.approvals.submit(request(), over_http())
            assert record.status is Status.PENDING
            wish = Remember(everywhere=True, lifetime="revoked") if remembered else None
            await gateway.core.requests.decide(click(record, remember=wish))
            assert len(await gateway.core.grants.all()) == remembered


async def test_what_nobody_uses_is_dropped_and_memory_forgets_all(world: World) -> None:
    """A grant without an end goes after 30 days without use; one with an end waits for it."""
    first = await world.submit()
    await remember(world, first, lifetime="revoked")
    await remember(world, await world.submit(arguments={"command": "pwd"}), lifetime="1w")
    for days, left in ((29, 2), (31, 1)):
        later = core_over(world.store, world.feed, [], ShiftedClock(days * 86_400), None)
        await later.grants.look_over()
        assert len(await world.core.grants.all()) == left
    await world.core.grants.forget_all("test")
    assert await world.core.grants.all() == []
