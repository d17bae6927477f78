"""What is dangerous takes more than a tap: a number from where the agent waits, or two people."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.card import card_of
from gateway.domain.policy_document import Mode, Route
from gateway.domain.records import Click, Remember, StoredRequest
from gateway.domain.risk import LevelRules, RiskRule, RulesByRisk, StepUp, StepUpDone
from gateway.errors import (
    BatchRefused,
    Conflict,
    GatewayError,
    InvalidRequest,
    StepUpNeeded,
    Unauthorized,
    Unconfirmed,
    WrongNumber,
)
from gateway.models import Action, Reason, RiskLevel, Status
from gateway.wire.codec import plain
from tests.world import PEOPLE, World, assembled, click, identity, over_http, request

BY_NUMBER = StepUpDone(way=StepUp.NUMBER)
DANGEROUS = {"command": "deploy prod"}
RULES = (RiskRule(name="prod", level=RiskLevel.HIGH, reason="touches prod", contains=("prod",)),)


def route(*ways: StepUp, **members: Any) -> Route:
    """Return a route whose high risk takes one of these."""
    high = RulesByRisk(high=LevelRules(step_up=ways))
    return Route(**{"approvers": ("ann", "bob", "eve"), "risk": high, **members})


NUMBER = route(StepUp.NUMBER)
PERSON = route(StepUp.PERSON)
EITHER = route(StepUp.NUMBER, StepUp.PERSON)


async def in_force(world: World, there: Route = NUMBER) -> None:
    """Put a route in force."""
    await world.put(people=PEOPLE, routes=(there,), risks=RULES)


async def asked(world: World, there: Route = NUMBER, **more: Any) -> tuple[StoredRequest, str]:
    """Return a dangerous request under a route, and the number that its agent was told."""
    await in_force(world, there)
    record = await world.submit(**{"arguments": DANGEROUS, **more})
    state = await world.approvals.state(record.id, over_http())
    return record, state.number or ""


def other_than(number: str, by: int = 1) -> str:
    """Return another number."""
    return str((int(number) - 100 + by) % 900 + 100)


async def refused(
    world: World, tap: Click, kind: type[GatewayError], why: str = "."
) -> StoredRequest:
    """Make a click that is refused; return the request as it stands."""
    with pytest.raises(kind, match=why):
        await world.core.requests.decide(tap)
    return await world.core.requests.get(tap.request_id)


async def audited(world: World, kind: str) -> list[Any]:
    """Return the events of a kind."""
    return [one for one in await world.store.history(None, 500) if one.type == kind]


async def test_the_number_from_the_agents_side_approves(world: World) -> None:
    """It is told to the agent; typed, it stands for the confirmation; record, card and event say
    that it was done, and nobody is left a number to find."""
    record, number = await asked(world)
    assert record.numbered and len(number) == 3
    done = await world.core.requests.decide(click(record, number=number))
    assert (done.status, done.stepped) == (Status.APPROVED, (BY_NUMBER,))
    outcome = card_of(done, lines=9, chars=900).outcome
    assert outcome is not None and outcome.text == "approved by ann, confirmed by number"
    (event,) = await audited(world, "approved")
    assert event.data["stepped"] == [{"way": "number"}]
    assert await world.store.number_of(record.id) is None
    assert (await world.approvals.state(record.id, over_http())).number is None


async def test_without_the_number_nothing_is_approved(world: World) -> None:
    """Also where it was confirmed, by any answer after which something runs or is taken for
    done; to deny takes nothing."""
    record, _ = await asked(world)
    for tap in (
        click(record, confirmed=True),
        click(record, Action.EDIT, arguments={"command": "prod 2"}, confirmed=True),
        click(record, Action.RESPOND, result="done", confirmed=True),
    ):
        after = await refused(world, tap, StepUpNeeded, "type the number")
        assert (after.status, after.guesses) == (Status.PENDING, 0)
    assert (await world.core.requests.decide(click(record, Action.DENY))).status is Status.DENIED


async def test_three_wrong_numbers_deny_the_request(world: World) -> None:
    """Each is counted and audited with its person, the third is the end of it for everybody, the
    right number too, and nobody is said to have denied."""
    record, number = await asked(world)
    first = await refused(
        world, click(record, number=other_than(number)), WrongNumber, "2 tries are left"
    )
    assert (first.status, first.guesses, first.revision) == (Status.PENDING, 1, 2)
    tap = click(first, number=other_than(number, 2), identity=identity("bob"))
    await refused(world, tap, WrongNumber, "one try is left")
    last = await refused(world, click(first, number=other_than(number, 3)), WrongNumber, "denied")
    assert last.decision is not None
    assert (last.status, last.decision.reason) == (Status.DENIED, Reason.WRONG_NUMBER)
    assert "wrong number was typed three times" in last.decision.sentence()
    fourth = click(last, number=number, revision=1)
    assert (await refused(world, fourth, Conflict, "decided already")).status is Status.DENIED
    counted = await audited(world, "number_refused")
    assert [one.data["person"] for one in counted] == ["ann", "bob"]
    assert len(await audited(world, "refused")) == 4
    assert not await world.core.grants.all()  # a denial of nobody's is not remembered


async def test_a_wrong_number_sent_again_counts_once(world: World) -> None:
    """A platform that delivers a click twice is told the same twice."""
    record, number = await asked(world)
    tap = click(record, number=other_than(number))
    for _ in range(4):
        after = await refused(world, tap, WrongNumber, "2 tries are left")
    assert after.guesses == 1


async def test_what_is_no_number_is_no_guess(world: World) -> None:
    """It tells nothing, so it costs nothing."""
    record, _ = await asked(world)
    after = await refused(world, click(record, number="12"), InvalidRequest, "three digits")
    assert after.guesses == 0


async def test_guesses_at_once_are_three_in_all(world: World, server_url: str) -> None:
    """On two replicas: of many wrong numbers at the same time three are counted, and every other
    one finds the request denied."""
    record, number = await asked(world)
    async with assembled(server_url, world.store.keys.namespace) as other:
        taps = [click(record, number=other_than(number, by)) for by in range(1, 13)]
        sides = (world.core.requests, other.core.requests)
        told = await asyncio.gather(
            *(sides[at % 2].decide(tap) for at, tap in enumerate(taps)), return_exceptions=True
        )
    assert sum(isinstance(one, WrongNumber) for one in told) == 3
    assert sum(isinstance(one, Conflict) for one in told) == len(taps)
    after = await world.core.requests.get(record.id)
    assert (after.status, after.guesses) == (Status.DENIED, 3)


async def test_the_number_of_another_request_and_an_older_revision_are_refused(
    world: World,
) -> None:
    """The one is a wrong number; the other is too old to be compared, and is audited."""
    record, number = await asked(world)
    other, theirs = await asked(world)
    if theirs != number:
        await refused(world, click(record, number=theirs), WrongNumber)
    edit = click(other, Action.EDIT, arguments={"command": "prod 2"}, number=theirs)
    quorum = replace(NUMBER, quorum=2)
    await in_force(world, quorum)
    edited = await world.core.requests.decide(edit)
    assert edited.status is Status.PENDING
    old = click(other, number=theirs, identity=identity("bob"))
    assert (await refused(world, old, Conflict, "changed since")).status is Status.PENDING
    assert "changed since" in (await audited(world, "refused"))[-1].data["why"]


async def test_nobody_but_an_approver_can_use_up_the_tries(world: World) -> None:
    """A stranger's number is not looked at."""
    record, number = await asked(world, replace(NUMBER, approvers=("ann",)))
    tap = click(record, number=other_than(number), identity=identity("bob"))
    assert (await refused(world, tap, Unauthorized)).guesses == 0


