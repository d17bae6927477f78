"""A pass is offered where people answer, to who may give it, and given by the answer itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.remember_options import LIFETIME_WORDS, remember_as, scopes_of
from gateway.domain.policy_document import Route
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.risk import RiskRule
from gateway.errors import Conflict, InvalidRequest, Unauthorized
from gateway.models import Action, Context, Kind, RiskLevel, Status
from gateway.policy.grants.grant import PASSES, Grant, Shape
from gateway.policy.grants.offers import passes_for
from tests.world import World, click, identity

HOUR = 3_600_000
EDIT: dict[str, Any] = {
    "tool": "write_file",
    "kind": Kind.FILE_CHANGE,
    "context": Context(cwd="/ws"),
    "arguments": {"path": "/ws/a", "text": "x"},
}


def offered(record: StoredRequest) -> list[Shape]:
    """Return the shapes of the passes that a request's card offers."""
    return [one.match.shape for one in passes_for(record)]


async def give(
    world: World, record: StoredRequest, shape: Shape = Shape.WORK, who: str = "ann", **how: Any
) -> StoredRequest:
    """Approve a request with a pass, as somebody."""
    offer = next((one.id for one in passes_for(record) if one.match.shape is shape), "0" * 16)
    wish = Remember(offer=offer, **how)
    return await world.core.requests.decide(click(record, identity=identity(who), remember=wish))


async def passes(world: World) -> list[Grant]:
    """Return the passes in force."""
    return [one for one in await world.core.grants.all() if one.match.shape in PASSES]


async def test_the_answer_gives_the_pass(world: World) -> None:
    """It approves the request, lets the next through and counts it, until its uses are over."""
    record = await world.submit()
    assert (await give(world, record, max_uses=2)).status is Status.APPROVED
    (grant,) = await passes(world)
    assert (grant.session, grant.made_by, grant.used) == ("default", "ann", 0)
    assert grant.expires_at == grant.made_at + HOUR
    assert (await world.submit(tool="bash")).status is Status.APPROVED
    assert (await world.submit(session="other")).status is Status.PENDING
    assert (await world.core.grants.get(grant.id)).used == 1
    assert "covered 2 of the last 2" in (await world.core.grant_service.card(grant.id)).reach
    assert (await world.submit(tool="bash")).status is Status.APPROVED
    assert (await world.submit(tool="bash")).status is Status.PENDING


async def test_edits_are_offered_for_edits_alone(world: World) -> None:
    """Each pass only where it would let this very request through."""
    assert offered(await world.submit(**EDIT)) == list(PASSES)
    assert offered(await world.submit()) == [Shape.WORK, Shape.SCRIPTS]
    tests = {"kind": Kind.COMMAND, "arguments": {"command": "make test"}}
    assert offered(await world.submit(**tests)) == [Shape.SCRIPTS]
    assert offered(await world.submit(tool="anything", arguments={"x": 1})) == []
    elsewhere = {**EDIT, "arguments": {"path": "/etc/x", "text": "x"}}
    assert Shape.EDITS not in offered(await world.submit(**elsewhere))


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": Kind.COMMAND, "arguments": {"command": "rm -rf x"}},
        {"kind": Kind.COMMAND, "arguments": {"command": "cat .env"}},
        {"kind": Kind.COMMAND, "arguments": {"command": "ls\u200b"}},
        {"context": Context(env={"LD_PRELOAD": "./x"})},
        {"kind": Kind.PLAN},
    ],
)
async def test_no_pass_is_offered_for_what_none_lets_through(
    world: World, asked: dict[str, Any]
) -> None:
    """Destruction, secrets, hidden text, another environment, plans."""
    assert offered(await world.submit(**asked)) == []


async def test_no_pass_is_offered_for_high_risk_and_findings(world: World) -> None:
    """Neither what is asked about each time, nor what shows signs of danger."""
    record = await world.submit()
    assert offered(replace(record, findings=("looks destructive",))) == []
    rule = RiskRule(name="r", level=RiskLevel.HIGH, reason="because")
    await world.put(risks=(rule,))
    assert offered(await world.submit()) == []


