"""Where people are told apart, an account that no person is known to have decides nothing.

A chat's group admits accounts; one human may have several, in one chat or in two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.domain.policy_document import PolicyDocument, Route, ToolRow
from gateway.domain.records import Identity, Person, Remember, ScopeQuorum, StoredRequest
from gateway.errors import Conflict, Unauthorized
from gateway.models import Risk, RiskLevel, Status
from gateway.policy.grants.grant import Shape
from tests.approvals.test_grant_creation import widest
from tests.world import World, click, over_http, request

ROLE, GROUP = "discord:S1/R1", "slack:T1/S1"
DISCORD = Identity(platform="discord", id="77", groups=(ROLE,))
SLACK = Identity(platform="slack", id="T1/U7", groups=(GROUP,))
ALICE, BOB = Person(name="alice"), Person(name="bob", identities=("slack:T1/U7",))
WANTED = "only people in the policy"


async def in_force(world: World, *people: Person, **route: Any) -> None:
    """Put a route in force that both groups may decide on."""
    current = await world.store.policy()
    document = PolicyDocument(
        generation=current.generation,
        people=people or (ALICE, BOB),
        routes=(Route(approvers=(ROLE, GROUP), **route),),
        tools=(ToolRow(name="deploy", harmless=True),),
    )
    await world.store.apply(document, by="test")
    world.core.writer.forget_policy()


async def of_alice(world: World, **more: Any) -> StoredRequest:
    """Submit a request of alice's agent."""
    made, _ = await world.approvals.submit(request(**more), replace(over_http(), owner="alice"))
    return made


@pytest.mark.parametrize("high", [True, False])
async def test_who_asked_does_not_decide_from_an_account_that_nobody_knows(
    world: World, high: bool
) -> None:
    """Of high risk, or where nobody decides on their own requests; a known person does."""
    await in_force(world, self_approval=high)
    claim = Risk(level=RiskLevel.HIGH if high else RiskLevel.LOW)
    record = await of_alice(world, risk=claim)
    for again in (click(record, identity=DISCORD, confirmed=True),) * 2:
        with pytest.raises(Unauthorized, match=WANTED) as refused:
            await world.core.requests.decide(again)
        assert "discord:77" in str(refused.value), "an admin must know what to add"
    done = await world.core.requests.decide(click(record, identity=SLACK, confirmed=True))
    assert done.decision is not None
    assert done.decision.decided_by.name == "bob"


async def test_two_accounts_are_not_two_people(world: World) -> None:
    """Neither counts in a quorum; once an admin says whose they are, they are one."""
    await in_force(world, ALICE, quorum=2)
    record = await world.submit()
    for account in (DISCORD, SLACK):
        with pytest.raises(Unauthorized, match=WANTED):
            await world.core.requests.decide(click(record, identity=account))
    both = replace(ALICE, identities=("discord:77", "slack:T1/U7"))
    await in_force(world, both, BOB, quorum=2)
    voted = await world.core.requests.decide(click(record, identity=DISCORD))
    with pytest.raises(Conflict, match="You approved; waits for 1 more"):
        await world.core.requests.decide(click(voted, identity=SLACK))


async def test_who_is_renamed_meanwhile_is_not_two_people(world: World) -> None:
    """What they said under the old name is void; a group admits them as before."""
    known = replace(ALICE, identities=("discord:77",))
    await in_force(world, known, BOB, quorum=2)
    record = await world.submit()
    await world.core.requests.decide(click(record, identity=DISCORD))
    await in_force(world, replace(known, name="alice-b"), BOB, quorum=2)
    voted = await world.core.requests.decide(click(record, identity=DISCORD))
    assert (voted.status, [vote.person for vote in voted.votes]) == (Status.PENDING, ["alice-b"])
    done = await world.core.requests.decide(click(voted, identity=SLACK))
    assert done.status is Status.APPROVED


async def test_two_accounts_do_not_remember_widely(world: World) -> None:
    """Votes for a scope count people, too; and who asked may be anybody who is not known."""
    await in_force(world, scope_quorum=ScopeQuorum(tool=2))
    record = await of_alice(world, tool="deploy", arguments={"to": "staging"})
    for wish in (Remember(offer=widest(record)), Remember(everywhere=True)):
        with pytest.raises(Unauthorized, match=WANTED):
            await world.core.requests.decide(click(record, identity=DISCORD, remember=wish))
    done = await world.core.requests.decide(click(record, identity=DISCORD, remember=Remember()))
    assert done.status is Status.APPROVED, "once, for the session, takes one who may approve"


async def test_an_unknown_account_lets_no_session_through_that_may_be_its_own(
    world: World,
) -> None:
    """On a route where nobody decides on their own requests."""
    await in_force(world, self_approval=False)
    record = await of_alice(world)
    await world.core.remembering.let_through(
        DISCORD, agent="bot", session="default", shape=Shape.WORK, hours=1
    )
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_where_nobody_is_told_apart_a_group_is_enough(world: World) -> None:
    """An ordinary request, and one of high risk of an agent that is nobody's."""
    await in_force(world)
    done = await world.core.requests.decide(click(await of_alice(world), identity=DISCORD))
    assert done.status is Status.APPROVED
    high = await world.submit(risk=Risk(level=RiskLevel.HIGH))
    done = await world.core.requests.decide(click(high, identity=DISCORD, confirmed=True))
    assert done.status is Status.APPROVED
