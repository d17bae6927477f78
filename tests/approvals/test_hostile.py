"""What an agent may send, and what it costs: nothing of it makes one request hold up all others.

The inputs are such that a slip back to taking each pair, or each path, would take hours.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.domain.parsing import check_schema
from gateway.domain.redaction import render_safe
from gateway.errors import Conflict, InvalidRequest
from gateway.models import Action, Execution, Reason, Report, Status, new_id
from gateway.server.background import adapter_api
from tests.sweeps import sweep
from tests.world import World, click, identity, over_http

pytestmark = pytest.mark.timeout(120)

DEEP = 40
DOUBLING: dict[str, Any] = {
    "$ref": "#/$defs/s0",
    "$defs": {
        **{f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(DEEP)},
        f"s{DEEP}": {"type": "object"},
    },
}
SCHEMAS: dict[str, Any] = {
    "each refers to the next twice": DOUBLING,
    "refers to itself": {"$ref": "#"},
    "each item differs from each": {"properties": {"items": {"uniqueItems": True}}},
    "unevaluated": {**DOUBLING, "unevaluatedProperties": False},
}


@sweep("schema", SCHEMAS, few=1)
async def test_a_hostile_schema_refuses_the_edit_and_holds_up_nobody(
    world: World, schema: str
) -> None:
    """The person is told in a short sentence; the request still waits, and can be denied."""
    record = await world.submit(schema=SCHEMAS[schema])
    items: list[Any] = [{"n": n} if n % 2 else [n] for n in range(20_000)]
    with pytest.raises(InvalidRequest) as refused:
        await world.core.requests.decide(click(record, Action.EDIT, arguments={"items": items}))
    assert len(str(refused.value)) < 500
    assert (await world.core.requests.decide(click(record, Action.DENY))).final


OTHER_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}
NAMED = {"patternProperties": {"^(a+)+$": True}}
BRANCHING: dict[str, Any] = {
    f"s{n}": dict.fromkeys(("$ref", "$dynamicRef"), f"#/$defs/s{n + 1}") for n in range(DEEP)
}
NEVER_ENDING: dict[str, Any] = {
    "a pattern of additional names": {**NAMED, "additionalProperties": False},
    "the same within": {"allOf": [{**NAMED, "additionalProperties": False}]},
    "a pattern of unevaluated names": {"allOf": [NAMED], "unevaluatedProperties": False},
    "a pattern of names in another draft": {"allOf": [{**OTHER_DRAFT, **NAMED}]},
    "a pattern in another draft": {"propertyNames": {**OTHER_DRAFT, "pattern": "^(a+)+$"}},
    "what is unevaluated through references": {
        "allOf": [{"unevaluatedProperties": True, **BRANCHING["s0"]}],
        "$defs": {**BRANCHING, f"s{DEEP}": {}},
    },
}


@sweep("schema", NEVER_ENDING, few=2)
async def test_no_pattern_of_an_agents_schema_is_tried(world: World, schema: str) -> None:
    """It would hold all others up for hours. What costs steps is counted, the rest is let go."""
    record = await world.submit(schema=NEVER_ENDING[schema])
    edit = click(record, Action.EDIT, arguments={"a" * 40 + "!": 1})
    if "references" not in schema:
        assert (await world.core.requests.decide(edit)).status is Status.APPROVED
        return
    with pytest.raises(InvalidRequest, match="too many steps"):
        await world.core.requests.decide(edit)


def test_parts_of_a_schema_in_another_draft_are_checked_as_ours() -> None:
    """Beside what it cannot check, nothing is let go."""
    part = {**OTHER_DRAFT, "type": "object", "properties": {"n": {"type": "integer"}}}
    schema = {"properties": {"in": {**part, "additionalProperties": False}}}
    check_schema(schema, {"in": {"n": 1}})
    for wrong in ({"in": {"n": "1"}}, {"in": {"m": 1}}, {"in": 1}):
        with pytest.raises(InvalidRequest, match="do not fit"):
            check_schema(schema, wrong)


def test_an_honest_schema_of_some_size_is_checked() -> None:
    """Hundreds of members, and a list of a thousand names that must differ."""
    members = {f"m{n}": {"type": "string", "minLength": 1} for n in range(300)}
    names = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
    schema = {"properties": {**members, "names": names}, "required": [*members]}
    arguments: dict[str, Any] = dict.fromkeys(members, "x")
    check_schema(schema, {**arguments, "names": [str(n) for n in range(1000)]})
    with pytest.raises(InvalidRequest, match="do not fit"):
        check_schema(schema, {**arguments, "m7": ""})


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    ["eyJ-", "-----BEGIN PRIVATE KEY-----", "password", "a://b:", "\U000e0061", "\u0300", "\u200d"],
)
def test_text_is_made_visible_and_masked_in_linear_time(text: str) -> None:
    """300 000 characters of what looks like the beginning of something."""
    assert render_safe(text * (300_000 // len(text))).segments


@pytest.mark.thorough
def test_a_crowd_of_deceiving_characters_is_escaped_as_a_whole() -> None:
    """A megabyte of them costs as much as plain text; nothing plain among them is hidden."""
    for crowd in ("\u0430a", "\U000e0061", "\u202e.\u202c"):
        seen = render_safe("rm -rf /; " + crowd * 300_000 + " && touch M")
        assert seen.hidden
        assert not set(seen.text) & set(crowd) - {"a", "."}
        assert seen.text.startswith("rm -rf /; ")
        assert seen.text.endswith(" && touch M")
        assert seen.text.count("a") >= crowd.count("a") * 300_000
        assert seen.text.count(".") >= crowd.count(".") * 300_000


async def test_no_number_of_processes_bloats_a_request(world: World) -> None:
    """As many as have a use may wait, or have the approval; the next is refused and told so."""
    record = await world.submit()
    answers = []
    for _ in range(40):
        process = new_id()
        await world.send("sync", {"ids": [record.id]}, process=process)
        await world.handled()
        answers.append("state" in await world.reply(process=process))
    assert answers == [True] * 32 + [False] * 8
    await world.core.requests.decide(click(await world.core.requests.get(record.id)))
    with pytest.raises(Conflict, match="too many"):
        for _ in range(40):
            await world.approvals.consume(record.id, over_http(new_id()))


async def test_what_is_cut_for_the_audit_was_masked_before(world: World) -> None:
    """Half a secret looks like none."""
    api = adapter_api("web", world.core, world.store)
    why = "x" * 480 + " ghp_" + "a" * 36
    await api.requests.refuse("0" * 32, identity("eve"), why)
    assert "ghp_" not in (await world.events())[-1].data["why"]


@pytest.mark.parametrize("room", [1, 30, 45, 46, 47])
async def test_an_agents_words_are_not_cut_within_a_secret(world: World, room: int) -> None:
    """Wherever the end of what is kept falls: neither the audit nor the record has half of it."""
    secret = "pass4word-of-the-whole-company"
    words = "x" * (2000 - room) + f" postgres://us:{secret}@host/ and more"
    record = await world.submit()
    await world.core.requests.decide(click(record))
    report = Report(execution=Execution.FAILED, detail=words)
    done = await world.approvals.report(record.id, report, over_http())
    reason = Reason.CANCELLED_BY_AGENT
    gone = await world.approvals.cancel(new_id(), over_http(), reason=reason, message=words)
    assert gone.decision is not None
    assert done.report is not None
    for kept in (done.report.detail, gone.decision.message):
        assert len(kept) <= 2000
        assert words.startswith(kept)
        assert secret in kept if room > 45 else secret[:3] not in kept
    told = [event.data for event in await world.events() if event.type in ("reported", "cancelled")]
    assert len(told) == 2
    assert secret[:3] not in str(told)
