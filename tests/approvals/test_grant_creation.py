"""Remembered decisions through the gateway: applied exactly, visibly, and taken back for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.risk import RiskRule
from gateway.domain.store import MessageContext
from gateway.errors import Conflict, InvalidRequest, Unauthorized
from gateway.models import Action, DeciderKind, Kind, Reason, RiskLevel, Status, new_id
from gateway.policy.chain import ModeDecider
from gateway.policy.grants.grant import Effect, Grant
from gateway.policy.grants.offers import offers
from gateway.policy.verdict import Verdict
from gateway.server.connections import core_over
from gateway.stores.grants import RedisGrants
from tests.world import World, assembled, click, identity, over_http, request

GIT_LOG: dict[str, Any] = {"kind": Kind.COMMAND, "arguments": {"command": "git log -n 5"}}


@pytest.fixture
async def replica(world: World, server_url: str) -> AsyncIterator[World]:
    """Yield another gateway process on the world's namespace."""
    async with assembled(server_url, world.store.keys.namespace) as other:
        yield other


async def remember(
    world: World, record: StoredRequest, action: Action = Action.APPROVE, **how: Any
) -> Grant:
    """Decide a request as ann and have it remembered; return the grant."""
    await world.core.requests.decide(click(record, action, remember=Remember(**how)))
    return (await world.core.grants.all())[0]


def widest(record: StoredRequest) -> str:
    """Return the id of the widest offer."""
    return offers(record)[-1].id


async def test_row_63_an_exact_repeat_needs_nobody_and_cites_the_grant(world: World) -> None:
    """The same action in the same session is approved at once, by the grant and not by a person."""
    grant = await remember(world, await world.submit())
    again = await world.submit()
    assert again.status is Status.APPROVED
    assert again.decision is not None
    assert (again.decision.reason, again.decision.decided_by.kind) == (
        Reason.GRANT,
        DeciderKind.GRANT,
    )
    assert again.decision.decided_by.name == grant.id
    assert (await world.submit(arguments={"command": "ls -l"})).status is Status.PENDING
    assert (await world.submit(session="other")).status is Status.PENDING
    counted = await world.core.grants.get(grant.id)
    assert counted.used == 1
    assert counted.last_used is not None
    made = [event for event in await world.events() if event.type == "grant_made"]
    assert made[0].data["grant"]["from_request"]


async def test_a_pattern_covers_its_siblings_everywhere(world: World) -> None:
    """A wider offer, in all sessions of the agent."""
    first = await world.submit(**GIT_LOG)
    grant = await remember(world, first, offer=widest(first), everywhere=True, lifetime="1d")
    assert grant.session is None
    assert grant.expires_at == grant.made_at + 86_400_000
    other = {"kind": Kind.COMMAND, "arguments": {"command": "git log --stat main"}}
    assert (await world.submit(session="s2", **other)).status is Status.APPROVED
    hostile = {"kind": Kind.COMMAND, "arguments": {"command": "git log --stat main; rm x"}}
    assert (await world.submit(session="s2", **hostile)).status is Status.PENDING


async def test_a_whole_tool_is_remembered_for_the_session_or_everywhere(world: World) -> None:
    """With other values, while the policy has it as harmless; for the session in it."""
    await world.route(Route(approvers=("ann",)), harmless="get_weather")
    first = await world.submit(tool="get_weather", arguments={"city": "Oslo"})
    grant = await remember(world, first, offer=widest(first))
    other: dict[str, Any] = {"tool": "get_weather", "arguments": {"city": "Bergen"}}
    assert (await world.submit(**other)).status is Status.APPROVED
    elsewhere = await world.submit(**other, session="s2")
    assert elsewhere.status is Status.PENDING
    everywhere = await remember(world, elsewhere, offer=widest(elsewhere), everywhere=True)
    assert (await world.submit(**other, session="s3")).status is Status.APPROVED
    # Where both cover a request, that of the session is used.
    for session, by in (("default", grant), ("s3", everywhere)):
        decision = (await world.submit(**other, session=session)).decision
        assert decision is not None
        assert decision.decided_by.name == by.id
    # What is no longer declared is asked about from that moment on, also where it was remembered.
    await world.route(Route(approvers=("ann",)))
    assert (await world.submit(**other)).status is Status.PENDING


