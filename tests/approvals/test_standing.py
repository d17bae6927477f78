"""Who may approve, as the cards say it: by the policy of the moment, wherever a request is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cards.card import card_of
from gateway.domain.policy_document import Route
from gateway.domain.records import Approvers, Identity, Query, Remember, StoredRequest
from gateway.errors import Conflict, InvalidRequest, Unauthorized
from gateway.models import Action, DecidedBy, DeciderKind, Kind, Question, Risk, RiskLevel, Status
from gateway.policy.chain import MODIFY
from gateway.policy.verdict import Verdict
from tests.world import World, assembled, click, identity, over_http, request

PAIR = Route(approvers=("ann", "bob", "eve"), quorum=2)
ROLE = "slack:T1/S9"


async def in_force(world: World, route: Route) -> None:
    """Put one route in force."""
    await world.route(route)


async def of_ann(world: World, **more: object) -> StoredRequest:
    """Submit a request of ann's agent, and read it as people do."""
    made, _ = await world.approvals.submit(request(**more), replace(over_http(), owner="ann"))
    return await world.core.requests.get(made.id)


@pytest.mark.parametrize(
    ("route", "high", "names"),
    [
        (Route(approvers=("ann", "bob")), False, ("ann", "bob")),
        (Route(approvers=("ann", "bob"), self_approval=False), False, ("bob",)),
        (Route(approvers=("ann", "bob")), True, ("bob",)),
        (Route(approvers=("ann", ROLE)), False, ("ann", ROLE)),
        (Route(approvers=("bob", "nobody we know")), False, ("bob",)),
    ],
)
async def test_those_are_named_who_may_decide(
    world: World, route: Route, high: bool, names: tuple[str, ...]
) -> None:
    """Not who asked, where that bars them, and nobody whom the policy does not know; groups are
    named as the policy writes them. Each person named may indeed decide."""
    await in_force(world, route)
    level = RiskLevel.HIGH if high else RiskLevel.LOW
    record = await of_ann(world, risk=Risk(level=level))
    assert record.approvers == Approvers(names=names)
    for name in ("ann", "bob", "eve"):
        may = await world.core.requests.may_decide(identity(name), record) is None
        assert may == (name in names)


async def test_an_account_in_the_route_is_named_as_its_person(world: World) -> None:
    """Once, though the route names them twice."""
    account = identity("bob").written
    await in_force(world, Route(approvers=("bob", account, "ann")))
    assert (await of_ann(world)).approvers == Approvers(names=("bob", "ann"))


@pytest.mark.parametrize(
    ("route", "why"),
    [
        (Route(approvers=()), "its route has no approvers"),
        (Route(approvers=("ann",), self_approval=False), "none of the approvers of its route may"),
    ],
)
async def test_where_nobody_may_approve_it_is_said_and_not_offered(
    world: World, route: Route, why: str
) -> None:
    """As soon as the policy says so, also on what waits; and nobody may."""
    waiting = await world.submit(id="7" * 32)
    await in_force(world, route)
    record = await of_ann(world)
    card = card_of(record, lines=9, chars=99)
    assert any(one.startswith(f"Nobody may approve this: {why}") for one in card.notices)
    assert {control.action for control in card.controls} <= {Action.DENY, Action.ABORT}
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(click(record))
    now = await world.core.requests.get(waiting.id)
    assert bool(now.approvers and now.approvers.nobody) == (route.approvers == ())


async def test_every_way_to_read_a_request_says_who_may(world: World) -> None:
    """One by one, at a card's revision, in a list, and after a vote or a claim; once it has ended
    there is nothing to say."""
    await in_force(world, PAIR)
    record, api = await world.submit(), world.core.requests
    (listed,) = (await api.page(Query())).items
    alone = await api.get(record.id)
    at_revision = await api.get(record.id, revision=record.revision)
    claimed = await api.claim(record.id, identity("bob"))
    voted = await api.decide(click(claimed))
    (again,) = await api.decide_all([click(voted, nonce="again", identity=identity("bob"))])
    for read in (alone, listed, at_revision, claimed, voted):
        assert read.approvers == Approvers(names=PAIR.approvers)
    assert (again.status, again.approvers) == (Status.APPROVED, None)


