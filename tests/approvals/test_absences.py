"""Who is asked while somebody is away: the delegate, or everybody as ever; nobody gets a right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.shared_texts import standing_of
from gateway.delivery.reminders_and_escalation import Reminders, Rerouting
from gateway.delivery.request_cards import mentions
from gateway.domain.absences import Absence
from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Identity, Person, StoredRequest
from gateway.domain.risk import LevelRules, RulesByRisk
from gateway.errors import InvalidRequest, Unauthorized
from gateway.models import Action, Origin, Risk, RiskLevel, Status
from gateway.ports import say_event
from tests.clocks import ShiftedClock
from tests.world import World, assembled, click, identity

HOUR = 3_600_000
HIGH = Risk(level=RiskLevel.HIGH)


async def leave(world: World, who: str = "ann", to: str = "bob", hours: float = 1) -> str:
    """Have somebody name a delegate for some hours."""
    until = world.clock.now_ms() + int(hours * HOUR)
    return await world.core.away.leave(identity(who), to, until, "Europe/Berlin")


async def seen(world: World, **changes: Any) -> tuple[str, ...]:
    """Submit a request; return who is asked to approve it."""
    return asked_by(await world.core.requests.get((await world.submit(**changes)).id))


def asked_by(record: StoredRequest) -> tuple[str, ...]:
    """Return who is asked to approve a request, as its card says."""
    found = standing_of(record).left
    assert found is not None and record.approvers is not None
    return found


async def followed(world: World, record: StoredRequest, ahead: float = 0) -> StoredRequest:
    """Have the leader look at a request until there is nothing to do at once."""
    while await Reminders(world.core, ShiftedClock(ahead)).look(record.id) == 0.05:
        pass
    return await world.core.requests.get(record.id)


async def two_rooms(world: World, **members: Any) -> None:
    """Have ann, bob and eve approve, and eve alone what the tool `pay` does."""
    routes = (
        Route(name="pay", tools=("pay",), approvers=("ann", "eve")),
        Route(approvers=("ann", "bob", "eve"), **members),
    )
    await world.route(*routes)


async def test_the_delegate_is_asked_instead_and_no_right_changes(world: World) -> None:
    """Where bob may approve anyway, he is asked; where he may not, ann is asked as ever. Both keep
    the rights that they had."""
    await two_rooms(world)
    told = await leave(world)
    assert told.startswith("ann is away until ") and "bob is asked instead on default." in told
    ours, record = await world.submit(), await world.submit(tool="pay")
    assert [(one.person, one.delegate) for one in ours.away] == [("ann", "bob")]
    assert record.away == ()
    assert await seen(world) == ("bob", "eve")
    assert await seen(world, tool="pay") == ("ann", "eve")
    with pytest.raises(Unauthorized, match="not an approver"):
        await world.core.requests.decide(click(record, identity=identity("bob")))
    done = await world.core.requests.decide(click(record))  # ann, who is away
    assert done.status is Status.APPROVED


async def test_it_begins_and_ends_once_in_the_audit(world: World) -> None:
    """What is said twice is one event; pending requests say it; an end without an absence is
    nothing."""
    record = await world.submit()
    until = world.clock.now_ms() + HOUR
    for _ in range(2):
        await world.core.away.leave(identity("ann"), "bob", until, "UTC")
        now = await followed(world, record)
        assert now.revision == record.revision + 1 and asked_by(now) == ("bob",)
    for says in ("You are back: requests ask you again.", "You are not away."):
        assert await world.core.away.come_back(identity("ann")) == says
        now = await followed(world, record)
        assert now.revision == record.revision + 2 and asked_by(now) == ("ann", "bob")
    assert await seen(world) == ("ann", "bob")
    kinds = ("away_begun", "away_ended", "reassigned")
    found = [one for one in await world.events() if one.type in kinds]
    assert [one.type for one in found] == ["away_begun", "reassigned", "away_ended", "reassigned"]
    assert say_event(found[0]).startswith("ann is away until 20")
    assert say_event(found[0]).endswith("; bob is asked instead")


async def test_it_ends_by_itself(server_url: str, namespace: str) -> None:
    """At its time the person is asked again, and nobody has to say so."""
    clock = ShiftedClock()
    async with assembled(server_url, namespace, clock=clock) as world:
        await leave(world, hours=1)
        record = await world.submit(timeout=7200)
        assert asked_by(await followed(world, record)) == ("bob",)
        left = await Reminders(world.core, clock).look(record.id)
        assert left is not None and 3500 < left <= 3600
        clock.ahead = 3601
        assert asked_by(await followed(world, record, 3601)) == ("ann", "bob")
        assert await seen(world) == ("ann", "bob")
        assert await world.core.away.find(identity("ann")) == (None, ("bob",))


@pytest.mark.parametrize("hours", [-1, 0, 24 * 60 + 1, 24 * 365 * 1000])
async def test_a_time_is_ahead_and_near(world: World, hours: float) -> None:
    """Nobody is away since yesterday, or for ever."""
    with pytest.raises(InvalidRequest, match="not within the next 60 days"):
        await leave(world, hours=hours)
    assert await world.core.away.find(identity("ann")) == (None, ("bob",))


@pytest.mark.parametrize("to", ["ann", "eve", "mallory", "", "token:ann", "slack:T1/S1"])
async def test_a_delegate_may_approve_already(world: World, to: str) -> None:
    """Neither the person, nor somebody without the right, nor anybody unknown."""
    with pytest.raises(InvalidRequest, match="may approve nothing that you may"):
        await leave(world, to=to)
    assert not [one for one in await world.events() if one.type == "away_begun"]


@pytest.mark.parametrize("who", [identity("mallory"), Identity(platform="slack", id="T1/UANN")])
async def test_a_stranger_is_nobodys_voice(world: World, who: Identity) -> None:
    """An account that the policy does not know names no delegate and ends no absence."""
    await leave(world)
    for call in (
        world.core.away.find(who),
        world.core.away.leave(who, "bob", world.clock.now_ms() + HOUR, ""),
        world.core.away.come_back(who),
    ):
        with pytest.raises(Unauthorized, match="only people in the policy"):
            await call
    assert await seen(world) == ("bob",)


async def test_nobody_ends_the_absence_of_another(world: World) -> None:
    """Bob comes back from nothing; ann stays away."""
    await leave(world)
    assert await world.core.away.come_back(identity("bob")) == "You are not away."
    assert await seen(world) == ("bob",)


async def test_a_delegate_who_loses_the_right_is_asked_no_more(world: World) -> None:
    """The policy changes while ann is away: she is asked again, or the others are."""
    await two_rooms(world)
    await leave(world)
    record = await world.submit()
    await world.route(Route(approvers=("ann", "eve")))
    stale = await world.core.requests.get(record.id)  # nobody has followed it yet
    assert asked_by(stale) == ("ann", "eve")
    await Rerouting(world.core).look(record.id)
    assert await world.store.redis.zscore(world.store.keys.dirty("followups"), record.id)
    found = await followed(world, record)
    assert found.away == () and asked_by(found) == ("ann", "eve")
    with pytest.raises(Unauthorized, match="not an approver"):
        await world.core.requests.decide(click(found, identity=identity("bob")))


async def test_two_delegates_in_a_circle_are_both_asked(world: World) -> None:
    """The second one is refused; if both were kept at the same moment, neither counts."""
    await leave(world)
    with pytest.raises(InvalidRequest, match=r"ann is away until .*name somebody else"):
        await leave(world, "bob", "ann")
    notes = world.core.away._notes
    text = await notes.get("away ann")
    assert text is not None
    swapped = text.replace("ann", "?").replace("bob", "ann").replace("?", "bob")
    await notes.put("away bob", swapped, seconds=3600)
    assert await seen(world) == ("ann", "bob")


async def test_a_delegate_who_is_away_too_stands_in_for_nobody(world: World) -> None:
    """Bob goes away after ann named him: he is replaced by eve, and ann is asked again."""
    await two_rooms(world)
    await leave(world)
    await leave(world, "bob", "eve")
    assert await seen(world) == ("ann", "eve")


async def test_a_requester_stands_in_for_nobody(world: World) -> None:
    """Even where people may approve their own requests, and where they may not."""
    for allowed in (True, False):
        await two_rooms(world, self_approval=allowed)
        await leave(world)
        asked = await seen(world, origin=Origin(channel="token", sender="bob"))
        assert "ann" in asked


async def test_high_risk_needs_a_word_in_the_policy(world: World) -> None:
    """Ann is asked about high risk herself, unless the route says otherwise."""
    for allowed, asked in ((False, ("ann", "bob", "eve")), (True, ("bob", "eve"))):
        await two_rooms(world, high_risk_delegates=allowed)
        await leave(world)
        assert await seen(world, risk=HIGH) == asked


async def test_a_risk_level_with_other_approvers_counts_by_itself(world: World) -> None:
    """At high risk only ann may approve: a delegate of other levels changes nothing there."""
    rules = RulesByRisk(high=LevelRules(approvers=("ann", "eve")))
    await two_rooms(world, high_risk_delegates=True, risk=rules)
    await leave(world)
    assert await seen(world, risk=HIGH) == ("ann", "eve")
    assert await seen(world) == ("bob", "eve")


async def test_a_quorum_that_needs_the_person_asks_the_person(world: World) -> None:
    """Two must approve and only two may: ann is asked. With eve there are enough; and once ann has
    approved, one is missing, and she is not named any more."""
    await world.route(Route(approvers=("ann", "bob"), quorum=2))
    await leave(world)
    assert await seen(world) == ("ann", "bob")
    await two_rooms(world, quorum=2)
    record = await world.submit(arguments={"command": "pwd"})
    assert await seen(world) == ("bob", "eve")
    after = await world.core.requests.decide(click(record))
    assert (await followed(world, after)).away == ()
    card = await world.core.requests.draw(after, "token", lines=9, chars=900)
    assert card.progress == "1 of 2 approvals: ann; waits for bob or eve"


async def test_a_card_says_who_is_asked(world: World) -> None:
    """Until it is decided."""
    await two_rooms(world, quorum=2)
    await leave(world)
    record = await world.core.requests.get((await world.submit()).id)
    card = await world.core.requests.draw(record, "token", lines=9, chars=900)
    (said,) = [one for one in card.notices if "away" in one]
    assert said.startswith("ann is away until ") and said.endswith("; bob is asked instead.")
    assert card.progress == "0 of 2 approvals; waits for bob and eve"
    done = await world.core.requests.decide(click(record, Action.DENY, identity=identity("bob")))
    card = await world.core.requests.draw(done, "token", lines=9, chars=900)
    assert not [one for one in card.notices if "away" in one]


def test_nobody_is_dropped_where_the_delegate_is_not_mentioned() -> None:
    """In each workspace the delegate is mentioned, or else the person. Groups stay."""
    people = (
        Person(name="ann", identities=("slack:T1/UANN", "slack:T2/UANN2", "discord:1")),
        Person(name="bob", identities=("slack:T1/UBOB",)),
    )
    policy = PolicyDocument(people=people)
    gone = (Absence(person="ann", delegate="bob", until=1),)
    route = Route(approvers=("ann", "bob", "slack:T1/S1"))
    assert mentions(policy, route, "slack", gone) == ("T2/UANN2", "T1/UBOB", "T1/S1")
    assert mentions(policy, route, "discord", gone) == ("1",)
    by_account = Route(approvers=("slack:T1/UANN", "slack:T1/UBOB"))
    assert mentions(policy, by_account, "slack", gone) == ("T1/UBOB",)
    without = Route(approvers=("ann", "slack:T1/S1"))
    assert mentions(policy, without, "slack", gone) == ("T1/UANN", "T2/UANN2", "T1/S1")


async def test_an_edit_to_high_risk_asks_the_person(world: World) -> None:
    """The absence is looked up again after each change of the request."""
    await two_rooms(world)
    await leave(world)
    record = await world.submit()
    assert asked_by(await world.core.requests.get(record.id)) == ("bob", "eve")
    assert "followups" in record.queues, "so that the leader looks at it after each change"
    risen = replace(record, risk=HIGH)
    ruling = (await world.core.writer.policy()).ruling_on(record.request)
    assert (await world.core.away.renew(risen, ruling)).away == ()
