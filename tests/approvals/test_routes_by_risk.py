"""A route may ask for other approvers and more people at a level of risk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.card import card_of
from gateway.domain.policy_document import Route
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.risk import LevelRules, RiskRule, RulesByRisk
from gateway.errors import Conflict, Unauthorized
from gateway.models import Action, RiskLevel, Status
from gateway.policy.policy_file_reader import (
    BadPolicy,
    differences,
    find_lockout,
    read_policy,
    unanswerable_levels,
)
from tests.world import PEOPLE, World, click, identity, request

HIGH = LevelRules(approvers=("bob", "eve"), quorum=2)
ROUTE = Route(approvers=("ann", "bob"), risk=RulesByRisk(high=HIGH))
RULES = (
    RiskRule(name="prod", level=RiskLevel.HIGH, reason="touches prod", contains=("prod",)),
    RiskRule(name="read", level=RiskLevel.LOW, reason="only reads", contains=("cat ",)),
)
DANGEROUS = {"command": "deploy prod"}


async def in_force(world: World, route: Route = ROUTE, **members: Any) -> None:
    """Put a route with levels in force."""
    values = {"people": PEOPLE, "routes": (route,), "risks": RULES, **members}
    await world.put(**values)


def notices(record: StoredRequest) -> str:
    """Return what a card warns of."""
    return " ".join(card_of(record, lines=9, chars=900).notices)


async def test_each_level_has_its_own_approvers_and_quorum(world: World) -> None:
    """Who may approve an ordinary call may not approve a dangerous one, and the other way round."""
    await in_force(world)
    usual, dangerous = await world.submit(), await world.submit(arguments=DANGEROUS)
    assert (usual.quorum, dangerous.quorum) == (1, 2)
    seen = await world.core.requests.get(dangerous.id)
    assert seen.approvers is not None and seen.approvers.names == ("bob", "eve")
    with pytest.raises(Unauthorized, match="not an approver"):
        await world.core.requests.decide(click(dangerous, confirmed=True))
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(click(usual, identity=identity("eve")))
    for name, status in (("bob", Status.PENDING), ("eve", Status.APPROVED)):
        tap = click(dangerous, identity=identity(name), confirmed=True)
        assert (await world.core.requests.decide(tap)).status is status
    assert (await world.core.requests.decide(click(usual))).status is Status.APPROVED


async def test_a_level_may_need_fewer_people(world: World) -> None:
    """What only reads takes one of the two that the route asks for."""
    low = RulesByRisk(low=LevelRules(quorum=1))
    await in_force(world, Route(approvers=("ann", "bob"), quorum=2, risk=low))
    record = await world.submit(arguments={"command": "cat notes"})
    assert (record.quorum, (await world.submit()).quorum) == (1, 2)
    assert (await world.core.requests.decide(click(record))).status is Status.APPROVED


async def test_an_edit_that_raises_the_risk_needs_the_people_of_the_higher_level(
    world: World,
) -> None:
    """One who may approve at both levels has voted with the edit; the second must agree."""
    await in_force(world)
    record = await world.submit()
    edit = click(record, Action.EDIT, identity=identity("bob"), arguments=DANGEROUS, confirmed=True)
    after = await world.core.requests.decide(edit)
    assert (after.status, after.quorum, after.risk.level) == (
        Status.PENDING,
        2,
        RiskLevel.HIGH,
    )
    assert [vote.person for vote in after.votes] == ["bob"]
    tap = click(after, identity=identity("eve"), confirmed=True)
    done = await world.core.requests.decide(tap)
    assert done.decision is not None and done.decision.arguments == DANGEROUS


async def test_an_edit_beyond_its_editor_goes_to_those_who_may(world: World) -> None:
    """Nothing is approved, earlier votes are void, the card says for whom it waits, and its editor
    may still deny nothing and approve nothing there."""
    await in_force(world, replace(ROUTE, quorum=2))
    record = await world.submit()
    voted = await world.core.requests.decide(click(record, identity=identity("bob")))
    edit = click(voted, Action.EDIT, arguments=DANGEROUS)
    after = await world.core.requests.decide(edit)
    assert (after.status, after.votes, after.arguments) == (Status.PENDING, (), DANGEROUS)
    said = "ann may not approve this version, which is of high risk. It needs bob or eve."
    assert said in notices(after)
    # The same click sent again is the same click, and what was seen before is too old to approve.
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(edit)
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(click(after, confirmed=True))
    with pytest.raises(Conflict, match="changed since"):
        old = click(voted, identity=identity("bob"), confirmed=True)
        await world.core.requests.decide(old)
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


async def test_what_is_remembered_below_a_level_does_not_hold_on_it(world: World) -> None:
    """A grant of somebody who may approve low risk only is none for medium risk."""
    medium = RulesByRisk(medium=LevelRules(approvers=("bob",)))
    await in_force(world, Route(approvers=("ann", "bob"), risk=medium))
    low = await world.submit(arguments={"command": "cat notes"})
    await world.core.requests.decide(click(low, remember=Remember()))
    assert (await world.submit(arguments={"command": "cat notes"})).status is Status.APPROVED
    await in_force(world, Route(approvers=("ann", "bob"), risk=RulesByRisk(low=medium.medium)))
    assert (await world.submit(arguments={"command": "cat notes"})).status is Status.PENDING


async def test_explain_names_who_would_be_asked_at_the_risk(world: World) -> None:
    """With how many of them it takes."""
    await in_force(world, people=(replace(PEOPLE[0], admin=True), *PEOPLE[1:]))
    told = await world.core.explanations.explain(identity("ann"), request(arguments=DANGEROUS))
    assert (told.approvers, told.quorum) == (("bob", "eve"), 2)
    told = await world.core.explanations.explain(identity("ann"), request())
    assert (told.approvers, told.quorum) == (("ann", "bob"), 1)


async def test_who_is_removed_goes_from_every_level(world: World) -> None:
    """Taking an approver's right back takes it at all levels."""
    await in_force(world)
    await world.credentials.revoke_approver("bob")
    policy = await world.store.policy()
    assert policy.routes[0].at(RiskLevel.HIGH).approvers == ("eve",)
    assert policy.routes[0].approvers == ("ann",)


