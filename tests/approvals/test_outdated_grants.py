"""What was remembered before its tool was declared otherwise: suspended, told once, and never
silently lifted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.approvals.policy_changes import CHANGED
from gateway.domain.policy_document import Route, ToolRow
from gateway.domain.records import RequestOutcome, StoredRequest
from gateway.domain.store import Transition, WriteResult
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import Conflict
from gateway.models import Action, DecidedBy, DeciderKind, Kind, Reason, Status
from gateway.policy.chain import ModeDecider
from gateway.policy.grants.grant import Grant, Shape
from gateway.policy.grants.offers import offers
from gateway.server.connections import core_over
from gateway.stores.grants import RedisGrants
from gateway.stores.requests import RedisStore
from tests.approvals.test_grant_creation import GIT_LOG, remember
from tests.clocks import ShiftedClock
from tests.delivery.test_outbox import Office, route
from tests.outdated import outdated
from tests.world import AGENT, World, click, identity


async def told(world: World, *kinds: str) -> list[Any]:
    """Return what the audit says of these."""
    return [one.data for one in await world.events() if one.type in kinds]


async def rests(world: World, *programs: str) -> list[Grant]:
    """Have something remembered of each of these commands that is outdated now; return it."""
    asked = [await world.submit(**call(one)) for one in programs]
    for record in asked:
        await world.core.requests.decide(click(record))
    return [await outdated(world.store, record) for record in asked]


def call(program: str) -> dict[str, Any]:
    """Return a call for which a pattern is offered."""
    return {"kind": Kind.COMMAND, "arguments": {"command": f"{program} a.txt"}}


def widest_pattern(record: StoredRequest) -> str:
    """Return the id of the widest pattern that is offered."""
    return [one.id for one in offers(record) if one.match.shape is Shape.PATTERN][-1]


async def declare(world: World, arguments: dict[str, str]) -> None:
    """Have the operator declare the arguments of one tool."""
    row = ToolRow(name="lookup_order", arguments=arguments)
    await world.put(tools=(row,))


async def test_a_declaration_that_changes_suspends_what_rests_on_it(world: World) -> None:
    """At once it covers nothing; the next look suspends it, and says why."""
    await declare(world, {"order": "data"})
    first = await world.submit(tool="lookup_order", arguments={"order": "A-1"})
    grant = await remember(world, first, offer=widest_pattern(first), lifetime="1w")
    again = {"tool": "lookup_order", "arguments": {"order": "A-2"}}
    assert (await world.submit(**again)).status is Status.APPROVED
    await world.core.grants.suspend_outdated()
    assert (await world.submit(**again)).status is Status.APPROVED
    await declare(world, {"order": "data", "refund": "amount"})
    asks = await world.submit(**again)
    assert asks.status is Status.PENDING
    assert asks.asks_because == "the tool's declaration has changed"
    for _ in range(2):
        await world.core.grants.suspend_outdated()
        (rested,) = await world.core.grants.all()
        assert rested.outdated is not None
        assert rested.outdated.why == CHANGED
        assert (await world.submit(**again)).status is Status.PENDING
    assert await told(world, "grant_outdated") == [{"grant": grant.id, "why": CHANGED, "used": 2}]
    await declare(world, {"order": "data"})
    assert (await world.submit(**again)).status is Status.PENDING, "nothing lifts it"


async def test_it_says_why_and_can_be_revoked(world: World) -> None:
    """On its card, with what to do about it; taken back once, as any other."""
    (grant,) = await rests(world, "cat")
    assert (await world.submit(**call("cat"))).status is Status.PENDING, "it covers nothing before"
    await world.core.grants.suspend_outdated()
    card = (await world.core.grants.view(grant.id)).card  # type: ignore[union-attr]
    assert card.word == "Approval suspended"
    assert CHANGED in card.notices[0]
    assert "let the agent ask again" in card.notices[1]
    await world.core.grant_service.revoke(grant.id, identity("ann"))
    with pytest.raises(Conflict, match="revoked, by ann"):
        await world.core.grant_service.revoke(grant.id, identity("ann"))


async def test_people_are_told_what_kept_an_answer_from_covering(world: World) -> None:
    """The nearest remembered approval of the tool, the first value that differs; no secret."""
    first = await world.submit(**GIT_LOG)
    await remember(world, first, offer=widest_pattern(first), lifetime="1w")
    arguments = {**GIT_LOG["arguments"], "auto_run": True}
    then = await world.submit(**{**GIT_LOG, "arguments": arguments})
    assert then.asks_because == '"auto_run" is new'
    assert (await world.store.load(then.id)).asks_because == '"auto_run" is new'  # type: ignore[union-attr]
    secret = "ghp_" + "a1B2" * 9
    hides = await world.submit(**{**GIT_LOG, "arguments": {**GIT_LOG["arguments"], secret: 1}})
    assert hides.asks_because.endswith("is new")
    assert secret not in hides.asks_because
    await world.core.requests.decide(click(then))
    await world.approvals.erase(then.id, by="test")
    assert (await world.store.load(then.id)).asks_because == ""  # type: ignore[union-attr]


async def test_no_gateway_finds_it_any_more(world: World) -> None:
    """It stands in no index, and what had been found before is refused."""
    (grant,) = await rests(world, "cat")
    keys, redis = world.store.keys, world.store.redis
    waiting = await world.submit(**call("cat"))
    before = await world.store.generation()
    await world.core.grants.suspend_outdated()
    assert await redis.hgetall(keys.grants_on(AGENT, "shell")) == {}
    assert (await RedisGrants(world.store).about(AGENT, "shell", waiting.digest))[1] == []
    by = DecidedBy(kind=DeciderKind.GRANT, name=grant.id)
    ending = RequestOutcome(
        status=Status.APPROVED, action=Action.APPROVE, reason=Reason.GRANT, by=by
    )
    after = world.core.writer.close_record(waiting, ending, revision=2)
    found = Transition(before=waiting, after=after, event="approved", generation=before)
    assert await world.store.change(found) == WriteResult.AGAIN


async def test_neither_the_recount_nor_the_policy_lifts_it(world: World) -> None:
    """Its backers went and came back, and it was looked over each time: it rests."""
    await rests(world, "cat")
    await world.core.grants.suspend_outdated()
    for approvers in (("bob",), ("ann", "bob")):
        await world.route(Route(approvers=approvers))
        await world.core.grants.look_over()
        assert (await world.submit(**call("cat"))).status is Status.PENDING
    (rested,) = await world.core.grants.all()
    assert rested.outdated is not None
    assert await told(world, "grant_suspended", "grant_resumed") == []


async def test_what_rests_on_todays_declarations_goes_on(world: World) -> None:
    """No look touches it, nor an answer to exactly one call, nor a denial."""
    wide = await world.submit(**GIT_LOG)
    await remember(world, wide, offer=widest_pattern(wide))
    await remember(world, await world.submit(tool="once"))
    await remember(world, await world.submit(tool="never"), Action.DENY)
    before = await world.core.grants.all()
    await world.core.grants.suspend_outdated()
    assert await world.core.grants.all() == before
    statuses = [(await world.submit(**one)).status for one in (GIT_LOG, {"tool": "once"})]
    assert statuses == [Status.APPROVED] * 2


class Killed(RuntimeError):
    """Stands for a gateway that is killed."""


async def test_a_crash_in_the_middle_is_made_up_for(world: World) -> None:
    """The next start settles what is left, and announces it then, once."""
    programs = ("cat", "head", "wc")
    await rests(world, *programs)
    steps: list[str] = []

    def at(step: str) -> None:
        steps.append(step)
        if steps.count("mark_grant_outdated:before") == 2:
            raise Killed

    store = RedisStore(world.store.redis, world.store.keys, at=at)
    crashing = core_over(store, world.feed, [], SystemClock(), None)
    with pytest.raises(Killed):
        await crashing.grants.suspend_outdated()
    found = await world.core.grants.all()
    assert sum(one.outdated is not None for one in found) == 1
    assert sum(one.notices for one in found) == 0
    for program in programs:
        assert (await world.submit(**call(program))).status is Status.PENDING
    await world.core.grants.suspend_outdated()
    found = await world.core.grants.all()
    assert all(one.outdated is not None for one in found)
    assert sum(one.notices for one in found) == 1
    assert len(await told(world, "grant_outdated")) == 3


async def test_a_look_that_failed_is_made_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same gateway, though no declaration has changed since."""
    await rests(world, "cat")
    store = world.core.writer.book.store
    with monkeypatch.context() as patch:
        patch.setattr(store, "mark_outdated", None)
        with pytest.raises(TypeError):
            await world.core.grants.suspend_outdated()
    await world.core.grants.suspend_outdated()
    assert len(await told(world, "grant_outdated")) == 1