async def test_what_is_remembered_outlives_the_gateway(server_url: str, namespace: str) -> None:
    """A gateway that starts later knows it, and so does one after a person took it back."""
    async with assembled(server_url, namespace) as world:
        grant = await remember(world, await world.submit(), everywhere=True)
    async with assembled(server_url, namespace) as world:
        assert (await world.submit()).status is Status.APPROVED
        await world.core.grant_service.revoke(grant.id, identity("ann"))
    async with assembled(server_url, namespace) as world:
        assert (await world.submit()).status is Status.PENDING


@pytest.mark.parametrize("first", [Action.APPROVE, Action.DENY])
async def test_another_answer_under_a_known_nonce_remembers_nothing(
    world: World, first: Action
) -> None:
    """What was refused, or never asked for, is not slipped in as a click that is sent again."""
    record = await world.submit()
    await world.core.requests.decide(click(record, first, nonce="same"))
    wish = Remember(everywhere=True, lifetime="revoked")
    with pytest.raises(Conflict, match="decided already"):
        await world.core.requests.decide(click(record, nonce="same", remember=wish))
    assert await world.core.grants.all() == []
    assert (await world.submit()).status is Status.PENDING


async def test_a_denial_is_remembered_and_outranks_every_approval(world: World) -> None:
    """The narrow approval stands first in time, the denial wins."""
    first = await world.submit(**GIT_LOG)
    await remember(world, first, everywhere=True, lifetime="revoked")
    rude = await world.submit(kind=Kind.COMMAND, arguments={"command": "git log"})
    denial = offers(rude, effect=Effect.DENY)[-1].id
    await remember(world, rude, Action.DENY, offer=denial, everywhere=True)
    again = await world.submit(**GIT_LOG)
    assert again.status is Status.DENIED
    assert again.decision is not None
    assert again.decision.reason is Reason.GRANT


async def test_what_a_denial_may_cover_no_mode_approves(world: World) -> None:
    """An unreadable command might be the denied one: people decide, though the route approves."""
    first = await world.submit(kind=Kind.COMMAND, arguments={"command": "touch M"})
    denial = offers(first, effect=Effect.DENY)[-2].id
    await remember(world, first, Action.DENY, offer=denial, everywhere=True)
    await world.route(Route(approvers=("ann",), mode=Mode.AUTO_APPROVE))
    hidden = {"kind": Kind.COMMAND, "arguments": {"command": "touch${IFS}M"}}
    assert (await world.submit(**hidden)).status is Status.PENDING
    plain = {"kind": Kind.COMMAND, "arguments": {"command": "ls"}}
    assert (await world.submit(**plain)).status is Status.APPROVED
    assert (await world.submit(kind=Kind.COMMAND, arguments={"command": "touch x"})).final


async def test_a_revoked_grant_decides_nothing_any_more_on_any_replica(
    world: World, replica: World
) -> None:
    """Another process that has the grant in memory asks all the same."""
    grant = await remember(world, await world.submit())
    assert (await replica.submit()).status is Status.APPROVED
    assert (await world.core.grant_service.revoke(grant.id, identity("bob"))).id == grant.id
    assert (await replica.submit()).status is Status.PENDING
    assert (await world.submit()).status is Status.PENDING
    assert await world.core.grants.all() == []
    with pytest.raises(Conflict, match="ended already: revoked, by bob"):
        await world.core.grant_service.revoke(grant.id, identity("bob"))