async def test_a_number_that_nobody_asked_for_confirms_nothing(world: World) -> None:
    """High risk without a step-up is confirmed as ever; so is an edit into it."""
    await in_force(world, Route(approvers=("ann",)))
    record, usual = await world.submit(arguments=DANGEROUS), await world.submit()
    await refused(world, click(record, number="123"), Unconfirmed)
    edit = click(usual, Action.EDIT, arguments=DANGEROUS, number="123")
    await refused(world, edit, Unconfirmed)
    assert (await world.core.requests.decide(click(record, confirmed=True))).final


async def test_a_second_person_is_a_step_up(world: World) -> None:
    """The request takes two, and says that it was two who confirmed it."""
    record, number = await asked(world, PERSON)
    assert (record.quorum, number) == (2, "")
    first = await world.core.requests.decide(click(record, confirmed=True))
    assert first.status is Status.PENDING
    tap = click(first, confirmed=True, identity=identity("bob"))
    done = await world.core.requests.decide(tap)
    assert (done.status, done.stepped) == (
        Status.APPROVED,
        (StepUpDone(way=StepUp.PERSON),),
    )
    outcome = card_of(done, lines=9, chars=900).outcome
    assert outcome is not None
    assert outcome.text == "approved by ann and bob, confirmed by a second person"


