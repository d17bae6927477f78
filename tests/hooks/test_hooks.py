"""Policy hooks in real processes, through the gateway."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.api.messages import view
from gateway.approvals.search_and_report import read_report
from gateway.domain.policy_document import PolicyRule, RuleEffect
from gateway.domain.records import Edit, Remember
from gateway.domain.statistics import lines
from gateway.errors import InvalidRequest
from gateway.models import Action, DecidedBy, DeciderKind, Origin, Reason, Status, digest_of
from gateway.policy.hooks import HookHost
from tests.hooks.stage import QUICK, Staged, hook, reviewed_in
from tests.waiting import moment
from tests.world import click, over_http, request


async def test_no_objection_means_that_people_are_asked(staged: Staged, tmp_path: Path) -> None:
    """A hook's yes is not a person's; it heard the call in the shape that PicoClaw's hooks know."""
    notes = tmp_path / "notes"
    stage = await staged(puppet=hook(notes=notes))
    origin = Origin(channel="telegram", chat="c1", sender="u1")
    record = await stage.asked({"x": 1}, origin=origin, turn="t1")
    assert record.status is Status.PENDING
    hello, before, approve = [json.loads(line) for line in notes.read_text().splitlines()]
    assert hello["method"] == "hook.hello"
    assert hello["params"] == {"name": "puppet", "version": 1, "modes": ["approve", "tool"]}
    assert (before["method"], approve["method"]) == ("hook.before_tool", "hook.approve_tool")
    assert before["jsonrpc"] == "2.0"
    params = approve["params"]
    assert (params["tool"], params["arguments"]) == ("thing", {"x": 1})
    assert (params["channel"], params["chat_id"]) == ("telegram", "c1")
    inbound = {"channel": "telegram", "chat_id": "c1", "sender_id": "u1"}
    assert params["context"] == {"inbound": inbound, "route": {}, "scope": {}}
    meta = params["meta"]
    assert (meta["AgentID"], meta["SessionKey"], meta["TurnID"]) == ("bot", "default", "t1")
    assert not [name for name in hello["env"] if name.startswith(("GATEWAY", "REDIS"))]


async def test_hooks_are_told_the_payload(staged: Staged, tmp_path: Path) -> None:
    """It runs with the arguments, so both kinds of judges hear it; without one nothing is said."""
    notes = tmp_path / "notes"
    stage = await staged(puppet=hook(notes=notes))
    await stage.asked({"confirm": "tidy up"}, payload={"command": "rm -rf x"})
    await stage.asked({"confirm": "tidy up"})
    _, *asked = [json.loads(line)["params"] for line in notes.read_text().splitlines()]
    assert [one.get("payload") for one in asked] == [{"command": "rm -rf x"}] * 2 + [None] * 2


@pytest.mark.parametrize(
    ("answer", "action", "abort"),
    [
        ({"action": "deny_tool", "reason": "not here"}, Action.DENY, None),
        ({"action": "abort_turn", "reason": "not here"}, Action.ABORT, "turn"),
        ({"action": "hard_abort", "reason": "not here"}, Action.ABORT, "agent"),
    ],
)
async def test_a_hook_refuses(
    staged: Staged, answer: dict[str, Any], action: Action, abort: str | None
) -> None:
    """Nobody is asked; the agent is told that a hook did it, and what to stop."""
    stage = await staged()
    record = await stage.asked({"all": {"before_tool": answer}})
    assert record.status is Status.DENIED
    decision = record.decision
    assert decision is not None
    assert (decision.reason, decision.action, decision.abort) == (Reason.HOOK, action, abort)
    assert decision.sentence() == 'denied by the hook "puppet"; no person was asked: not here'


