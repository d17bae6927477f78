"""A payload runs like arguments do, so whatever guards a request reads it too.

`gateway.confirm(hint, payload=…)` sends harmless arguments and all that matters in the payload.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.policy_document import Guardrails, Mode, PolicyRule, Route, RuleEffect
from gateway.domain.records import Remember, StoredRequest
from gateway.domain.risk import RiskRule
from gateway.models import Action, Context, Kind, RiskLevel, Status
from gateway.policy.grants.grant import Effect
from gateway.policy.grants.offers import offers
from tests.approvals.test_passes import passed
from tests.world import World, click

EVIL = {"command": "rm -rf /home/me/.ssh"}
AUTO = Route(approvers=("ann",), mode=Mode.AUTO_APPROVE)


async def confirmed(
    world: World, payload: dict[str, Any] | None = None, **more: Any
) -> StoredRequest:
    """Submit what `confirm` submits, with the payload that is to run."""
    payload = EVIL if payload is None else payload
    arguments = {"confirm": "tidy up"}
    return await world.submit(tool="confirm", arguments=arguments, payload=payload, **more)


async def in_force(world: World, **members: Any) -> None:
    """Put this in force on a route that approves whatever nothing refuses."""
    await world.put(routes=(AUTO,), **members)


@pytest.mark.parametrize(
    "fits",
    [
        {"contains": ("rm -rf",)},
        {"commands": ("rm -rf",)},
        {"folders": ("/home/me/.ssh",), "tools": ("confirm",)},
    ],
)
async def test_a_deny_rule_reads_the_payload(world: World, fits: dict[str, Any]) -> None:
    """By text, by command and by folder; a harmless payload goes through."""
    await in_force(world, rules=(PolicyRule(name="no", effect=RuleEffect.DENY, **fits),))
    assert (await confirmed(world)).status is Status.DENIED
    assert (await confirmed(world, {"command": "ls /srv"})).status is Status.APPROVED


@pytest.mark.parametrize("text", ["[", "]", "null"])
async def test_text_is_sought_in_what_would_run_and_nowhere_else(world: World, text: str) -> None:
    """Not in brackets of our own, nor in the payload that there is none of."""
    rule = PolicyRule(name="no", effect=RuleEffect.DENY, contains=(text,))
    low = RiskRule(name="r", level=RiskLevel.LOW, reason="because", contains=(text,))
    await in_force(world, rules=(rule,), risks=(low,))
    plain = await world.submit(arguments={"x": "y"})
    assert (plain.status, plain.risk.level) == (Status.APPROVED, RiskLevel.MEDIUM)
    assert (await confirmed(world, {"x": text})).status is Status.DENIED


async def test_guardrails_read_the_payload(world: World) -> None:
    """In force they deny it, in shadow the audit says so."""
    await in_force(world, guardrails=Guardrails.DENY)
    assert (await confirmed(world)).status is Status.DENIED
    assert (await confirmed(world, {"path": "/srv/.env"})).status is Status.DENIED
    assert (await confirmed(world, {"path": "/srv/a"})).status is Status.APPROVED
    await in_force(world, guardrails=Guardrails.SHADOW)
    (event, *_) = await world.events((await confirmed(world)).id)
    assert event.data["shadow"][0]["rule"] == "guardrails"


async def test_risk_rules_read_the_payload(world: World) -> None:
    """Also once a person edited the arguments: nobody lowers it by changing the hint."""
    rule = RiskRule(name="r", level=RiskLevel.HIGH, reason="because", contains=("RM -rf",))
    await world.put(risks=(rule,))
    record = await confirmed(world)
    assert record.risk.level is RiskLevel.HIGH
    edit = click(record, Action.EDIT, arguments={"confirm": "x"}, confirmed=True)
    assert (await world.core.requests.decide(edit)).risk.level is RiskLevel.HIGH
    assert (await confirmed(world, {"command": "ls"})).risk.level is RiskLevel.MEDIUM


async def test_no_pass_lets_a_payload_through(world: World) -> None:
    """Neither the one for all nor the one for edits; the same without one goes through."""
    await passed(world)
    harmless = {"command": "ls"}
    context = Context(cwd="/ws")
    assert (await confirmed(world, harmless, context=context)).status is Status.PENDING
    plain = await world.submit(arguments=harmless, context=context)
    assert plain.status is Status.APPROVED


async def test_a_remembered_denial_reads_the_payload(world: World) -> None:
    """What was denied as arguments is not let through as a payload."""
    first = await world.submit(kind=Kind.COMMAND, arguments=EVIL)
    wide = offers(first, effect=Effect.DENY)[-2].id
    await world.core.requests.decide(click(first, Action.DENY, remember=Remember(offer=wide)))
    await world.route(AUTO)
    moved = await world.submit(kind=Kind.COMMAND, arguments={"x": 1}, payload=EVIL)
    assert moved.status is Status.DENIED


async def test_what_a_payload_hides_is_not_remembered(world: World) -> None:
    """Invisible characters in it are asked about each time."""
    assert offers(await confirmed(world, {"command": "ls"}))
    assert not offers(await confirmed(world, {"command": "l\u200bs"}))
