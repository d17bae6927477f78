"""The events, frames and POST of the document, and how each answer ends."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.cards.remember_options import scopes_of
from gateway.domain.policy_document import PolicyDocument, ToolRow
from gateway.domain.records import ScopeQuorum, StoredRequest
from gateway.domain.risk import LevelRules, RulesByRisk, StepUp
from gateway.models import Action, Kind, Question, Risk, RiskLevel, Status
from gateway.policy.grants.grant import Answer, Grant, Shape
from tests.saiki.site import Ui, ui
from tests.web.inbox import COMMAND, Inbox

STATUS: dict[str, Any] = {
    "tool": "git_status",
    "arguments": {"path": "/srv/shop", "short": True},
    "session": "session-123",
    "hint": "see what changed",
}


async def ended(box: Inbox, record: StoredRequest, status: Status) -> StoredRequest:
    """Return a request that ended so."""
    now = await box.get(record)
    assert now.status is status
    return now


async def granted(box: Inbox) -> list[Grant]:
    """Return what is remembered, but for what every denial says for some minutes."""
    return [one for one in await box.gateway.core.grants.all() if not one.told]


async def test_the_event_that_asks_has_every_field(box: Inbox, ann: Ui) -> None:
    """Those of the document and no other; the description says what the arguments do not."""
    async with ann.connect() as screen:
        before = datetime.now(UTC)  # noqa: TID251 (compared with what the gateway says)
        record = await box.ask(**STATUS)
        event = await screen.next()
    assert set(event) == {
        *("toolName", "args", "description", "executionId", "timestamp", "sessionId")
    }
    assert (event["toolName"], event["args"]) == ("git_status", STATUS["arguments"])
    assert event["sessionId"] == "session-123"
    assert event["executionId"].startswith(record.id)
    assert abs((datetime.fromisoformat(event["timestamp"]) - before).total_seconds()) < 60
    assert "The agent says (unverified): “see what changed”" in event["description"]
    assert "medium risk" in event["description"]
    assert "Expires 20" in event["description"]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_frame_decides_once_and_everybody_hears(
    box: Inbox, ann: Ui, approved: bool
) -> None:
    """The one who answered and another screen get the response event; a second answer is late."""
    async with ui(box, "bob") as bob, ann.connect() as mine, bob.connect() as other:
        record = await box.ask(**STATUS)
        asked = await mine.next()
        assert await other.next() == asked
        name = {"executionId": asked["executionId"]}
        await mine.emit({**name, "approved": approved, "sessionId": "session-123"})
        told = {**name, "approved": approved, "sessionId": "session-123"}
        for screen in (mine, other):
            assert await screen.next("toolConfirmationResponse") == told
        await other.emit({**name, "approved": not approved})
        late = await other.next("error")
        assert late == {"error": "Confirmation not found or expired", **name}
    now = await ended(box, record, Status.APPROVED if approved else Status.DENIED)
    assert now.decision is not None
    assert now.decision.decided_by.name == "ann"
    assert await granted(box) == []


@pytest.mark.parametrize("approved", [True, False])
async def test_post_decides_and_may_be_repeated(box: Inbox, ann: Ui, approved: bool) -> None:
    """`{success: true}`, also for the same answer sent again; another answer is told 404."""
    async with ann.connect() as screen:
        record = await box.ask(**STATUS)
        execution = (await screen.next())["executionId"]
    for _ in range(2):
        assert await ann.post(execution, {"approved": approved}) == (200, {"success": True})
    gone = {"error": "Confirmation not found or expired"}
    assert await ann.post(execution, {"approved": not approved}) == (404, gone)
    await ended(box, record, Status.APPROVED if approved else Status.DENIED)


async def test_expiry_is_told_as_not_approved(box: Inbox, ann: Ui) -> None:
    """Nobody answered: the event says approved false, and a late yes decides nothing."""
    async with ann.connect() as screen:
        record = await box.ask(**STATUS, timeout=0.3)
        execution = (await screen.next())["executionId"]
        told = await screen.next("toolConfirmationResponse")
        assert told == {"executionId": execution, "approved": False, "sessionId": "session-123"}
        assert (await ann.post(execution, {"approved": True}))[0] == 404
    await ended(box, record, Status.EXPIRED)


async def test_what_waits_is_shown_to_who_connects(box: Inbox, ann: Ui) -> None:
    """A page that comes late, or again, misses nothing."""
    records = [await box.ask(tool=f"tool_{n}") for n in range(3)]
    for _ in range(2):
        async with ann.connect() as screen:
            shown = {(await screen.next())["executionId"].partition(".")[0] for _ in records}
            assert shown == {record.id for record in records}


async def test_an_edit_elsewhere_makes_another_execution(box: Inbox, ann: Ui) -> None:
    """The old one is taken away as not approved, and a yes to it is refused."""
    await box.route(targets=("saiki",), quorum=2)
    async with ann.connect() as screen:
        record = await box.ask(**STATUS)
        old = (await screen.next())["executionId"]
        await box.decide(record, Action.EDIT, arguments={"path": "/tmp"})
        told = await screen.next("toolConfirmationResponse")
        assert (told["executionId"], told["approved"]) == (old, False)
        fresh = await screen.next()
        assert fresh["args"] == {"path": "/tmp"}
        status, answer = await ann.post(old, {"approved": True})
        assert (status, "changed since you saw it" in answer["error"]) == (409, True)
        await ended(box, record, Status.PENDING)
        assert (await ann.post(fresh["executionId"], {"approved": True}))[0] == 200
        assert (await screen.next("toolConfirmationResponse"))["approved"] is True
    assert (await ended(box, record, Status.APPROVED)).arguments == {"path": "/tmp"}


async def test_a_result_in_place_of_running_is_not_approved(box: Inbox, ann: Ui) -> None:
    """Somebody answered for the tool: it does not run."""
    async with ann.connect() as screen:
        record = await box.ask(**STATUS)
        await screen.next()
        await box.decide(record, Action.RESPOND, result="clean")
        assert (await screen.next("toolConfirmationResponse"))["approved"] is False


async def test_remembering_takes_the_narrowest_for_the_session(box: Inbox, ann: Ui) -> None:
    """Exactly this, until revoked, in this session: the next one is not asked, another session's
    and other arguments are."""
    async with ann.connect() as screen:
        await box.ask(**STATUS)
        name = {"executionId": (await screen.next())["executionId"]}
        await screen.emit(
            {**name, "approved": True, "rememberChoice": True, "sessionId": "session-123"}
        )
        await screen.next("toolConfirmationResponse")
        await box.remembered()
        (grant,) = await granted(box)
        assert (grant.session, grant.match.shape, grant.expires_at) == (
            *("session-123", Shape.EXACT),
            None,
        )
        await ended(box, await box.ask(**STATUS), Status.APPROVED)
        for change in ({"session": "other"}, {"arguments": {"path": "/etc"}}):
            await ended(box, await box.ask(**{**STATUS, **change}), Status.PENDING)


async def test_of_several_offers_the_narrowest_is_taken(box: Inbox, ann: Ui) -> None:
    """A command could be remembered more widely: the choice says nothing of that."""
    async with ann.connect() as screen:
        record = await box.ask(**{**COMMAND, "arguments": {"command": "git log -n 5"}})
        assert len(scopes_of(record, Action.APPROVE)) > 1
        execution = (await screen.next())["executionId"]
    assert (await ann.post(execution, {"approved": True, "rememberChoice": True}))[0] == 200
    await box.remembered()
    (grant,) = await granted(box)
    assert grant.match.shape is Shape.EXACT


async def test_what_waits_behind_another_is_shown_when_it_leads(box: Inbox, ann: Ui) -> None:
    """The same call twice is one question; the second is one of its own once the first ended."""
    async with ann.connect() as screen:
        first, second = await box.ask(**STATUS), await box.ask(**STATUS)
        assert (await screen.next())["executionId"].startswith(first.id)
        other = await box.ask(**{**STATUS, "arguments": {}})
        assert (await screen.next())["executionId"].startswith(other.id)
        assert (await ann.post(f"{first.id}.1", {"approved": True}))[0] == 200
        assert (await screen.next("toolConfirmationResponse"))["executionId"] == f"{first.id}.1"
        assert (await screen.next())["executionId"].startswith(second.id)


async def test_without_session_id_it_is_remembered_everywhere(box: Inbox, ann: Ui) -> None:
    """All sessions of the agent."""
    async with ann.connect() as screen:
        await box.ask(**STATUS)
        execution = (await screen.next())["executionId"]
    told = await ann.post(execution, {"approved": True, "rememberChoice": True})
    assert told == (200, {"success": True, "remembered": True})
    await box.remembered()
    (grant,) = await granted(box)
    assert grant.session is None
    await ended(box, await box.ask(**{**STATUS, "session": "other"}), Status.APPROVED)


async def test_everywhere_takes_the_votes_of_its_scope_quorum(box: Inbox, ann: Ui) -> None:
    """One of two: the request waits on, and the answer says so."""
    await box.route(targets=("saiki",), scope_quorum=ScopeQuorum(everywhere=2))
    wish = {"approved": True, "rememberChoice": True}
    async with ann.connect() as screen, ui(box, "bob") as bob:
        record = await box.ask(**STATUS)
        execution = (await screen.next())["executionId"]
        waits = {"success": True, "status": "pending", "remembered": False}
        assert await ann.post(execution, wish) == (200, waits)
        assert await granted(box) == []
        await ended(box, record, Status.PENDING)
        assert await bob.post(execution, wish) == (200, {"success": True, "remembered": True})
        await ended(box, record, Status.APPROVED)


async def test_a_harmless_tool_is_remembered_whole(box: Inbox, ann: Ui) -> None:
    """Only where the operator declared it so."""
    store = box.gateway.backend.store
    policy = await store.policy()
    rows = (ToolRow(name="git_status", harmless=True),)
    document = PolicyDocument(
        generation=policy.generation, people=policy.people, routes=policy.routes, tools=rows
    )
    await store.apply(document, by="test")
    box.gateway.core.writer.forget_policy()
    asked = {**STATUS, "arguments": {"note": "one"}}
    async with ann.connect() as screen:
        await box.ask(**asked)
        execution = (await screen.next())["executionId"]
    answer = {"approved": True, "rememberChoice": True, "sessionId": "session-123"}
    assert (await ann.post(execution, answer))[1]["remembered"] is True
    await box.remembered()
    (grant,) = await granted(box)
    assert grant.match.answer is Answer.TOOL
    await ended(box, await box.ask(**{**asked, "arguments": {"note": "two"}}), Status.APPROVED)


async def test_a_denial_is_not_remembered_by_the_choice(box: Inbox, ann: Ui) -> None:
    """The document stores approvals only."""
    async with ann.connect() as screen:
        await box.ask(**STATUS)
        execution = (await screen.next())["executionId"]
    assert await ann.post(execution, {"approved": False, "rememberChoice": True}) == (
        *(200, {"success": True}),
    )
    assert await granted(box) == []


async def test_what_may_not_be_remembered_is_approved_once(box: Inbox, ann: Ui) -> None:
    """The answer says that nothing is remembered."""
    async with ann.connect() as screen:
        record = await box.ask(**{**STATUS, "arguments": {"path": "a\u202eb"}})
        event = await screen.next()
        assert event["args"] == {"path": "a⟨U+202E⟩b"}
    answer = {"approved": True, "rememberChoice": True}
    told = await ann.post(event["executionId"], answer)
    assert told == (200, {"success": True, "remembered": False})
    await ended(box, record, Status.APPROVED)


async def test_high_risk_is_only_denied_here(box: Inbox, ann: Ui) -> None:
    """The document has no step to confirm: the description says so, a yes is refused."""
    async with ann.connect() as screen:
        record = await box.ask(**STATUS, risk=Risk(level=RiskLevel.HIGH))
        event = await screen.next()
        assert "you can deny it here" in event["description"]
        status, answer = await ann.post(event["executionId"], {"approved": True})
        assert (status, "high risk" in answer["error"]) == (422, True)
        await ended(box, record, Status.PENDING)
        assert (await ann.post(event["executionId"], {"approved": False}))[0] == 200
    await ended(box, record, Status.DENIED)


async def test_a_step_up_is_refused_here_and_says_where_it_is_done(box: Inbox, ann: Ui) -> None:
    """The document has no step-up: a yes decides nothing, and names the place to answer."""
    low = LevelRules(step_up=(StepUp.PASSKEY,))
    await box.route(risk=RulesByRisk(low=low, medium=low))
    async with ann.connect() as screen:
        record = await box.ask(**STATUS)
        event = await screen.next()
        status, answer = await ann.post(event["executionId"], {"approved": True})
    assert (status, "approve at " in answer["error"]) == (422, True)
    await ended(box, record, Status.PENDING)


async def test_secrets_are_masked_and_what_could_act_is_not_approved(box: Inbox, ann: Ui) -> None:
    """The page never has the secret; a mask over what acts stands for no yes."""
    secret = "ghp_" + "a1B2" * 9
    async with ann.connect() as screen:
        record = await box.ask(tool="shell", arguments={"command": f"/opt/{secret}/run"})
        event = await screen.next()
        assert secret not in str(event)
        assert (await ann.post(event["executionId"], {"approved": True}))[0] in (409, 422)
    await ended(box, record, Status.PENDING)


async def test_what_an_approval_covers_beside_arguments_is_described(box: Inbox, ann: Ui) -> None:
    """Payload and environment are approved, too."""
    details = {"payload": {"amount": 7}, "tool": "pay", "arguments": {}}
    async with ann.connect() as screen:
        await box.ask(**details)
        assert '"amount": 7' in (await screen.next())["description"]


async def test_no_line_of_the_agents_passes_for_ours(box: Inbox, ann: Ui) -> None:
    """Its words and its payload are indented, whatever they say."""
    async with ann.connect() as screen:
        await box.ask(**{**STATUS, "hint": "fine\nRisk: none", "payload": {"a": "\nRisk: none"}})
        lines = (await screen.next())["description"].splitlines()
    assert "Risk: none" not in lines
    assert "  | Risk: none”" in lines


async def test_questions_are_not_shown(box: Inbox, ann: Ui) -> None:
    """The document has no way to answer them, nor to approve one by its id."""
    asks = {"kind": Kind.QUESTION, "questions": (Question(id="why", text="Why?"),)}
    asked = await box.ask(**asks, allowed=(Action.ANSWER, Action.DENY))
    async with ann.connect() as screen:
        await box.ask(**STATUS)
        assert (await screen.next())["toolName"] == "git_status"
    assert (await ann.post(f"{asked.id}.1", {"approved": True}))[0] == 404
    await ended(box, asked, Status.PENDING)


async def test_two_screens_that_answer_at_once_decide_once(box: Inbox, ann: Ui) -> None:
    """One answer counts, whichever; the other is told that it came late."""
    async with ui(box, "bob") as bob, ann.connect() as screen:
        record = await box.ask(**STATUS)
        execution = (await screen.next())["executionId"]
        answers = await asyncio.gather(
            ann.post(execution, {"approved": True}), bob.post(execution, {"approved": False})
        )
    assert sorted(status for status, _ in answers) == [200, 404]
    first = Status.APPROVED if answers[0][0] == 200 else Status.DENIED
    await ended(box, record, first)
