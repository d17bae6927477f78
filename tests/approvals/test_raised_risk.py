"""A decider may raise the risk of a request, and never lower it; what it raised counts as high risk
does everywhere else."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from gateway.cards.card import card_of
from gateway.domain.policy_document import Guardrails, Mode, PolicyRule, Route, RuleEffect
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.risk import RaisedRisk, RiskRule, lift
from gateway.errors import Conflict, Unauthorized, Unconfirmed
from gateway.models import Action, DecidedBy, DeciderKind, Risk, RiskLevel, Status
from gateway.policy.chain import ALLOW, ASK, CONTINUE, DENY, MODIFY, RESPOND, find_decisive
from gateway.policy.grants.grant import Effect
from gateway.policy.grants.offers import offers
from gateway.ports import Verdict
from tests.approvals.test_high_risk import in_force, stored
from tests.danger import REMOVES
from tests.world import World, assembled, click, identity, over_http, request

PAYS = Risk(level=RiskLevel.HIGH, reasons=("it pays",))
SAID = "Risk raised by decider reviewer: it pays"
LOW = RiskRule(name="low", level=RiskLevel.LOW, reason="a trifle")


class Reviewer:
    """An operator's decider that answers as it is told to, and raises the risk of what is dear."""

    priority = 600

    def __init__(self, effect: str = CONTINUE, risk: Any = PAYS, name: str = "reviewer") -> None:
        self.effect, self.risk, self.name = effect, risk, name

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Say so of what holds `dear`; nothing of the rest. It fails at what is `broken`."""
        if "broken" in record.arguments:
            raise RuntimeError("broken")
        if "dear" not in record.arguments or (self.effect == MODIFY and record.edited):
            return None
        by = DecidedBy(kind=DeciderKind.RULE, name=self.name)
        arguments = {"dear": 2} if self.effect == MODIFY else None
        return Verdict(effect=self.effect, by=by, risk=self.risk, arguments=arguments)


async def by_ann(world: World, arguments: dict[str, Any]) -> StoredRequest:
    """Submit a request with a credential of ann's."""
    asked = request(arguments=arguments)
    return (await world.approvals.submit(asked, replace(over_http(), owner="ann")))[0]


DEAR: dict[str, Any] = {"dear": 1}


@pytest.mark.parametrize("effect", [CONTINUE, ASK, ALLOW, MODIFY])
async def test_what_a_decider_raised_is_for_people(
    server_url: str, namespace: str, effect: str
) -> None:
    """Whatever else it answers: no mode and no decider approves it; people read who raised it, have
    to confirm, and are offered to remember nothing."""
    async with assembled(server_url, namespace, (Reviewer(effect),)) as world:
        await in_force(world)
        assert (await world.submit(arguments={"cheap": 1})).status is Status.APPROVED
        asked = await world.submit(arguments=DEAR)
        record = await world.core.requests.get(asked.id)
        assert (record.status, record.risk) == (
            Status.PENDING,
            Risk(level=RiskLevel.HIGH, reasons=(SAID,)),
        )
        assert record.for_people
        assert [one.text for one in card_of(record, lines=9, chars=99).reasons] == [SAID]
        assert not list(offers(record, Effect.ALLOW))
        with pytest.raises(Unconfirmed):
            await world.core.requests.decide(click(record))
        done = await world.core.requests.decide(click(record, confirmed=True))
        assert done.status is Status.APPROVED
        (submitted, *_) = await world.events(record.id)
        assert submitted.data["raised"] == [
            {"by": "decider reviewer", "decider": "reviewer", "level": "high"}
            | {"reasons": ["it pays"]}
        ]


async def test_what_is_remembered_or_allowed_by_a_rule_does_not_approve_it(
    server_url: str, namespace: str
) -> None:
    """The very same call, approved and remembered before it was raised, and a rule that allows."""
    reviewer = Reviewer(risk=None)
    async with assembled(server_url, namespace, (reviewer,)) as world:
        await in_force(world, Mode.ASK)
        first = await world.submit(arguments=DEAR)
        await world.core.requests.decide(click(first, remember=Remember(everywhere=True)))
        assert (await world.submit(arguments=DEAR)).status is Status.APPROVED
        reviewer.risk = PAYS
        assert (await world.submit(arguments=DEAR)).status is Status.PENDING
        rule = PolicyRule(name="yes", effect=RuleEffect.ALLOW, tools=("*",))
        await in_force(world, Mode.AUTO_APPROVE, rules=(rule,))
        assert (await world.submit(arguments={"cheap": 2})).status is Status.APPROVED
        assert (await world.submit(arguments=DEAR)).status is Status.PENDING