async def test_who_approves_twice_is_told_who_is_missing(world: World) -> None:
    """In place of a reproach; the vote counts once. Another answer of theirs still counts."""
    await in_force(world, PAIR)
    record = await world.core.requests.decide(click(await world.submit()))
    with pytest.raises(Conflict, match=r"^You approved; waits for 1 more: bob or eve$"):
        await world.core.requests.decide(click(record, nonce="twice"))
    assert len((await world.core.requests.get(record.id)).votes) == 1
    denied = await world.core.requests.decide(click(record, Action.DENY, nonce="no"))
    assert denied.status is Status.DENIED


async def test_a_question_that_takes_two_people_is_offered_to_nobody(world: World) -> None:
    """One person answers a question, so the gateway takes no answer there; its card says so."""
    await in_force(world, PAIR)
    asked = (Question(id="q", text="Which one?"),)
    takes = (Action.ANSWER, Action.DENY)
    record = await of_ann(world, questions=asked, kind=Kind.QUESTION, allowed=takes)
    card = card_of(record, lines=9, chars=99)
    assert "it needs 2 people, but only one can answer a question." in card.notices[0]
    assert card.notices[0].startswith("Nobody may answer this: ")
    assert card.progress == ""
    assert [control.action for control in card.controls] == [Action.DENY]
    with pytest.raises(InvalidRequest, match="2 people"):
        await world.core.requests.decide(click(record, Action.ANSWER, answers={"q": "this"}))


async def test_who_wants_it_remembered_may_still_approve_without(world: World) -> None:
    """Where one person is enough and remembering takes two, Approve is not given away."""
    scopes = replace(PAIR.scope_quorum, everywhere=2)
    await in_force(world, replace(PAIR, quorum=1, scope_quorum=scopes))
    wish = Remember(everywhere=True)
    record = await world.core.requests.decide(click(await world.submit(), remember=wish))
    offered = card_of(record, lines=9, chars=99, reader="ann").controls
    assert (record.status, Action.APPROVE in {one.action for one in offered}) == (
        Status.PENDING,
        True,
    )
    done = await world.core.requests.decide(click(record, nonce="without"))
    assert done.status is Status.APPROVED


async def test_the_event_of_the_end_names_all_who_approved(world: World) -> None:
    """So does the sentence; the decision itself, which agents check, is the last one's."""
    await in_force(world, PAIR)
    record = await world.core.requests.decide(click(await world.submit()))
    done = await world.core.requests.decide(click(record, identity=identity("bob")))
    assert (await world.events(record.id))[-1].data["approved_by"] == ["ann", "bob"]
    assert done.decision is not None
    assert done.decision.decided_by.name == "bob"
    outcome = card_of(done, lines=9, chars=99).outcome
    assert outcome is not None
    assert outcome.text == "approved by ann and bob"
    with pytest.raises(Conflict, match="approved by ann and bob"):
        await world.core.requests.decide(click(done, nonce="late", identity=identity("eve")))


async def test_a_stranger_is_in_no_list(world: World) -> None:
    """Whom a group admits and nobody knows is shown as the group alone."""
    await in_force(world, Route(approvers=(ROLE,)))
    record = await of_ann(world)
    guest = Identity(platform="slack", id="T1/U77", groups=(ROLE,))
    assert await world.core.requests.may_decide(guest, record) is None
    assert record.approvers == Approvers(names=(ROLE,))


class HouseRules:
    """A decider of an operator's that changes a call before it is stored."""

    name = "house rules"
    priority = 50

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Change each call once."""
        if record.edited is not None:
            return None
        by = DecidedBy(kind=DeciderKind.RULE, name=self.name)
        return Verdict(effect=MODIFY, by=by, message="x is safer", arguments={"x": 1})


async def test_who_changed_a_call_before_it_was_stored_is_kept(
    server_url: str, namespace: str
) -> None:
    """It is named from the start: in the record as others read it, and in the first event."""
    async with assembled(server_url, namespace, (HouseRules(),)) as world:
        record = await world.submit()
        kept = await world.core.requests.get(record.id)
        assert [(edit.by.name, edit.why) for edit in kept.editors] == [
            ("house rules", "x is safer")
        ]
        (submitted,) = await world.events(record.id)
        assert [edit["by"]["name"] for edit in submitted.data["edits"]] == ["house rules"]