async def test_a_modified_call_is_another_digest_that_people_see(staged: Staged) -> None:
    """Only the changed arguments can be approved, and only those run."""
    stage = await staged()
    orders = {"before_tool": {"action": "modify", "call": {"tool": "thing", "arguments": {"y": 2}}}}
    asked = request(tool="thing", arguments={"all": orders})
    await stage.world.approvals.submit(asked, over_http())
    await reviewed_in(stage.world, asked.id)
    record = await stage.world.core.requests.get(asked.id)
    assert record.status is Status.PENDING
    assert (record.arguments, record.edited) == ({"y": 2}, {"y": 2})
    assert record.digest == digest_of(asked, {"y": 2}) != asked.digest
    stored = await stage.world.core.requests.get(record.id)
    assert (stored.edited, stored.digest) == (record.edited, record.digest)
    done = await stage.world.core.requests.decide(click(stored, remember=Remember()))
    assert done.decision is not None
    assert done.decision.action is Action.EDIT
    assert (done.decision.arguments, done.decision.digest) == ({"y": 2}, record.digest)
    again = await stage.asked({"y": 2})
    assert again.status is Status.APPROVED


async def test_a_change_by_a_hook_names_it_in_record_events_and_report(staged: Staged) -> None:
    """With its own reason: where it is asked, at the end, and counted once in the report. No
    person's name stands by the change."""
    stage = await staged()
    world = stage.world
    call = {"tool": "thing", "arguments": {"y": 2}}
    orders = {"before_tool": {"action": "modify", "call": call, "reason": "y is safer"}}
    record = await stage.asked({"all": orders})
    by = DecidedBy(kind=DeciderKind.RULE, name="puppet")
    assert record.edits == (Edit(by=by, digest=record.digest, why="y is safer"),)
    assert view(record, whole=True).edits == record.edits
    assert view(record, whole=False).edits == ()  # an agent is told nothing of hooks here
    await world.core.requests.decide(click(record))
    told = [event for event in await world.events(record.id) if event.data.get("edits")]
    assert [event.type for event in told] == ["reviewed", "approved"]
    assert {event.data["edits"][0]["why"] for event in told} == {"y is safer"}
    report = await read_report(world.store, world.clock.now_ms())
    assert [(hook.name, hook.changed) for hook in report.hooks] == [("puppet", 1)]
    assert any("puppet" in line for line in lines(report))


async def test_who_edits_after_a_hook_stands_beside_it(staged: Staged) -> None:
    """Both are named, in their order, and the event of the end has both."""
    stage = await staged()
    call = {"tool": "thing", "arguments": {"y": 2}}
    record = await stage.asked({"all": {"before_tool": {"action": "modify", "call": call}}})
    done = await stage.world.core.requests.decide(click(record, Action.EDIT, arguments={"y": 3}))
    assert [edit.by.name for edit in done.editors] == ["puppet", "ann"]
    event = (await stage.world.events(record.id))[-1]
    assert [edit["by"]["name"] for edit in event.data["edits"]] == ["puppet", "ann"]


@pytest.mark.parametrize(
    ("call", "more", "words"),
    [
        (
            {"tool": "thing", "arguments": {"y": 2}},
            {"allowed": (Action.APPROVE,)},
            "accepts no changes",
        ),
        ({"tool": "thing", "arguments": {"y": 2}}, {"schema": {"required": ["x"]}}, "do not fit"),
        ({"tool": "other", "arguments": {"y": 2}}, {}, "call other instead"),
    ],
)
async def test_a_change_that_cannot_be_made_is_a_denial(
    staged: Staged, call: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    """What the hook wanted changed never runs as it was."""
    stage = await staged()
    await stage.auto_approve()
    orders = {"before_tool": {"action": "modify", "call": call}}
    record = await stage.asked({"all": orders}, **more)
    assert record.status is Status.DENIED
    assert record.decision is not None
    assert words in record.decision.message


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "deny_tool", "reason": "not here"},
        {"action": "abort_turn", "reason": "not here"},
        {"action": "modify", "call": {"tool": "thing", "arguments": {"y": 2}}},
        {"action": "modify", "call": {"tool": "other", "arguments": {"y": 2}}},
        {"action": "respond", "result": {"for_llm": "x"}},
    ],
    ids=lambda answer: f"{answer['action']} {answer.get('call', {}).get('tool', '')}",
)
async def test_what_a_person_edits_is_judged_like_what_an_agent_asks(
    staged: Staged, answer: dict[str, Any]
) -> None:
    """Whatever a hook says but `continue` refuses the edit; the request waits as it was."""
    stage = await staged(puppet=hook(may_respond=True))
    record = await stage.asked({"x": 1})
    edit = click(record, Action.EDIT, arguments={"all": {"before_tool": answer}})
    with pytest.raises(InvalidRequest, match=r"puppet (refuses|would change) the edited arguments"):
        await stage.world.core.requests.decide(edit)
    assert await stage.world.core.requests.get(record.id) == record
    unchanged = {"all": {"before_tool": {"action": "continue"}}}
    done = await stage.world.core.requests.decide(click(record, Action.EDIT, arguments=unchanged))
    assert done.status is Status.APPROVED


