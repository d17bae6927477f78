"""Hooks that raise the risk of a call, in real processes: they answer as they like besides."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.cards.card import card_of
from gateway.domain.records import StoredRequest
from gateway.errors import Conflict, InvalidRequest, Unauthorized, Unconfirmed
from gateway.models import Action, RiskLevel, Status
from tests.hooks.stage import Staged, hook, reviewed_in
from tests.sweeps import sweep
from tests.world import click

HIGH: dict[str, Any] = {"level": "high", "reasons": ["touches pay"]}
SAID = "Risk raised by hook puppet: touches pay"
STRANGE: list[Any] = [
    "high",
    {"level": "highest"},
    {"level": ["high"]},
    {"reasons": ["x"]},
    {"level": "high", "reasons": "x"},
    {"level": "high", "reasons": [1]},
]
CHANGED = {"action": "modify", "call": {"tool": "thing", "arguments": {"x": 2}}}


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("before_tool", {"action": "continue"}),
        ("before_tool", CHANGED),
        ("approve_tool", {"approved": True}),
    ],
)
async def test_a_hook_that_only_raises_the_risk_has_people_asked(
    staged: Staged, method: str, answer: dict[str, Any]
) -> None:
    """On a route that approves by itself, and though its approval would let the call through."""
    stage = await staged(puppet=hook(may_allow=True))
    assert (await stage.asked({"x": 1})).status is Status.APPROVED
    await stage.auto_approve()
    record = await stage.asked({"all": {method: {**answer, "risk": HIGH}}})
    assert (record.status, record.risk.level, record.risk.reasons) == (
        Status.PENDING,
        RiskLevel.HIGH,
        (SAID,),
    )
    assert [one.text for one in card_of(record, lines=9, chars=99).reasons] == [SAID]
    reviewed = (await stage.world.events(record.id))[-1]
    assert (reviewed.type, reviewed.data["raised"]) == (
        "reviewed",
        [{"by": "hook puppet", "decider": "hooks", "level": "high", "reasons": ["touches pay"]}],
    )
    with pytest.raises(Unconfirmed):
        await stage.world.core.requests.decide(click(record))


async def test_each_hook_raises_it_in_its_own_name(staged: Staged) -> None:
    """Both are named; one that says nothing of the risk is not."""
    stage = await staged(first=hook("first"), second=hook("second"), third=hook("third"))
    low = {"level": "high", "reasons": []}
    record = await stage.asked(
        {
            "first": {"before_tool": {"action": "continue", "risk": HIGH}},
            "second": {"approve_tool": {"approved": True, "risk": low}},
        }
    )
    assert record.risk.reasons == (
        "Risk raised by hook first: touches pay",
        "Risk raised by hook second",
    )


@pytest.mark.parametrize("risk", STRANGE)
@sweep("method", ["before_tool", "approve_tool"], few=1)
async def test_a_risk_that_nobody_understands_is_a_failure(
    staged: Staged, method: str, risk: Any
) -> None:
    """It could have meant high: nothing below allows, and nothing of it is shown."""
    stage = await staged(puppet=hook())
    await stage.auto_approve()
    yes = {"approved": True} if method == "approve_tool" else {"action": "continue"}
    assert (await stage.asked({"all": {method: yes}})).status is Status.APPROVED
    record = await stage.asked({"all": {method: {**yes, "risk": risk}}})
    assert (record.status, record.raised) == (Status.PENDING, ())


@pytest.mark.parametrize("risk", STRANGE)
async def test_another_hooks_refusal_counts_beside_such_a_risk(staged: Staged, risk: Any) -> None:
    """As beside any other failure of a hook."""
    stage = await staged(bad=hook("bad"), strict=hook("strict"))
    bad = {"approve_tool": {"approved": True, "risk": risk}}
    no = {"approve_tool": {"approved": False, "reason": "no"}}
    record = await stage.asked({"bad": bad, "strict": no})
    assert record.status is Status.DENIED


async def test_a_hook_lowers_no_risk(staged: Staged) -> None:
    """Nor does it allow what stays high."""
    stage = await staged(puppet=hook(may_allow=True))
    low = {"approved": True, "risk": {"level": "low", "reasons": ["a trifle"]}}
    await stage.auto_approve()
    record = await stage.asked({"all": {"approve_tool": low}})
    assert (record.status, record.risk.level, record.raised) == (
        Status.APPROVED,
        RiskLevel.MEDIUM,
        (),
    )


async def test_a_click_on_the_card_before_it_was_raised_is_refused(staged: Staged) -> None:
    """Before the hooks have answered it is nobody's to decide, and afterwards it is another
    revision."""
    stage = await staged(puppet=hook())
    raises = {"all": {"approve_tool": {"approved": True, "risk": HIGH}}}
    world = stage.world
    before = await world.submit(tool="thing", arguments=raises)
    early = click(before, confirmed=True)
    with pytest.raises(Unauthorized):
        await world.core.requests.decide(early)
    await reviewed_in(world, before.id)
    with pytest.raises(Conflict):
        await world.core.requests.decide(early)
    record = await world.core.requests.get(before.id)
    assert (record.revision, record.shown_since) == (2, 2)
    done = await world.core.requests.decide(click(record, confirmed=True))
    assert done.status is Status.APPROVED


async def test_hooks_look_at_an_edit_again(staged: Staged) -> None:
    """What they raised is kept where they say so again or fail, else taken back; an edit that they
    raise is confirmed, and one that they refuse is none."""
    stage = await staged(puppet=hook())
    world = stage.world
    raises = {"all": {"before_tool": {"action": "continue", "risk": HIGH}}}

    async def edited(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, ...]:
        record = await stage.asked(before)
        edit = click(record, Action.EDIT, arguments=after, confirmed=True)
        await world.core.requests.decide(edit)
        now: StoredRequest = await world.core.requests.get(record.id)
        return now.risk.reasons

    assert await edited(raises, {**raises, "x": 1}) == (SAID,)
    assert await edited(raises, {"all": {"error": "broken"}}) == (SAID,)
    assert await edited(raises, {"x": 1}) == ()
    assert await edited({"x": 2}, {**raises, "x": 2}) == (SAID,)
    harmless = await stage.asked({"x": 3})
    with pytest.raises(Unconfirmed):
        await world.core.requests.decide(click(harmless, Action.EDIT, arguments=raises))
    with pytest.raises(InvalidRequest):
        no = {"all": {"approve_tool": {"approved": False}}}
        await world.core.requests.decide(click(harmless, Action.EDIT, arguments=no))