async def test_either_way_is_enough(world: World) -> None:
    """With the number one person approves; without it, they are the first of two."""
    record, number = await asked(world, EITHER)
    done = await world.core.requests.decide(click(record, number=number))
    assert (done.status, done.stepped) == (Status.APPROVED, (BY_NUMBER,))
    record, _ = await asked(world, EITHER)
    first = await world.core.requests.decide(click(record, confirmed=True))
    assert (await world.core.requests.get(record.id)).quorum == 2
    assert (first.status, first.quorum, len(first.votes)) == (Status.PENDING, 2, 1)
    tap = click(first, confirmed=True, identity=identity("bob"))
    assert (await world.core.requests.decide(tap)).status is Status.APPROVED


async def test_who_tapped_first_neither_confirms_nor_uses_up_tries(world: World) -> None:
    """Their own vote waits for a second person: the right number and a wrong one are told the same,
    no try is counted, and the other person may still type it."""
    record, number = await asked(world, EITHER)
    first = await world.core.requests.decide(click(record, confirmed=True))
    for typed in (number, *(other_than(number, by) for by in (1, 2, 3))):
        found = await refused(world, click(first, number=typed), Conflict, "You approved")
        assert (found.status, found.guesses) == (Status.PENDING, 0)
    wrong = click(first, Action.RESPOND, number=other_than(number), result="done")
    assert (await refused(world, wrong, InvalidRequest)).guesses == 0
    bob = identity("bob")
    found = await refused(world, click(first, number=other_than(number), identity=bob), WrongNumber)
    assert found.guesses == 1
    done = await world.core.requests.decide(click(found, number=number, identity=bob))
    assert (done.status, done.stepped) == (Status.APPROVED, (BY_NUMBER,))


async def test_each_of_a_quorum_does_the_step_up(world: World) -> None:
    """Somebody who voted before it was asked for votes again."""
    record, number = await asked(world, replace(NUMBER, quorum=2))
    first = await world.core.requests.decide(click(record, number=number))
    assert first.status is Status.PENDING
    await refused(world, click(first, confirmed=True, identity=identity("bob")), StepUpNeeded)
    tap = click(first, number=number, identity=identity("bob"))
    assert (await world.core.requests.decide(tap)).stepped == (BY_NUMBER,)
    before, number = await asked(world, replace(PERSON, quorum=2))
    voted = await world.core.requests.decide(click(before, confirmed=True))
    await in_force(world, replace(NUMBER, quorum=2))
    counted = click(voted, Action.DENY)
    assert (await world.core.requests.get(voted.id)).approvers is not None
    assert (await world.core.requests.decide(counted)).status is Status.DENIED


async def test_a_request_that_nobody_waits_for_is_refused_at_once(world: World) -> None:
    """Where the number is the only way; its agent is told why. A second person can do it."""
    await in_force(world)
    detached = request(arguments=DANGEROUS)
    record, _ = await world.approvals.submit(detached, over_http(), detached=True)
    assert record.decision is not None
    assert (record.status, record.decision.reason) == (Status.DENIED, Reason.RULE)
    assert "nobody waits" in record.decision.sentence()
    await in_force(world, EITHER)
    record, _ = await world.approvals.submit(
        request(arguments=DANGEROUS), over_http(), detached=True
    )
    assert (record.status, record.quorum) == (Status.PENDING, 2)


async def test_a_request_whose_number_nobody_would_see_is_refused_at_once(world: World) -> None:
    """As the hooks of agents' hosts ask: it is given none, and another way still does."""
    await in_force(world)
    blind = {"arguments": DANGEROUS, "shows_number": False}
    record, _ = await world.approvals.submit(request(**blind), over_http())
    assert record.decision is not None
    assert (record.status, record.decision.reason) == (Status.DENIED, Reason.RULE)
    await in_force(world, EITHER)
    record, _ = await world.approvals.submit(request(**blind), over_http())
    assert (record.status, record.numbered) == (Status.PENDING, False)
    assert await world.store.number_of(record.id) is None