async def test_a_hook_that_changes_nothing_has_no_objection(staged: Staged, tmp_path: Path) -> None:
    """It may answer `modify` to everything, also where the agent takes no changed arguments."""
    stage = await staged(puppet=hook(notes=tmp_path / "notes", env={"ECHO": "1"}))
    record = await stage.asked({"n": 1}, allowed=(Action.APPROVE, Action.DENY))
    assert (record.status, record.edited) == (Status.PENDING, None)
    record = await stage.asked({"n": 1})
    done = await stage.world.core.requests.decide(click(record, Action.EDIT, arguments={"n": 2}))
    assert done.status is Status.APPROVED


async def test_deny_rules_judge_what_a_hook_made_of_it(staged: Staged) -> None:
    """The changed call passes the whole chain again, and the hooks' approval."""
    stage = await staged()
    rule = PolicyRule(name="no prod", effect=RuleEffect.DENY, contains=("production",))
    await stage.world.put(rules=(rule,))
    call = {"tool": "thing", "arguments": {"to": "Production"}}
    record = await stage.asked({"all": {"before_tool": {"action": "modify", "call": call}}})
    assert record.decision is not None
    assert record.decision.decided_by.name == "no prod"
    refuse = {"approve_tool": {"approved": False, "reason": "no"}}
    call = {"tool": "thing", "arguments": {"all": refuse}}
    record = await stage.asked({"all": {"before_tool": {"action": "modify", "call": call}}})
    assert record.decision is not None
    assert record.decision.reason is Reason.HOOK


RESPONSE = {"action": "respond", "result": {"for_llm": "from the cache", "is_error": False}}


async def test_a_response_skips_tool_and_people_only_where_configured(staged: Staged) -> None:
    """Off it asks people; on it is a result that says who gave it, if the agent takes one."""
    stage = await staged()
    assert (await stage.asked({"all": {"before_tool": RESPONSE}})).status is Status.PENDING


async def test_a_configured_response_is_given(staged: Staged) -> None:
    """The result reaches the agent; one that takes none is asked about."""
    stage = await staged(puppet=hook(may_respond=True))
    record = await stage.asked({"all": {"before_tool": RESPONSE}})
    assert record.decision is not None
    assert (record.decision.action, record.decision.reason) == (Action.RESPOND, Reason.HOOK)
    assert record.decision.result == {"for_llm": "from the cache", "is_error": False}
    plain = (Action.APPROVE, Action.DENY)
    record = await stage.asked({"all": {"before_tool": RESPONSE}}, allowed=plain)
    assert record.status is Status.PENDING


async def test_all_approvers_must_agree(staged: Staged) -> None:
    """One no is a denial in its own words, whatever the others say or fail to say."""
    asked = ("approve_tool",)
    stage = await staged(one=hook("one", intercept=asked), two=hook("two", intercept=asked))
    no = {"approve_tool": {"approved": False, "reason": "two says no"}}
    for other in ({}, {"error": "broken"}):
        record = await stage.asked({"two": no, "one": other})
        assert record.decision is not None
        assert record.decision.message == "two says no"
    assert (await stage.asked({"x": 1})).status is Status.PENDING


