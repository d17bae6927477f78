"""An edit is kept, checked, shown as a diff and approved, the same in each chat."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cards.forms import edit_fields
from gateway.chat.answering import Answering, Edits, EditState, name_left_out
from gateway.domain.risk import RiskRule
from gateway.errors import Conflict
from gateway.models import RiskLevel, Status
from gateway.ports import AdapterApi, StoredRequest
from tests.chat.conftest import press
from tests.world import World


@pytest.fixture
def edits(api: AdapterApi, answering: Answering) -> Edits:
    """Return what keeps edits."""
    return Edits(api, answering)


async def test_what_was_shown_is_what_runs(world: World, edits: Edits) -> None:
    """Nothing is decided by looking at the diff."""
    record = await world.submit()
    state = await edits.show(record, {"arg0": "ls -l"}, "k")
    assert '+   "command": "ls -l"' in state.diff
    assert not (state.refusal or state.high)
    assert not (await world.core.requests.get(record.id)).final
    done = await edits.approve(press(record), record, "k", high=state.high)
    assert isinstance(done, StoredRequest)
    assert (done.status, done.edited) == (Status.APPROVED, {"command": "ls -l"})


@pytest.mark.parametrize(
    ("typed", "why", "field"),
    [
        ({"arg0": "many"}, '"amount": the answer is not a number', "arg0"),
        ({"arg0": "500"}, "do not fit", "arg0"),
        ({"arg0": "12"}, "You changed nothing; approve the request as it is.", ""),
        ("{", "", ""),
        ("[]", "The arguments must be one JSON object, in braces.", ""),
        ('{"amount": 1, "amount": 2}', "", ""),
        ('{"amount": NaN}', "", ""),
    ],
)
async def test_a_refused_edit_names_its_field_and_loses_nothing(
    world: World, edits: Edits, typed: dict[str, str] | str, why: str, field: str
) -> None:
    """It is refused as a sentence, and what was typed is there to go on with."""
    schema = {"properties": {"amount": {"type": "number", "maximum": 100}}}
    record = await world.submit(tool="pay", arguments={"amount": 12}, schema=schema)
    state = await edits.show(record, typed, "k")
    assert why in state.refusal
    assert state.refusal.endswith(".")
    assert (state.field, state.diff) == (field, "")
    assert await edits.read_kept("k") == typed


async def test_an_edit_that_became_high_risk_is_shown_again(world: World, edits: Edits) -> None:
    """What was approved as harmless decides nothing; said to be high risk, it does."""
    rule = RiskRule(name="r", level=RiskLevel.HIGH, reason="deletes", contains=("rm -rf",))
    await world.store.apply(replace(await world.store.policy(), risks=(rule,)), by="test")
    record = await world.submit()
    await edits.show(record, {"arg0": "rm -rf build"}, "k")
    again = await edits.approve(press(record), record, "k", high=False)
    assert isinstance(again, EditState)
    assert again.high and "rm -rf build" in again.diff
    done = await edits.approve(press(record), record, "k", high=True)
    assert isinstance(done, StoredRequest) and done.status is Status.APPROVED


async def test_an_edit_that_the_gateway_refuses_is_kept(world: World, edits: Edits) -> None:
    """Whatever was decided meanwhile, what was typed can be read."""
    record = await world.submit()
    await edits.show(record, {"arg0": "ls -l"}, "k")
    old = replace(press(record), revision=0)
    state = await edits.approve(old, record, "k", high=False)
    assert isinstance(state, EditState)
    assert state.refusal and state.typed == {"arg0": "ls -l"}


async def test_what_was_refused_is_not_approved(world: World, edits: Edits) -> None:
    """A forged press on it, or one on what changed since, opens the form again."""
    record = await world.submit()
    await edits.show(record, "[]", "k")
    state = await edits.approve(press(record), record, "k", high=False)
    assert isinstance(state, EditState)
    assert "one JSON object" in state.refusal
    assert not (await world.core.requests.get(record.id)).final


async def test_an_edit_that_is_gone_says_so(edits: Edits) -> None:
    """It is kept for an hour."""
    with pytest.raises(Conflict, match="has expired"):
        await edits.read_kept("gone")


async def test_what_a_form_has_no_room_for_is_named(world: World) -> None:
    """The first three, and how many more."""
    record = await world.submit(arguments=dict.fromkeys("abcde", "1"))
    fields = edit_fields(record)
    assert name_left_out(fields, fields) == ""
    assert (
        name_left_out(fields, fields[:3]) == 'These are not shown here and stay unchanged: "d", "e"'
    )
    said = name_left_out(fields, fields[:1])
    assert said == 'These are not shown here and stay unchanged: "b", "c", "d" and 1 more'