async def test_a_request_from_before_the_rule_says_that_nobody_may_approve_it(
    world: World,
) -> None:
    """It was given no number, so it cannot be typed."""
    await in_force(world, PERSON)
    record = await world.submit(arguments=DANGEROUS)
    await in_force(world)
    seen = await world.core.requests.get(record.id)
    assert "Nobody may approve this: it needs a verification code" in " ".join(
        card_of(seen, lines=9, chars=900).notices
    )
    await refused(world, click(seen, confirmed=True), InvalidRequest, "needs a verification code")


async def test_an_edit_into_a_step_up_takes_it(world: World) -> None:
    """The number was given to its agent before it was needed; a wrong one edits nothing."""
    record, number = await asked(world, arguments={"command": "ls"})
    assert number
    edit = click(record, Action.EDIT, arguments=DANGEROUS, confirmed=True)
    assert (await refused(world, edit, StepUpNeeded)).edited is None
    wrong = replace(edit, number=other_than(number))
    after = await refused(world, wrong, WrongNumber)
    assert (after.edited, after.guesses) == (None, 1)
    right = replace(edit, number=number, revision=after.revision)
    done = await world.core.requests.decide(right)
    assert (done.status, done.stepped, done.arguments) == (
        Status.APPROVED,
        (BY_NUMBER,),
        DANGEROUS,
    )


async def test_what_takes_a_step_up_is_neither_remembered_nor_approved_with_others(
    world: World,
) -> None:
    """At any level; what was remembered before does not decide there, and to deny together is
    possible."""
    medium = RulesByRisk(
        medium=LevelRules(step_up=(StepUp.NUMBER,)), high=LevelRules(step_up=(StepUp.NUMBER,))
    )
    await in_force(world, Route(approvers=("ann",)))
    usual = await world.submit()
    await world.core.requests.decide(click(usual, remember=Remember()))
    record, number = await asked(
        world, Route(approvers=("ann",), risk=medium), arguments={"command": "ls"}
    )
    assert record.status is Status.PENDING
    seen = await world.core.requests.get(record.id)
    assert Action.APPROVE not in card_of(seen, lines=9, chars=900).remembers
    wish = click(record, number=number, remember=Remember())
    await refused(world, wish, InvalidRequest, "needs extra verification")
    with pytest.raises(BatchRefused, match="extra verification"):
        await world.core.requests.decide_all([click(record, number=number)])
    (done,) = await world.core.requests.decide_all([click(record, Action.DENY)])
    assert done.status is Status.DENIED


async def test_a_mode_decides_below_and_people_above(world: World) -> None:
    """An automatic approval does not pass what is dangerous, as ever."""
    auto = replace(NUMBER, mode=Mode.AUTO_APPROVE)
    record, number = await asked(world, auto)
    assert (record.status, bool(number)) == (Status.PENDING, True)
    assert (await world.submit()).status is Status.APPROVED


async def test_a_mode_approves_nothing_that_takes_a_step_up(world: World) -> None:
    """At any level: the route says both, and the step-up is why people are asked."""
    number = LevelRules(step_up=(StepUp.NUMBER,))
    rules = RulesByRisk(low=number, medium=number, high=number)
    auto = replace(NUMBER, mode=Mode.AUTO_APPROVE, risk=rules)
    await in_force(world, auto)
    assert (await world.submit()).status is Status.PENDING


async def test_the_script_compares_the_number_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An approval that rests on a wrong number is not written, whoever asks for it."""
    record, number = await asked(world)
    seen: list[Any] = []
    known = world.store.number_of

    async def lie(request_id: str) -> str | None:
        seen.append(await known(request_id))
        return other_than(number)

    monkeypatch.setattr(world.store, "number_of", lie)
    with pytest.raises(GatewayError):
        await world.core.requests.decide(click(record, number=other_than(number)))
    assert (await world.core.requests.get(record.id)).status is Status.PENDING
    assert seen


async def test_the_number_reaches_the_agent_over_redis(world: World) -> None:
    """In the answer to its submission, and again when it asks after a broken connection."""
    await in_force(world)
    asking = request(arguments=DANGEROUS)
    for verb, body in (("submit", plain(asking)), ("sync", {"ids": [asking.id]})):
        await world.send(verb, body)
        await world.handled()
        told = await world.reply()
        assert len(told["state"]["number"]) == 3, verb