async def test_approval_allows_only_where_all_are_configured_to(staged: Staged) -> None:
    """With both configured nobody is asked; a failure of one asks people."""
    stage = await staged(one=hook("one", may_allow=True), two=hook("two", may_allow=True))
    record = await stage.asked({"x": 1})
    assert record.decision is not None
    assert (record.status, record.decision.reason) == (Status.APPROVED, Reason.HOOK)
    assert (await stage.asked({"two": {"error": "broken"}})).status is Status.PENDING


@pytest.mark.parametrize(
    "orders",
    [
        {"error": "broken"},
        {"die": True},
        {"silent": True},
        {"before_tool": {"action": "allow"}},
        {"before_tool": {"action": "modify"}},
        {"before_tool": {"action": "modify", "call": {"tool": "", "arguments": {}}}},
        {"before_tool": "continue"},
        {"before_tool": None},
        {"approve_tool": {"approved": "yes"}},
        {"approve_tool": {"approved": 1}},
        {"approve_tool": {}},
        {"raw": "x" * 1_100_000, "silent": True},
    ],
    ids=lambda orders: next(iter(orders)) + str(len(str(orders))),
)
async def test_a_hook_that_fails_allows_nothing(staged: Staged, orders: dict[str, Any]) -> None:
    """Even where the route approves by itself, people are asked, and nobody is told of a denial."""
    stage = await staged(puppet=hook(timeout=40, may_allow=True, may_respond=True))
    await stage.auto_approve()
    assert (await stage.asked({"x": 1})).status is Status.APPROVED
    if orders.get("silent"):  # only what never comes is given up soon
        stage = await staged(puppet=hook(timeout=QUICK, may_allow=True, may_respond=True))
        await stage.auto_approve()
    assert (await stage.asked({"all": orders})).status is Status.PENDING


async def test_answers_may_come_in_any_order_and_nonsense_is_left_alone(
    staged: Staged, tmp_path: Path
) -> None:
    """Each caller gets the answer with its id; foreign ids and broken lines hurt nobody."""
    notes = tmp_path / "notes"
    stage = await staged(puppet=hook(notes=notes, intercept=("approve_tool",)))
    no = {"approve_tool": {"approved": False, "reason": "held"}, "hold": True}
    slow = asyncio.create_task(stage.asked({"all": no}))
    while not (notes.exists() and "held" in notes.read_text()):
        await moment()
    lines = ["{", "[]", '{"jsonrpc":"2.0","id":999,"result":{}}', '{"id":true}', "null"]
    quick = await stage.asked({"all": {"raw": "\n".join(lines)}})
    assert quick.status is Status.PENDING
    again = await stage.asked({"y": 1})
    assert again.status is Status.PENDING
    assert (await slow).decision.message == "held"


async def test_llm_messages_pass_hooks_in_order() -> None:
    """before_llm and after_llm may change a message or abort; one that fails is passed over."""
    change = {"action": "modify", "request": {"model": "small", "messages": []}}
    host = HookHost(
        {
            "broken": hook("broken", intercept=("before_llm",), timeout=QUICK, env={"MUTE": "1"}),
            "one": hook("one", intercept=("before_llm", "after_llm")),
        }
    )
    async with host.running():
        params = {"model": "big", "messages": [1], "arguments": {"one": {"before_llm": change}}}
        answer = await host.intercept("before_llm", params)
        assert answer.body == {"model": "small", "messages": []}
        abort = {"arguments": {"one": {"after_llm": {"action": "hard_abort", "reason": "stop"}}}}
        answer = await host.intercept("after_llm", {"response": {}, **abort})
        assert (answer.action.value, answer.reason) == ("hard_abort", "stop")
        assert (await host.intercept("after_llm", {"response": {}})).action.value == "continue"
