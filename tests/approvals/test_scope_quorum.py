"""Remembering widely takes more people than approving once: votes are for one scope, and fresh."""

from __future__ import annotations

import pytest

from gateway.cards.card import card_of
from gateway.cards.remember_options import scopes_of
from gateway.domain.policy_document import PolicyDocument, Route, ToolRow
from gateway.domain.records import Person, Remember, ScopeQuorum, StoredRequest
from gateway.errors import Conflict, InvalidRequest, Unauthorized
from gateway.models import Action, Status
from gateway.policy.grants.grant import Effect, Scope
from gateway.ports import ManualGrantRequest
from tests.approvals.test_grant_creation import widest
from tests.world import World, click, identity, policy, request

WIDE = ScopeQuorum(tool=2, everywhere=3)


@pytest.fixture
async def asked(world: World) -> StoredRequest:
    """Return a request on a route where one approves, and two must vote for the whole tool."""
    await route(world)
    return await world.submit(tool="deploy", arguments={"version": "staging"})


async def route(world: World, *approvers: str, quorum: int = 1, wide: ScopeQuorum = WIDE) -> None:
    """Put one route in force."""
    names = approvers or ("ann", "bob", "eve")
    await policy(
        world.store, Route(approvers=names, quorum=quorum, scope_quorum=wide), harmless="deploy"
    )
    world.core.writer.forget_policy()


async def vote(world: World, record: StoredRequest, who: str, **how: object) -> StoredRequest:
    """Vote as somebody for remembering an approval."""
    wish = Remember(**{"offer": widest(record), **how})  # type: ignore[arg-type]
    return await world.core.requests.decide(click(record, identity=identity(who), remember=wish))


async def test_the_request_waits_until_enough_vote_for_the_scope(
    world: World, asked: StoredRequest
) -> None:
    """One vote is shown and decides nothing; the second approves, and makes the grant of both."""
    voted = await vote(world, asked, "ann", lifetime="1w")
    assert voted.status is Status.PENDING
    assert await world.core.grants.all() == []
    card = card_of(voted, lines=9, chars=999)
    words = "everything that deploy can do with version and what is declared"
    assert f"1 of 2 votes to remember “{words}” for this session" in card.progress
    widest = scopes_of(voted, Action.APPROVE)[-1]
    assert "(needs 2 votes, 3 in all sessions)" in widest.words.text
    ended = await vote(world, voted, "bob", lifetime="1d", max_uses=5)
    assert ended.status is Status.APPROVED
    (grant,) = await world.core.grants.all()
    assert [one.person for one in grant.backers] == ["ann", "bob"]
    assert grant.match.scope is Scope.TOOL
    assert grant.max_uses == 5
    assert grant.expires_at == grant.made_at + 86_400_000, "the shortest life counts"
    again = await world.submit(tool="deploy", arguments={"version": "production"})
    assert again.status is Status.APPROVED


async def test_everywhere_takes_its_own_number(world: World, asked: StoredRequest) -> None:
    """Two are enough for the session's tool, not for all sessions."""
    for who in ("ann", "bob"):
        asked = await vote(world, asked, who, everywhere=True)
        assert asked.status is Status.PENDING
    assert (await vote(world, asked, "eve", everywhere=True)).status is Status.APPROVED
    assert len((await world.core.grants.all())[0].backers) == 3


async def test_approving_once_stays_possible_and_remembers_nothing(
    world: World, asked: StoredRequest
) -> None:
    """Whoever asked for more may think again; so may the next one."""
    voted = await vote(world, asked, "ann")
    with pytest.raises(Conflict, match="already"):
        await vote(world, voted, "ann")
    assert (await world.core.requests.decide(click(voted))).status is Status.APPROVED
    assert await world.core.grants.all() == []


async def test_votes_for_different_scopes_do_not_add_up(world: World, asked: StoredRequest) -> None:
    """Neither a vote for once, nor one for another place, is a vote for the whole tool."""
    await route(world, quorum=2)
    asked = await world.submit(tool="deploy", arguments={"version": "x"})
    asked = await vote(world, asked, "ann", everywhere=True)
    asked = await vote(world, asked, "bob")
    assert asked.status is Status.PENDING
    assert (await vote(world, asked, "ann")).status is Status.APPROVED
    (grant,) = await world.core.grants.all()
    assert [one.person for one in grant.backers] == ["bob", "ann"]
    assert grant.session is not None