@dataclass
class Meanwhile:
    """Revokes all grants just before the approving ones are asked."""

    world: World | None = None
    name: str = "meanwhile"
    priority: int = 600

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Revoke, and have no opinion."""
        if self.world is not None:
            world, self.world = self.world, None
            grants = RedisGrants(world.store)
            for grant in (await grants.page(after=None, limit=9))[0]:
                await grants.end(grant, why="test", by="test")
        return None


async def test_row_54_revoking_beats_a_racing_use(server_url: str, namespace: str) -> None:
    """What Python decided on a grant that ended meanwhile, the script refuses."""
    meanwhile = Meanwhile()
    async with assembled(server_url, namespace, (meanwhile,)) as world:
        await remember(world, await world.submit())
        assert (await world.submit()).status is Status.APPROVED
        meanwhile.world = world
        assert (await world.submit()).status is Status.PENDING


@dataclass
class Denies:
    """Remembers a denial while a request is being decided."""

    world: World | None = None
    name: str = "denies"
    priority: int = 600

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Make the grant, and have no opinion."""
        if self.world is not None:
            world, self.world = self.world, None
            (allow,) = (await RedisGrants(world.store).page(after=None, limit=9))[0]
            denial = replace(allow, id=new_id(), effect=Effect.DENY)
            await RedisGrants(world.store).add(denial)
        return None


async def test_a_denial_made_meanwhile_beats_the_approval(server_url: str, namespace: str) -> None:
    """What was judged without it is judged again, before anything is stored."""
    denies = Denies()
    async with assembled(server_url, namespace, (denies,)) as world:
        await remember(world, await world.submit())
        assert (await world.submit()).status is Status.APPROVED
        denies.world = world
        assert (await world.submit()).status is Status.DENIED


async def test_uses_are_counted_exactly(world: World, replica: World) -> None:
    """Twenty at once on two replicas share five uses; the grant is dropped with its last."""
    grant = await remember(world, await world.submit(), max_uses=5)
    worlds = [world, replica] * 10
    found = await asyncio.gather(*(one.submit() for one in worlds))
    statuses = [record.status for record in found]
    assert (statuses.count(Status.APPROVED), statuses.count(Status.PENDING)) == (5, 15)
    ended = [event for event in await world.events() if event.type == "grant_ended"]
    assert [event.data["why"] for event in ended] == ["used up"]
    last = await world.core.grants.get(grant.id)
    assert last.end is not None
    assert (last.end.why, last.used) == ("used up", 5)


class Slow:
    """A clock that is an hour late."""

    def now_ms(self) -> int:
        """Return a time long past."""
        return 1_000


async def test_the_servers_clock_ends_a_grant(world: World) -> None:
    """A gateway whose clock is behind cannot use what is over; the sweep announces it."""
    grants = RedisGrants(world.store)
    late = core_over(world.store, world.feed, [ModeDecider()], Slow(), world.signer)
    grant = replace(await remember(world, await world.submit()), id=new_id(), expires_at=2_000)
    await world.core.grant_service.revoke_all(identity("ann"))
    assert await grants.add(grant) == "ok"
    record, _ = await late.approvals.submit(request(), over_http())
    assert record.status is Status.PENDING
    await world.sweeper.sweep()
    whys = [event.data["why"] for event in await world.events() if event.type == "grant_ended"]
    assert whys == ["revoked", "expired"]


async def test_a_grant_settles_what_already_waits(world: World) -> None:
    """Equal requests end with it, others go on waiting; their processes are told."""
    twins = [await world.submit() for _ in range(3)]
    other = await world.submit(arguments={"command": "pwd"})
    grant = await remember(world, twins[0])
    for twin in twins[1:]:
        settled = await world.core.requests.get(twin.id)
        assert settled.status is Status.APPROVED
        assert settled.decision is not None
        assert settled.decision.decided_by.name == grant.id
    assert (await world.core.requests.get(other.id)).status is Status.PENDING
    assert (await world.core.grants.get(grant.id)).used == 2