async def test_who_asked_may_not_decide_what_was_raised(server_url: str, namespace: str) -> None:
    """Though the route lets people decide what they asked for themselves."""
    async with assembled(server_url, namespace, (Reviewer(),)) as world:
        routes = (Route(approvers=("ann", "bob"), self_approval=True),)
        await world.put(routes=routes)
        cheap = await by_ann(world, {"cheap": 1})
        await world.core.requests.decide(click(cheap))
        dear = await by_ann(world, DEAR)
        with pytest.raises(Unauthorized):
            await world.core.requests.decide(click(dear, confirmed=True))


@pytest.mark.parametrize("effect", [CONTINUE, ALLOW])
@pytest.mark.parametrize("level", [RiskLevel.LOW, RiskLevel.MEDIUM])
async def test_a_decider_lowers_no_risk(
    server_url: str,
    namespace: str,
    caplog: pytest.LogCaptureFixture,
    level: RiskLevel,
    effect: str,
) -> None:
    """What is high stays high, and the log says that a decider wanted otherwise."""
    reviewer = Reviewer(effect, Risk(level=level, reasons=("a trifle",)))
    high = Risk(level=RiskLevel.HIGH, reasons=("moves money",))
    async with assembled(server_url, namespace, (reviewer,)) as world:
        await in_force(world)
        with caplog.at_level(logging.WARNING, "gateway.policy"):
            record = await world.submit(arguments=DEAR, risk=high)
    assert (record.status, record.raised) == (Status.PENDING, ())
    assert record.risk == Risk(level=RiskLevel.HIGH, reasons=("the agent says: moves money",))
    assert [one.getMessage() for one in caplog.records] == [
        "a decider tried to lower the risk; the risk stays as it was"
    ]


@pytest.mark.parametrize("effect", [CONTINUE, ALLOW])
@pytest.mark.parametrize("unknown", ["highest", "high", 3])
async def test_a_level_that_there_is_not_is_a_failure(
    server_url: str, namespace: str, effect: str, unknown: Any
) -> None:
    """It could have meant high: nothing below may allow, and neither does this answer."""
    reviewer = Reviewer(effect, Risk(level=unknown))
    async with assembled(server_url, namespace, (reviewer,)) as world:
        await in_force(world)
        assert (await world.submit(arguments=DEAR)).status is Status.PENDING


async def test_an_edit_keeps_what_was_raised_unless_its_decider_looks_again(
    server_url: str, namespace: str
) -> None:
    """One that answers about the edited call takes back what it raised, one that fails does not;
    what it raises only then has to be confirmed."""
    async with assembled(server_url, namespace, (Reviewer(),)) as world:
        await in_force(world, Mode.ASK, quorum=2)

        async def edited(before: dict[str, Any], after: dict[str, Any]) -> StoredRequest:
            record = await world.submit(arguments=before)
            edit = click(record, Action.EDIT, arguments=after, confirmed=True)
            await world.core.requests.decide(edit)
            return await world.core.requests.get(record.id)

        assert (await edited(DEAR, {"broken": 1})).risk.reasons == (SAID,)
        assert (await edited(DEAR, {"dear": 3})).risk.reasons == (SAID,)
        looked = await edited(DEAR, {"cheap": 1})
        assert (looked.risk, looked.raised) == (Risk(level=RiskLevel.MEDIUM), ())
        cheap = await world.submit(arguments={"cheap": 5})
        with pytest.raises(Unconfirmed):
            await world.core.requests.decide(click(cheap, Action.EDIT, arguments={"dear": 5}))
        raised = await edited({"cheap": 4}, {"dear": 4})
        assert raised.risk.reasons == (SAID,)
        (*_, voted) = await world.events(raised.id)
        assert voted.data["raised"][0]["by"] == "decider reviewer"
        with pytest.raises(Conflict):  # it was shown at the first revision, without that risk
            early = replace(click(raised, identity=identity("bob"), confirmed=True), revision=1)
            await world.core.requests.decide(early)


