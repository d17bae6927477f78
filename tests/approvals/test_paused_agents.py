"""An agent that asks nobody for a while, after many denials in a row, and who is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.cards.card import Card
from gateway.domain.policy_document import Budget, PolicyDocument, Route
from gateway.models import Action, DeciderKind, Reason, Status
from gateway.stores.requests import RedisGroups
from tests.approvals.test_grouping import distinct, govern, settled
from tests.delivery.test_outbox import Office
from tests.world import AGENT, PEOPLE, World, click


@pytest.fixture
async def office(world: World) -> Office:
    """Yield an office on a route that posts to one place."""
    await govern(world)
    return Office(world)


async def test_denials_in_a_row_pause_an_agent_until_somebody_lifts_it(world: World) -> None:
    """Then it is told that nobody was asked; a rule or a person's leave changes nothing of it."""
    await govern(world, Budget(denials=2))
    for number in range(2):
        made = await world.submit(arguments={"command": f"rm {number}"})
        await world.core.requests.decide(click(made, Action.DENY))
    refused = await world.submit()
    assert refused.decision is not None
    assert (refused.status, refused.decision.reason) == (Status.DENIED, Reason.BREAKER)
    assert refused.decision.decided_by.kind is DeciderKind.SYSTEM
    held = RedisGroups(world.store)
    assert [one.agent for one in await held.list_paused()] == [AGENT]
    assert await held.resume_agent(AGENT, by="ann")
    assert (await world.submit()).status is Status.PENDING
    types = [one.type for one in await world.events()]
    assert (types.count("breaker_opened"), types.count("breaker_lifted")) == (1, 1)


async def paused(office: Office, **budget: Any) -> Card:
    """Pause the agent by two denials; return the card that says so where they were denied."""
    await govern(office.world, Budget(denials=2, **budget))
    for made in await distinct(office, 2):
        await office.api.requests.decide(click(made, Action.DENY))
    await office.settle()
    return digest(office)


def digest(office: Office) -> Card:
    """Return the one card that asks nothing."""
    (card,) = [one.card for one in office.adapter.messages.values() if not one.card.asks]
    return card


async def test_the_places_that_denied_are_told_of_the_pause_and_of_its_lifting(
    office: Office,
) -> None:
    """One card says until when and how to end it, without being asked; lifted, it says that."""
    card = await paused(office)
    (one,) = (await office.api.operator.status()).paused
    assert (card.word, card.paused, card.controls) == ("Paused", one.until, ())
    assert f"gateway agent lift {AGENT}" in " ".join(card.notices)
    await office.world.core.held.resume_agent(AGENT, by="ann")
    await office.settle()
    assert (digest(office).paused, digest(office).notices) == (None, ())
    assert "may ask" in digest(office).notification
    assert await office.outbox.copies(f"~{AGENT}") == {}


async def test_the_card_of_a_pause_that_ends_by_itself_says_so(office: Office) -> None:
    """Nobody does anything, and nothing is sent: the courier looks again at that time."""
    assert (await paused(office, pause=0.3)).paused is not None
    while (await office.api.operator.status()).paused:
        await office.settle()
    await settled(office)
    assert digest(office).paused is None
    assert await office.due() == 0


async def test_a_pause_with_a_crowd_shows_both_and_leaves_the_crowd(office: Office) -> None:
    """The same card counts those that wait; after the pause it stands for them alone."""
    await govern(office.world, Budget(cards=1, denials=2))
    made = await distinct(office, 4)
    for one in made[:2]:
        await office.api.requests.decide(click(one, Action.DENY))
    await settled(office)
    assert digest(office).paused is not None
    assert digest(office).notification.endswith(
        "so new ones are denied at once; 2 from before still wait; "
        "they get cards when its budget allows"
    )
    assert "make 2" in digest(office).blocks[0].text.text
    await office.world.core.held.resume_agent(AGENT, by="ann")
    await settled(office)
    assert (digest(office).word, digest(office).paused) == ("Too many requests at once", None)


async def test_a_pause_that_ends_by_itself_leaves_the_crowd_its_card(office: Office) -> None:
    """Nobody joined or left, and still the card says something else."""
    await govern(office.world, Budget(cards=1, denials=1, pause=0.3))
    made = await distinct(office, 3)
    await office.api.requests.decide(click(made[0], Action.DENY))
    await settled(office)
    assert digest(office).paused is not None
    while (await office.api.operator.status()).paused:
        await office.settle()
    await settled(office)
    assert (digest(office).word, digest(office).paused) == ("Too many requests at once", None)


async def test_a_pause_is_told_only_where_the_agent_was_denied(office: Office) -> None:
    """Another channel, which has nothing of it before it, is left in peace."""
    routes = (
        Route(tools=("pay",), approvers=("ann",), targets=("rec:money",)),
        Route(approvers=("ann",), targets=("rec:a",)),
    )
    current = await office.world.store.policy()
    document = PolicyDocument(
        generation=current.generation,
        people=PEOPLE,
        routes=routes,
        budgets=(Budget(denials=1),),
    )
    await office.world.store.apply(document, by="test")
    office.world.core.writer.forget_policy()
    await office.api.requests.decide(click(await office.world.submit(), Action.DENY))
    await office.settle()
    told = [one.target for one in office.adapter.messages.values() if not one.card.asks]
    assert told == ["rec:a"]


async def test_an_approval_begins_the_count_again(world: World) -> None:
    """Only denials without an approval between them are in a row; followers count once."""
    await govern(world, Budget(denials=2))
    for action in (Action.DENY, Action.APPROVE, Action.DENY):
        made = await world.submit(arguments={"command": f"rm {action}"})
        await world.core.requests.decide(click(made, action))
    assert (await world.submit()).status is Status.PENDING


async def test_the_pause_ends_by_itself(world: World) -> None:
    """After the pause people are asked again."""
    await govern(world, Budget(denials=1, pause=0.05))
    made = await world.submit()
    await world.core.requests.decide(click(made, Action.DENY))
    while (await world.submit()).status is not Status.PENDING:
        pass
    assert await RedisGroups(world.store).list_paused() == []