@pytest.fixture
async def office(world: World) -> Office:
    """Yield an office on a route that posts to two places."""
    await route(world, targets=("rec:a", "rec:b"))
    return Office(world)


async def test_people_are_told_once_for_each_route(office: Office) -> None:
    """One notice at each place, with counts, whoever looks and however often; each card says it."""
    world = office.world
    kept = await remember(world, await world.submit(arguments={"command": "x"}))
    resting = await rests(world, "cat", "head", "wc")
    await office.soon()
    await office.settle()
    assert office.adapter.announced == []
    await asyncio.gather(*(world.core.grants.suspend_outdated() for _ in range(3)))
    for _ in range(2):
        await world.core.grants.suspend_outdated()
        await world.core.grants.look_over()
        await office.settle()
    assert [notice.target for notice, _ in office.adapter.announced] == ["rec:a", "rec:b"]
    (said,) = {card.notices for _, card in office.adapter.announced}
    assert said[0].startswith(
        "3 grants are suspended: the declarations of their tools were changed."
    )
    assert "1 stays active." in said[0]
    assert "gateway grant list --suspended" in said[0]
    cards = [plate.card for plate in office.adapter.plates.values()]
    words = {card.grant_id: card.word for card in cards}
    assert words == {kept.id: "Approval remembered"} | {
        one.id: "Approval suspended" for one in resting
    }
    assert all(card.confirm for card in cards), "each may still be revoked"
    assert len(await told(world, "grant_outdated")) == 3