FILE = """
[[people]]
name = "ana"
[[people]]
name = "ben"

[[routes]]
approvers = ["ana", "ben"]

[routes.risk.high]
approvers = ["ben"]
"""


def test_a_policy_file_says_what_holds_at_a_level() -> None:
    """What a level leaves out is as the route says, and `apply --check` shows what changes."""
    policy = read_policy(FILE)
    (route,) = policy.routes
    assert route.at(RiskLevel.HIGH).approvers == ("ben",)
    assert route.at(RiskLevel.HIGH).quorum == 1
    assert route.at(RiskLevel.LOW) is route
    before = replace(policy, routes=(replace(route, risk=RulesByRisk()),))
    (line,) = differences(before, policy)
    assert line.startswith("~ route default: risk: ") and '"ben"' in line


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ("quorum = 2", "only 1 may"),
        ("quorom = 2", "quorom"),
        ('step_up = ["finger"]', "step_up"),
        ("[routes.risk.huge]", "huge"),
        ("[routes.risk.low]\nquorum = 2", "medium risk needs 1 people, but low risk needs 2"),
        ('[routes.risk.low]\nstep_up = ["number"]', "low risk needs extra verification"),
        ('[routes.risk.medium]\napprovers = ["bea"]', "neither a person"),
    ],
)
def test_a_mistaken_level_refuses_the_file(more: str, word: str) -> None:
    """Also one on which a higher risk would be easier to approve than a lower one."""
    with pytest.raises(BadPolicy, match=word):
        read_policy(FILE + more)


def test_a_level_that_nobody_could_answer_is_said() -> None:
    """Before it is put in force; a policy is locked only where nobody could approve anything."""
    policy = read_policy(FILE)
    assert unanswerable_levels(policy, ["ana", "ben"]) == []
    (said,) = unanswerable_levels(policy, ["ana"])
    assert "nobody could approve high risk on route default" in said
    assert find_lockout(policy, ["ana"]) == ""
    assert find_lockout(policy, []) != ""