async def test_who_thinks_again_still_has_one_vote(world: World, asked: StoredRequest) -> None:
    """A vote for another scope takes the place of the first: two people are not three."""
    await route(world, quorum=3)
    asked = await world.submit(tool="deploy", arguments={"version": "x"})
    asked = await vote(world, asked, "ann")
    asked = await vote(world, asked, "ann", everywhere=True)
    assert [one.person for one in asked.votes] == ["ann"]
    assert (await vote(world, asked, "bob", everywhere=True)).status is Status.PENDING


async def test_a_removed_voters_voice_is_void(world: World, asked: StoredRequest) -> None:
    """It is counted when the next one votes, by the policy of that moment."""
    voted = await vote(world, asked, "ann")
    await route(world, "bob", "eve")
    again = await vote(world, voted, "bob")
    assert again.status is Status.PENDING
    assert [one.person for one in again.votes] == ["bob"]
    with pytest.raises(Unauthorized):
        await vote(world, again, "ann")


async def test_a_vote_sent_again_makes_no_grant_of_what_another_decided(
    world: World, asked: StoredRequest
) -> None:
    """Ann voted for more, Bob approved once; her press arrives a second time."""
    wish = Remember(offer=widest(asked))
    tap = click(asked, remember=wish)
    voted = await world.core.requests.decide(tap)
    await world.core.requests.decide(click(voted, identity=identity("bob")))
    assert (await world.core.requests.decide(tap)).status is Status.APPROVED
    assert await world.core.grants.all() == []


async def test_a_vote_for_what_is_not_offered_does_not_count(
    world: World, asked: StoredRequest
) -> None:
    """It is refused when it is made, not when the last one votes."""
    for how in ({"offer": "0" * 16}, {"lifetime": "forever"}, {"max_uses": 0}):
        with pytest.raises(InvalidRequest):
            await vote(world, asked, "ann", **how)
    assert (await world.core.requests.get(asked.id)).votes == ()


async def test_a_denial_is_remembered_by_one(world: World, asked: StoredRequest) -> None:
    """It allows nothing, so it takes no votes."""
    done = await world.core.requests.decide(click(asked, Action.DENY, remember=Remember()))
    assert done.status is Status.DENIED
    assert len(await world.core.grants.all()) == 1


async def test_whoever_is_called_admin_does_not_speak_for_one(world: World) -> None:
    """What an admin remembered ends with them, also where a person of that name may approve."""
    boss, named = Person(name="boss", identities=("token:boss",), admin=True), Person(name="admin")
    routes, tools = (Route(approvers=("admin",)),), (ToolRow(name="deploy", harmless=True),)
    for admins, status in (((boss,), Status.APPROVED), ((), Status.PENDING)):
        generation = (await world.store.policy()).generation
        people = (*admins, named)
        document = PolicyDocument(generation=generation, people=people, routes=routes, tools=tools)
        await world.store.apply(document, by="test")
        world.core.writer.forget_policy()
        if admins:
            like = request(tool="deploy", arguments={"version": "production"})
            made = await world.core.grant_service.offers(
                identity("boss"), "bot", like, Effect.ALLOW
            )
            wish = ManualGrantRequest(agent="bot", effect=Effect.ALLOW, chosen=made[-1].id)
            await world.core.grant_service.create(identity("boss"), like, wish)
        asked = await world.submit(tool="deploy", arguments={"version": "staging"})
        assert asked.status is status


async def test_a_grant_counts_while_enough_of_its_voters_may_approve(
    world: World, asked: StoredRequest
) -> None:
    """One of two was removed: it asks again, says so, and comes back with them."""
    voted = await vote(world, asked, "ann")
    await vote(world, voted, "bob")
    same = {"tool": "deploy", "arguments": {"version": "staging"}}
    for approvers, status in ((("bob", "eve"), Status.PENDING), (("ann", "bob"), Status.APPROVED)):
        await route(world, *approvers)
        await world.core.grants.look_over()
        assert (await world.submit(**same)).status is status
        (grant,) = await world.core.grants.all()
        assert grant.suspended is (status is Status.PENDING)
    await route(world, wide=ScopeQuorum(tool=3))
    assert (await world.submit(**same)).status is Status.PENDING, "the policy asks for more by now"
    types = [event.type for event in await world.events() if event.type.startswith("grant_")]
    assert types == ["grant_made", "grant_suspended", "grant_resumed"]