async def test_what_came_later_is_settled_without_a_second_notice(office: Office) -> None:
    """Another declaration was changed: what rests on it rests too, and its card says so."""
    world = office.world
    for number, program in enumerate(("cat", "head")):
        await declare(world, {f"value{number}": "data"})
        await rests(world, program)
        await office.settle()
        await world.core.grants.suspend_outdated()
        await office.settle()
    assert len(office.adapter.announced) == 2
    words = [plate.card.word for plate in office.adapter.plates.values()]
    assert words == ["Approval suspended"] * 4


async def test_what_rests_does_not_say_that_it_ends_soon(world: World) -> None:
    """Nobody waits for its end, which comes all the same."""
    until = SystemClock().now_ms() + 3_600_000
    record = await world.submit(**GIT_LOG)
    grant = await outdated(world.store, record, expires_at=until)
    keys, redis = world.store.keys, world.store.redis
    await redis.zadd(keys.grants_ending, {grant.id: 0})
    await world.core.grants.suspend_outdated()
    await world.sweeper.sweep()
    assert await told(world, "grant_ending") == []
    await redis.hset(keys.grant(grant.id), "expires", "1")
    await redis.zadd(keys.grants_due, {grant.id: 0})
    await world.sweeper.sweep()
    assert [one["why"] for one in await told(world, "grant_ended")] == ["expired"]


async def test_what_rests_ends_after_thirty_days_without_a_word(office: Office) -> None:
    """Counted from when it came to rest, whenever it was used last; only its card says it."""
    world = office.world
    month = 30 * 86_400_000
    at = SystemClock().now_ms() - month
    grant = await outdated(world.store, await world.submit(**GIT_LOG), made_at=at)
    await office.settle()
    await world.core.grants.suspend_outdated()
    await office.settle()
    said = len(office.adapter.announced)
    for days, left in ((29, 1), (31, 0)):
        later = core_over(
            world.store, world.feed, [ModeDecider()], ShiftedClock(days * 86_400), None
        )
        await later.grants.look_over()
        assert len(await world.core.grants.all()) == left
    await office.settle()
    assert len(office.adapter.announced) == said
    assert (await world.core.grants.get(grant.id)).end is not None


async def test_remembered_anew_it_decides_again(world: World) -> None:
    """The agent asks, somebody remembers what is offered today; the old one goes on resting."""
    (old,) = await rests(world, "cat")
    await world.core.grants.suspend_outdated()
    again = await world.submit(**call("cat"))
    assert again.status is Status.PENDING
    await remember(world, again, offer=widest_pattern(again))
    assert (await world.submit(**call("cat"))).status is Status.APPROVED
    rests_ = {one.id: one.outdated is not None for one in await world.core.grants.all()}
    assert rests_.pop(old.id)
    assert list(rests_.values()) == [False]
