"""A request that demands a person is approved by nothing else, and denied by all that denies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.card import card_of
from gateway.domain.parsing import parse_request
from gateway.domain.policy_document import Mode, PolicyRule, RuleEffect
from gateway.domain.records import Remember, StoredRequest, duplicate_key, locate_finding
from gateway.errors import Conflict, InvalidRequest
from gateway.models import Action, ApprovalRequest, Reason, Risk, RiskLevel, Status
from gateway.policy.chain import ALLOW, RESPOND
from gateway.policy.grants.coverage import what_differs
from gateway.policy.grants.grant import ANY_TOOL, Effect, Match, MatchResult, Shape
from gateway.policy.grants.offers import offers
from gateway.policy.rules import fits
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import build, plain
from tests.approvals.test_high_risk import Saying, in_force
from tests.grants.making import allowed, command, granted, offer_of, remembered
from tests.world import World, assembled, click, over_http, request

PERSON = "A person must decide, because the agent requires it"


async def test_no_mode_answers_it_and_a_person_does(world: World) -> None:
    """The demand is kept, stands on the card, and a person's approval ends it."""
    await in_force(world)
    assert (await world.submit()).status is Status.APPROVED
    record = await world.submit(human=True)
    assert record.status is Status.PENDING
    kept = await world.core.requests.get(record.id)
    assert kept.request.human
    shown = card_of(kept, lines=9, chars=99).asks_because
    assert shown is not None
    assert shown.text == PERSON
    assert not list(offers(kept, Effect.ALLOW))
    assert (await world.core.requests.decide(click(record))).status is Status.APPROVED


@pytest.mark.parametrize("effect", [ALLOW, RESPOND])
async def test_no_decider_answers_it(server_url: str, namespace: str, effect: str) -> None:
    """Neither one that allows it, nor one that responds instead of running anything."""
    async with assembled(server_url, namespace, (Saying(effect),)) as world:
        allowed = (Action.APPROVE, Action.DENY, Action.RESPOND)
        assert (await world.submit(allowed=allowed)).status is Status.APPROVED
        assert (await world.submit(allowed=allowed, human=True)).status is Status.PENDING


async def test_what_is_remembered_approves_it_not_and_denies_it(world: World) -> None:
    """The very same call: an approval does not count, and a denial does."""
    await in_force(world, Mode.ASK)
    first = await world.submit(arguments={"to": "a"})
    await world.core.requests.decide(click(first, remember=Remember(everywhere=True)))
    assert (await world.submit(arguments={"to": "a"})).status is Status.APPROVED
    assert (await world.submit(arguments={"to": "a"}, human=True)).status is Status.PENDING
    other = await world.submit(arguments={"to": "b"})
    denied = click(other, Action.DENY, remember=Remember(everywhere=True))
    await world.core.requests.decide(denied)
    assert (await world.submit(arguments={"to": "b"}, human=True)).status is Status.DENIED


async def test_an_approval_of_it_is_not_remembered(world: World) -> None:
    """Also for a click that asks for that all the same."""
    await in_force(world, Mode.ASK)
    record = await world.submit(human=True)
    with pytest.raises((Conflict, InvalidRequest)):
        await world.core.requests.decide(click(record, remember=Remember(everywhere=True)))
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


@pytest.mark.parametrize(
    "more", [{"human": True}, {"risk": Risk(level=RiskLevel.HIGH)}], ids=["human", "high"]
)
@pytest.mark.parametrize("link", ["exact", "pattern", "pass", "rule"])
def test_each_link_that_allows_leaves_it_to_people(link: str, more: dict[str, Any]) -> None:
    """By itself, whatever the chain would make of its answer; the very same call without it is
    allowed. So is high risk left."""
    asked = command("ls")
    exact = granted(offer_of(asked, Shape.EXACT).match)
    everything = Match(shape=Shape.WORK, tool=ANY_TOOL)
    session = granted(everything, session="default", expires_at=1000)
    rule = PolicyRule(name="yes", effect=RuleEffect.ALLOW, commands=("ls",))
    allows: dict[str, Callable[[StoredRequest], bool]] = {
        "exact": lambda one: allowed([exact], one),
        "pattern": lambda one: allowed([remembered(asked)], one),
        "pass": lambda one: allowed([session], one),
        "rule": lambda one: fits(rule, one) is MatchResult.YES,
    }
    assert allows[link](asked)
    assert not allows[link](command("ls", **more))


def test_what_kept_an_approval_from_covering_it_is_told() -> None:
    """As `gateway explain` says it of each remembered approval."""
    said = what_differs(remembered(command("ls")), command("ls", human=True))
    assert said == "the agent requires a person"


async def test_auto_deny_denies_it_all_the_same(world: World) -> None:
    """Asking instead would let through what the route refuses."""
    await in_force(world, Mode.AUTO_DENY)
    assert (await world.submit(human=True)).status is Status.DENIED


async def test_the_demand_is_not_lost_on_a_request_that_is_known(world: World) -> None:
    """The same id and content, sent again, and only now with the demand: it is refused, though the
    first was approved by a mode. Sent again with and then without it, the demand stands."""
    await in_force(world)
    first = request()
    done, _ = await world.approvals.submit(first, over_http())
    assert done.status is Status.APPROVED
    with pytest.raises(Conflict, match="does not require a person"):
        await world.approvals.submit(replace(first, human=True), over_http())
    demanding = request(human=True)
    for human in (True, True, False):
        again, _ = await world.approvals.submit(replace(demanding, human=human), over_http())
        assert (again.status, again.request.human) == (Status.PENDING, True)
    withdrawn = request(human=True)
    await world.approvals.cancel(withdrawn.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    late, _ = await world.approvals.submit(withdrawn, over_http())
    assert late.status is Status.CANCELLED


def test_the_wire_carries_it() -> None:
    """Both ways; a member of another name or type is refused whole, as by an older gateway."""
    asked = request(human=True)
    values = plain(asked)
    assert parse_request(canonical(values)).human
    assert build(ApprovalRequest, values).human
    for wrong in ({"human": "yes"}, {"humans": True}):
        with pytest.raises(InvalidRequest):
            parse_request(canonical(values | wrong))


async def test_it_waits_behind_no_other(world: World) -> None:
    """A request without the demand is not like it."""
    await in_force(world, Mode.ASK)
    record = await world.submit(human=True)
    plainly = replace(record, request=replace(record.request, human=False))
    assert duplicate_key(record) != duplicate_key(plainly)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("", "removes folders whole"),
        ("edits[0].text", 'removes folders whole (in "edits[0].text")'),
        ("a" * 61, f'removes folders whole (in "{"a" * 60}"…)'),
        ("a\n✅ b", 'removes folders whole (in "a\\n\\u2705 b")'),
    ],
)
def test_a_place_is_told_as_data(place: str, told: str) -> None:
    """Its name is the agent's: it begins no line and ends no quotation."""
    assert locate_finding("removes folders whole", place) == told