async def test_settling_takes_no_more_uses_than_there_are(world: World) -> None:
    """Two equal requests wait, one use is left: one goes on waiting, and the grant is dropped."""
    twins = [await world.submit() for _ in range(3)]
    tap = click(twins[0], remember=Remember(max_uses=1))
    await world.core.requests.decide(tap)
    statuses = [(await world.core.requests.get(twin.id)).status for twin in twins[1:]]
    assert sorted(statuses) == [Status.APPROVED, Status.PENDING]
    assert await world.core.grants.all() == []


async def test_a_remembered_denial_settles_what_waits_too(world: World) -> None:
    """All equal requests are denied with the first."""
    twins = [await world.submit() for _ in range(2)]
    await remember(world, twins[0], Action.DENY)
    assert (await world.core.requests.get(twins[1].id)).status is Status.DENIED


async def test_settling_passes_through_the_whole_policy(server_url: str, namespace: str) -> None:
    """A denial by another decider is no use of the grant, and asks for people where it does."""

    class Rude:
        name, priority = "rude", 1000

        async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
            """Ask for people in session s2."""
            if record.request.session != "s2":
                return None
            verdict = await ModeDecider().decide(record, Route(mode=Mode.AUTO_DENY))
            assert verdict is not None
            return replace(verdict, effect="ask")

    async with assembled(server_url, namespace, (Rude(),)) as world:
        held = await world.submit(session="s2")
        await remember(world, await world.submit(), everywhere=True)
        assert (await world.core.requests.get(held.id)).status is Status.PENDING


async def test_the_end_of_a_session_drops_its_grants(world: World) -> None:
    """A new session of the same name begins without them."""
    await remember(world, await world.submit())
    await world.core.sessions.end("default", MessageContext(agent="bot"))
    assert await world.core.grants.all() == []
    assert (await world.submit()).status is Status.PENDING


async def test_who_asked_may_not_remember_it_everywhere(world: World) -> None:
    """An agent's owner may decide on their own route, but not widen it beyond the session."""
    mine = replace(over_http(), owner="ann")
    record, _ = await world.approvals.submit(request(), mine)
    with pytest.raises(Unauthorized, match="for this session only"):
        await remember(world, record, everywhere=True)
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    await remember(world, record)
    assert (await world.submit()).status is Status.APPROVED


async def test_high_risk_is_never_remembered_nor_covered(world: World) -> None:
    """Neither a click nor an older grant lets it through."""
    first = await world.submit()
    await remember(world, first, everywhere=True, lifetime="revoked")
    rule = RiskRule(name="all", level=RiskLevel.HIGH, reason="because")
    await world.put(risks=(rule,))
    again = await world.submit()
    assert again.status is Status.PENDING
    with pytest.raises(InvalidRequest, match="cannot be remembered"):
        await world.core.requests.decide(click(again, confirmed=True, remember=Remember()))
    assert (await world.core.requests.get(again.id)).status is Status.PENDING


@pytest.mark.parametrize(
    "wish", [{"offer": "0" * 16}, {"lifetime": "2h"}, {"lifetime": "forever"}, {"max_uses": 0}]
)
async def test_what_was_not_offered_is_refused_and_nothing_decided(
    world: World, wish: dict[str, Any]
) -> None:
    """A click with a made-up scope does nothing at all."""
    record = await world.submit()
    with pytest.raises(InvalidRequest):
        await remember(world, record, **wish)
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_an_edit_is_remembered_as_edited(world: World) -> None:
    """What a person made of it is covered, what the agent asked for is asked again."""
    record = await world.submit()
    edit = click(record, Action.EDIT, arguments={"command": "pwd"}, remember=Remember())
    await world.core.requests.decide(edit)
    assert (await world.submit()).status is Status.PENDING
    assert (await world.submit(arguments={"command": "pwd"})).status is Status.APPROVED