async def test_an_edit_that_is_raised_is_not_for_who_asked(server_url: str, namespace: str) -> None:
    """Whose own request it is, and who may decide it only while its risk is lower."""
    async with assembled(server_url, namespace, (Reviewer(),)) as world:
        routes = (Route(approvers=("ann", "bob"), self_approval=True),)
        await world.put(routes=routes)
        cheap = await by_ann(world, {"cheap": 1})
        edit = click(cheap, Action.EDIT, arguments=DEAR, confirmed=True)
        with pytest.raises(Unauthorized):
            await world.core.requests.decide(edit)


async def test_explain_tells_what_would_be_raised(server_url: str, namespace: str) -> None:
    """And that the mode, which comes later, would not approve it any more."""
    async with assembled(server_url, namespace, (Reviewer(),)) as world:
        await in_force(world)
        opinions = await world.approvals.explain(request(arguments=DEAR))
        assert find_decisive(opinions) is None
        (one,) = [one for one in opinions if one.raised]
        assert (one.decider, one.effect, one.raised[0].sentences) == (
            "reviewer",
            "no opinion",
            (SAID,),
        )


async def test_it_is_stored_beside_the_risk_and_erased_with_the_rest(
    server_url: str, namespace: str
) -> None:
    """Its words may repeat what the agent wrote."""
    async with assembled(server_url, namespace, (Reviewer(DENY),)) as world:
        record = await world.submit(arguments=DEAR)
        assert record.status is Status.DENIED
        kept = await world.core.requests.get(record.id)
        assert kept.raised == (
            RaisedRisk(
                decider="reviewer",
                by="decider reviewer",
                level=RiskLevel.HIGH,
                reasons=("it pays",),
            ),
        )
        await world.approvals.erase(record.id, by="ann")
        erased = await world.core.requests.get(record.id)
        assert (erased.risk.level, erased.raised[0].reasons) == (RiskLevel.HIGH, ())
        assert "it pays" not in str(await stored(world, record))
        plain = await world.submit(arguments={"cheap": 1})
        assert "raised" not in await stored(world, plain)


async def test_a_decider_takes_no_alarm_of_the_guardrails_away(
    server_url: str, namespace: str
) -> None:
    """What they raised stands beside what it raises, also after an edit that both look at."""
    async with assembled(server_url, namespace, (Reviewer(),)) as world:
        await in_force(world, Mode.ASK, quorum=2, guardrails=Guardrails.ASK)
        record = await world.submit(**REMOVES)
        assert record.risk.reasons == ("Risk raised by the guardrails",)
        both = {"command": "rm -rf build", "dear": 1}
        edit = click(record, Action.EDIT, arguments=both, confirmed=True)
        await world.core.requests.decide(edit)
        kept = await world.core.requests.get(record.id)
        assert kept.risk.reasons == ("Risk raised by the guardrails", SAID)
        assert kept.alarms


async def test_each_decider_that_raised_it_is_named(server_url: str, namespace: str) -> None:
    """Also one that is asked when it is high already."""
    deciders = (Reviewer(), Reviewer(ASK, name="clerk"))
    async with assembled(server_url, namespace, deciders) as world:
        record = await world.submit(arguments=DEAR)
        assert record.risk.reasons == (SAID, SAID.replace("reviewer", "clerk"))


def test_only_what_lies_above_lifts_a_risk() -> None:
    """To the highest; each who raised it is named, in the same words whatever the order."""
    low = Risk(level=RiskLevel.LOW)
    one, two, none = (
        RaisedRisk(decider="d", by=by, level=level, reasons=(by,))
        for by, level in (("a", "medium"), ("b", "high"), ("c", "low"))
        for level in (RiskLevel(level),)
    )
    for order in ((one, two, none), (none, one, two)):
        assert lift(low, order) == Risk(
            level=RiskLevel.HIGH, reasons=("Risk raised by a: a", "Risk raised by b: b")
        )
    assert lift(low, (none,)) == low


async def test_a_response_is_none_of_its_business(server_url: str, namespace: str) -> None:
    """What a decider answers instead of running anything runs nothing, however high the risk."""
    allowed = (Action.APPROVE, Action.DENY, Action.RESPOND)
    async with assembled(server_url, namespace, (Reviewer(RESPOND),)) as world:
        record = await world.submit(arguments=DEAR, allowed=allowed)
        assert (record.status, record.risk.level) == (Status.APPROVED, RiskLevel.HIGH)