async def test_a_pass_stands_last_and_is_never_the_default(world: World) -> None:
    """An answer that names no offer gets the narrowest; who may not give passes sees none."""
    record = await world.submit(**EDIT)
    scopes = scopes_of(record, Action.APPROVE, passes=True)
    kinds = [one.session_pass for one in scopes]
    assert kinds == sorted(kinds) and not kinds[0] and kinds[-1]
    assert "below where the agent works (now /ws)" in scopes[-3].words.text
    assert not any(one.session_pass for one in scopes_of(record, Action.APPROVE))
    assert not any(one.session_pass for one in scopes_of(record, Action.DENY, passes=True))
    await world.core.requests.decide(click(record, remember=Remember()))
    assert await passes(world) == []


async def test_only_who_may_give_it_gives_it(world: World) -> None:
    """Whoever answers for one tool alone is told so, and nothing is decided."""
    await world.route(
        Route(tools=("bash",), approvers=("ann", "eve")),
        Route(approvers=("ann",)),
    )
    record = await world.submit(tool="bash")
    assert await world.core.requests.may_pass(identity("ann"), record)
    assert not await world.core.requests.may_pass(identity("eve"), record)
    with pytest.raises(Unauthorized, match="give its session a pass"):
        await give(world, record, who="eve")
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    assert await passes(world) == []
    assert (await give(world, record)).status is Status.APPROVED


async def test_where_two_must_approve_one_gives_no_pass(world: World) -> None:
    """Neither for the request, nor by what widening asks for."""
    await world.route(Route(approvers=("ann", "bob"), quorum=2))
    record = await world.submit()
    with pytest.raises(Unauthorized, match="alone"):
        await give(world, record)
    assert not (await world.core.requests.get(record.id)).votes


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"lifetime": "1d"}, "choose a shorter time"),
        ({"lifetime": "revoked"}, "choose a shorter time"),
        ({"everywhere": True}, "choose this session"),
        ({"max_uses": 0}, "at least one use"),
    ],
)
async def test_a_pass_is_short_and_for_one_session(
    world: World, how: dict[str, Any], why: str
) -> None:
    """Longer and wider ones are refused in words, and decide nothing."""
    record = await world.submit()
    with pytest.raises(InvalidRequest, match=why):
        await give(world, record, **how)
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_twice_is_once_and_too_late_is_refused(world: World) -> None:
    """The same click again makes no second pass and ends no later one; another's is too late."""
    record = await world.submit()
    offer = passes_for(record)[0].id
    tap = click(record, remember=Remember(offer=offer, lifetime="8h"))
    await world.core.requests.decide(tap)
    (first,) = await passes(world)
    later = await world.core.remembering.let_through(
        identity("ann"), agent="bot", session="default", shape=Shape.WORK, hours=1
    )
    await world.core.requests.decide(tap)
    assert [one.id for one in await passes(world)] == [later.id]
    assert (await world.core.grants.get(first.id)).end is not None
    with pytest.raises(Conflict):
        await give(world, record, who="bob")


async def test_a_new_pass_takes_the_place_of_the_earlier(world: World) -> None:
    """Of its shape: the card never stands for two."""
    first = await world.submit(session="s", arguments={"command": "ls a"})
    second = await world.submit(session="s", arguments={"command": "ls b"})
    third = await world.submit(session="s", **EDIT)
    await give(world, third, Shape.EDITS)
    assert (await world.core.requests.get(first.id)).status is Status.PENDING
    await give(world, first, max_uses=1)
    assert (await world.core.requests.get(second.id)).status is Status.APPROVED
    await give(
        world, await world.submit(session="s", arguments={"command": "ls c"}), lifetime="15m"
    )
    (wide,) = [one for one in await passes(world) if one.match.shape is Shape.WORK]
    assert wide.max_uses is None
    assert len(await passes(world)) == 2


async def test_the_next_five_are_the_next_five(world: World) -> None:
    """The ways to end that count uses hold for ordinary offers too."""
    assert next(iter(LIFETIME_WORDS)) == "1h"
    record = await world.submit()
    wish = remember_as("", "next5", everywhere=False)
    assert (wish.lifetime, wish.max_uses) == ("1h", 5)
    await world.core.requests.decide(click(record, remember=wish))
    found = [(await world.submit()).status for _ in range(6)]
    assert found == [Status.APPROVED] * 5 + [Status.PENDING]


async def test_what_waits_goes_through_with_the_pass(world: World) -> None:
    """Its giver is asked no more about what the session asked already."""
    waiting = await world.submit(tool="bash", arguments={"command": "ls -l"})
    await give(world, await world.submit())
    ended = await world.core.requests.get(waiting.id)
    assert ended.decision is not None and ended.status is Status.APPROVED
