"""What forms do: edits, results, questions, and what is remembered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.domain.risk import RiskRule
from gateway.models import Action, Kind, Option, Question, Reason, RiskLevel, Status
from gateway.models import FieldKind as Kinds
from tests.slack.office import HIGH, ROUTE, Office, form, labels, put_in_force, shown, told
from tests.world import click


async def test_an_edit_is_checked_shown_as_a_diff_and_runs(office: Office) -> None:
    """Broken JSON is refused in the form; what is confirmed is what the diff showed."""
    record, message = await office.asked()
    ann = office.ann
    await ann.more(message, "Edit…")
    await form(ann, "edit_fields")
    await ann.click_modal("As JSON")
    await form(ann, "edit")
    for wrong in ("{", '{"a": 1, "a": 2}', "[]", '{"command": NaN}'):
        ann.fill("Arguments, as JSON", wrong)
        await ann.submit()
        assert "text" in ann.modal.view["errors"]
    ann.fill("Arguments, as JSON", '{\n  "command": "ls"\n}')
    await ann.submit()
    assert "You changed nothing" in ann.modal.view["errors"]["text"]
    ann.fill("Arguments, as JSON", '{"command": "ls -l"}')
    await ann.submit()
    assert ann.modal.view["callback_id"] == "check_edit"
    assert '+   "command": "ls -l"' in office.modal_says(ann)
    await ann.submit()
    done = await office.ended(record)
    assert done.decision is not None
    assert done.decision.arguments == {"command": "ls -l"}
    assert done.decision.digest != record.digest
    await office.card_says(message, "Changed and approved by ann")


async def test_an_edit_that_is_refused_keeps_what_was_typed(office: Office) -> None:
    """What does not fit the schema is said at its field; what the gateway refuses at the end opens
    the form again, filled in; a masked value stays as it is."""
    schema = {"properties": {"amount": {"type": "number", "maximum": 100}}}
    arguments = {"amount": 12.0, "password": "s3cr3t-Token-0123456789", "note": "a"}
    record, message = await office.asked(tool="pay", arguments=arguments, schema=schema)
    ann = office.ann
    await ann.more(message, "Edit…")
    await form(ann, "edit_fields")
    assert "s3cr3t" not in office.modal_says(ann)
    ann.fill('"amount"', "500")
    await ann.submit()
    (why,) = ann.modal.view["errors"].values()
    assert "do not fit" in why
    ann.fill('"amount"', "50")
    await ann.submit()
    await form(ann, "check_edit")
    await ann.click_modal("Edit again")
    await form(ann, "edit_fields")
    assert "50" in office.modal_says(ann)
    await ann.submit()
    await form(ann, "check_edit")
    assert "s3cr3t" not in office.modal_says(ann)
    await ann.submit()
    done = await office.ended(record)
    assert done.edited == {**arguments, "amount": 50}


async def test_a_reason_takes_one_tap(office: Office) -> None:
    """What is denied stands in the modal; a reason denies at once, with what was typed."""
    record, message = await office.asked(arguments={"command": "rm -rf build"})
    bob = office.bob
    await bob.click(message, "Deny…")
    await form(bob, "deny")
    assert "rm -rf build" in office.modal_says(bob)
    bob.fill("Reason, for the agent", "use staging")
    await bob.click_modal("This is the wrong target")
    done = await office.ended(record)
    assert done.decision is not None
    assert (done.status, done.decision.message) == (
        Status.DENIED,
        "This is the wrong target. use staging",
    )
    assert done.decision.reason is Reason.PERSON


async def test_a_tapped_reason_keeps_what_was_chosen(office: Office) -> None:
    """Who chose another plan and taps a reason asks for another plan, with that reason."""
    record, message = await office.asked()
    bob = office.bob
    await bob.click(message, "Deny…")
    await form(bob, "deny")
    bob.fill("What the agent does next", "Deny, and ask for another plan")
    await bob.click_modal("This is too broad")
    done = await office.ended(record)
    assert done.decision is not None
    assert (done.decision.reason, done.decision.message) == (Reason.FEEDBACK, "This is too broad")


async def test_a_denial_takes_a_note_for_the_record(office: Office) -> None:
    """The agent is never told, the card says it."""
    record, message = await office.asked()
    bob = office.bob
    await bob.click(message, "Deny…")
    await form(bob, "deny")
    bob.fill("Note for the record, never for the agent", "told ann")
    await bob.submit()
    done = await office.ended(record)
    assert done.decision is not None
    assert (done.note, done.decision.message) == ("told ann", "")
    await office.card_says(message, "told ann")


async def test_a_wrong_number_is_named_by_its_field(office: Office) -> None:
    """Below it, and by the name that it has in the form."""
    _, message = await office.asked(tool="pay", arguments={"amount": 1e20})
    ann = office.ann
    await ann.more(message, "Edit…")
    await form(ann, "edit_fields")
    ann.fill('"amount"', "many")
    await ann.submit()
    assert ann.modal.view["errors"] == {"arg0": '"amount": the answer is not a number.'}


async def test_an_edit_that_makes_it_high_risk_is_confirmed_as_such(office: Office) -> None:
    """The first form could not know; what is sent from it decides nothing, and the next one says
    it."""
    rule = RiskRule(name="r", level=RiskLevel.HIGH, reason="deletes", contains=("rm -rf",))
    current = await office.world.store.policy()
    await office.world.store.apply(replace(current, risks=(rule,)), by="test")
    record, message = await office.asked()
    ann = office.ann
    await ann.more(message, "Edit…")
    await form(ann, "edit_fields")
    ann.fill('"command"', "rm -rf build")
    await ann.submit()
    assert "high risk" not in office.modal_says(ann)
    await ann.submit()
    await office.slack.until(lambda: "This is high risk" in office.modal_says(ann))
    assert '+   "command": "rm -rf build"' in office.modal_says(ann)
    assert (await office.api.requests.get(record.id)).status is Status.PENDING
    await ann.submit()
    done = await office.ended(record)
    assert done.decision is not None
    assert done.decision.arguments == {"command": "rm -rf build"}


async def test_responding_and_stopping(office: Office) -> None:
    """A result instead of running, and a denial that stops the turn, reach the agent."""
    record, message = await office.asked()
    await office.ann.more(message, "Respond instead…")
    await form(office.ann, "respond")
    office.ann.fill("Result that the agent gets; the call is not run", "42")
    await office.ann.submit()
    done = await office.ended(record)
    assert done.decision is not None
    assert (done.decision.action, done.decision.result) == (Action.RESPOND, "42")
    record, message = await office.asked()
    await office.ann.more(message, "Deny and stop…")
    await form(office.ann, "abort")
    office.ann.fill("What to stop", "Stop the agent")
    await office.ann.submit()
    done = await office.ended(record)
    assert done.decision is not None
    assert (done.decision.action, done.decision.abort) == (Action.ABORT, "agent")


async def test_feedback_needs_words(office: Office) -> None:
    """Asking for another plan without saying which is refused in the form."""
    record, message = await office.asked()
    bob = office.bob
    await bob.click(message, "Deny…")
    await form(bob, "deny")
    bob.fill("What the agent does next", "Deny, and ask for another plan")
    await bob.submit()
    assert "reason" in bob.modal.view["errors"]
    bob.fill("Reason, for the agent", "use the staging machine")
    await bob.submit()
    done = await office.ended(record)
    assert done.decision is not None
    assert done.decision.reason is Reason.FEEDBACK


async def test_details_of_a_question_open(office: Office) -> None:
    """Nothing would run, and it is looked at all the same."""
    asks = (Question(id="why", text="Why now?"), Question(id="n", text="How many?"))
    allowed = (Action.ANSWER, Action.DENY)
    _, message = await office.asked(
        kind=Kind.QUESTION, tool="ask", arguments={}, questions=asks, allowed=allowed
    )
    await office.ann.more(message, "Details")
    await office.told_in_modal(office.ann, "How many?")
    assert office.modal_buttons(office.ann) == ["Answer…", "Deny…"]


async def test_questions_are_answered_in_a_form(office: Office) -> None:
    """Choices, numbers, yes and no and texts arrive as what they are; empty ones are left out."""
    questions = (
        Question(id="env", text="Where?", kind=Kinds.CHOICE, options=(Option(value="p" * 200),)),
        Question(id="n", text="How many?", kind=Kinds.NUMBER),
        Question(id="ok", text="Sure?", kind=Kinds.BOOLEAN),
        Question(
            id="who",
            text="Who?",
            kind=Kinds.CHOICES,
            options=(Option(value="a", label="A"), Option(value="b", label="B")),
        ),
        Question(id="why", text="Why?", required=False),
    )
    allowed = (Action.ANSWER, Action.DENY)
    record, message = await office.asked(
        kind=Kind.QUESTION, arguments={}, questions=questions, allowed=allowed
    )
    ann = office.ann
    await ann.click(message, "Answer…")
    await form(ann, "answer")
    for label, value in (("How many?", "3.5"), ("Sure?", "No"), ("Who?", ["A", "B"])):
        ann.fill(label, value)
    ann.fill("Where?", "p" * 74 + "…")
    await ann.submit()
    done = await office.ended(record)
    assert done.decision is not None
    assert done.decision.answers == {"env": "p" * 200, "n": 3.5, "ok": False, "who": ["a", "b"]}


async def test_secrets_are_not_asked_for_in_slack(office: Office) -> None:
    """A required secret: no answer button, and the card says where to answer."""
    questions = (Question(id="pw", text="Password?", secret=True),)
    allowed = (Action.ANSWER, Action.DENY)
    _, message = await office.asked(
        kind=Kind.QUESTION, arguments={}, questions=questions, allowed=allowed
    )
    assert labels(office.ann, message) == ["Deny…", "More…"]
    assert "Answer it in the inbox" in shown(message)


async def test_remembering_says_what_it_covers_and_can_be_taken_back(office: Office) -> None:
    """Remember approves, the next such request needs nobody, and /approvals revoke ends that, for
    whoever may approve there and for nobody else."""
    command = {"command": "git log --oneline -n 5"}
    record, message = await office.asked(kind=Kind.COMMAND, arguments=command)
    ann = office.ann
    await ann.more(message, "Remember…")
    await form(ann, "remember")
    assert 'exactly this: "' in office.modal_says(ann)
    assert "It would have covered" not in office.modal_says(ann)  # nothing like it was asked before
    ann.fill("Where", "In all sessions of this agent")
    ann.fill("How long", "For a day")
    await ann.submit()
    assert (await office.ended(record)).status is Status.APPROVED
    again = await office.ask(kind=Kind.COMMAND, arguments=command)
    assert again.decision is not None
    assert again.decision.reason is Reason.GRANT
    await ann.slash("/approvals", "grants", "C1")
    await told(ann, "Grants: 1")
    (grant,) = await office.api.grants.newest()
    assert (grant.made_by, grant.session) == ("ann", None)
    eve = office.slack.person("UEVE", name="eve")
    await eve.slash("/approvals", f"revoke {grant.id[:8]}", "C1")
    await told(eve, "This request is no longer available")
    await office.bob.slash("/approvals", f"revoke {grant.id[:8]}", "C1")
    await told(office.bob, "Revoked")
    assert (await office.ask(kind=Kind.COMMAND, arguments=command)).status is Status.PENDING


async def test_a_denial_can_be_remembered(office: Office) -> None:
    """Deny exactly this for a day: the same request is denied without asking anybody."""
    record, message = await office.asked()
    await office.bob.click(message, "Deny…")
    await form(office.bob, "deny")
    office.bob.fill(
        "If the agent submits the same request again",
        "Deny exactly this for a day, in this session",
    )
    await office.bob.submit()
    assert (await office.ended(record)).status is Status.DENIED
    again = await office.ask()
    assert again.decision is not None
    assert (again.status, again.decision.reason) == (Status.DENIED, Reason.GRANT)


async def test_high_risk_is_never_remembered(office: Office) -> None:
    """No button, and a forged press on it offers nothing."""
    record, message = await office.asked(risk=HIGH)
    assert "Remember…" not in labels(office.ann, message)
    block, button = office.ann.buttons(message.blocks)[-1]
    forged = {**button, "action_id": "remember_form"}
    payload = office.ann.payloads.on_message("C1", message, block, forged)
    await office.slack.deliveries.interaction(payload)
    await office.slack.until(lambda: "requires approval each time" in office.modal_says(office.ann))
    assert "submit" not in office.ann.modal.view
    assert (await office.api.requests.get(record.id)).status is Status.PENDING


async def test_a_pass_is_given_in_the_form(office: Office) -> None:
    """It stands last and is not chosen; too long a one is refused in words, and decides nothing."""
    record, message = await office.asked(kind=Kind.COMMAND, arguments={"command": "make lint"})
    ann = office.ann
    for life in ("Until revoked", "For the next 5, within an hour"):
        await ann.more(message, "Remember…")
        await form(ann, "remember")
        says = office.modal_says(ann)
        assert "a pass, 8 hours at most: running the project" in says
        scopes = next(one for one in ann.modal.view["blocks"] if one.get("block_id") == "scope")
        options = scopes["element"]["options"]
        assert scopes["element"]["initial_option"] == options[0] != options[-1]
        ann.fill("Approve this and later requests like it", options[-1]["text"]["text"])
        ann.fill("How long", life)
        await ann.submit()
        if life == "Until revoked":
            await office.slack.until(lambda: "choose a shorter time" in office.modal_says(ann))
            assert (await office.api.requests.get(record.id)).status is Status.PENDING
    assert (await office.ended(record)).status is Status.APPROVED
    (grant,) = await office.api.grants.newest()
    assert (grant.match.scope.value, grant.max_uses) == ("a pass for the session", 5)
    other = await office.ask(tool="bash", arguments={"command": "ls"})
    assert other.decision is not None and other.decision.decided_by.name == grant.id


async def test_no_pass_is_offered_to_who_may_not_give_it(office: Office) -> None:
    """Where another route of the agent has other approvers, the form has no pass in it."""
    routes = (replace(ROUTE, tools=("sh",)), replace(ROUTE, approvers=("bob",)))
    await put_in_force(office.world, *routes)
    _, message = await office.asked(
        tool="sh", kind=Kind.COMMAND, arguments={"command": "make lint"}
    )
    await office.ann.more(message, "Remember…")
    await form(office.ann, "remember")
    assert "exactly this" in office.modal_says(office.ann)
    assert "a pass" not in office.modal_says(office.ann)


async def test_the_usual_choice_comes_first(office: Office) -> None:
    """What covers the last ten similar requests is chosen in the form, and says so."""
    for number in range(10):
        record = await office.ask(kind=Kind.COMMAND, arguments={"command": f"git log -n {number}"})
        await office.api.requests.decide(click(record, Action.APPROVE))
    record, message = await office.asked(kind=Kind.COMMAND, arguments={"command": "git log -n 99"})
    ann = office.ann
    await ann.more(message, "Remember…")
    await form(ann, "remember")
    assert "Preselected: it covers the last 10 similar requests." in office.modal_says(ann)
    scopes = next(one for one in ann.modal.view["blocks"] if one.get("block_id") == "scope")
    assert scopes["element"]["initial_option"] == scopes["element"]["options"][1]
    await ann.submit()
    assert (await office.ended(record)).status is Status.APPROVED
    (grant,) = await office.api.grants.newest()
    assert "exactly this" not in grant.words


async def approved(office: Office, count: int) -> None:
    """Have ann approve so many similar commands at her terminal."""
    for number in range(count):
        record = await office.ask(kind=Kind.COMMAND, arguments={"command": f"git log -n {number}"})
        await office.api.requests.decide(click(record, Action.APPROVE))


async def test_a_suggestion_is_told_in_private_and_takes_a_no(office: Office) -> None:
    """After the tap, to who gave it alone; the no is kept, and nobody else's."""
    await approved(office, 11)
    ann, said = office.ann, "You approved this 12 times in 14 days"
    record, message = await office.asked(kind=Kind.COMMAND, arguments={"command": "git log -n 99"})
    await ann.click(message, "Approve")
    await told(ann, said)
    await office.ended(record)
    assert not any(said in one for one in office.bob.private())
    *_, (channel, _, body) = ann.workspace.ephemerals
    assert "choose Remember… on the next card like this" in body["text"]
    ((block, no),) = ann.buttons(body["blocks"])
    assert no["text"]["text"] == "Not again"
    payload = ann.payloads.on_message(channel, message, block, no)
    await office.slack.deliveries.interaction(payload)
    await told(ann, "not see this suggestion for 90 days")
    store = office.world.store
    notes = store.keys.note("suggestions", "no *ann")
    assert len([key async for key in store.redis.scan_iter(match=notes)]) == 1


async def test_a_failing_look_hinders_no_approval(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card shows the end, and nothing is told in private."""

    async def fail(*_: object) -> None:
        raise RuntimeError("the store is gone")

    await approved(office, 12)
    monkeypatch.setattr(type(office.api.suggestions), "suggest", fail)
    record, message = await office.asked(kind=Kind.COMMAND, arguments={"command": "git log -n 99"})
    await office.ann.click(message, "Approve")
    await office.card_says(message, "Approved by ann")
    assert (await office.ended(record)).status is Status.APPROVED
    assert office.ann.private() == []
