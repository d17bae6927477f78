"""What a click does to a record: pure, no server."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.approvals.transitions import Clicker, ClickResult, apply_click, nonce_of
from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Identity, Person, Remember, StoredRequest, summary
from gateway.domain.redaction import mask
from gateway.domain.risk import raise_risk
from gateway.errors import Conflict, InvalidRequest, Unauthorized
from gateway.models import (
    Action,
    FieldKind,
    Kind,
    Option,
    Origin,
    Question,
    Reason,
    Risk,
    RiskLevel,
    Status,
    digest_of,
)
from gateway.policy.authorization import Approver, answers_for, approver
from tests.world import PEOPLE, click, identity, request


def record(**changes: Any) -> StoredRequest:
    """Return a pending record."""
    asked = changes.pop("request", None) or request()
    values: dict[str, Any] = {
        "request": asked,
        "status": Status.PENDING,
        "revision": 1,
        "shown_since": 1,
        "digest": asked.digest,
        "created": 0,
        "deadline": 9,
        "route": "default",
        "process": "p" * 16,
    }
    return StoredRequest(**{**values, **changes})


def decide(
    before: StoredRequest, action: Action = Action.APPROVE, person: str = "ann", **more: Any
) -> ClickResult:
    """Apply a click."""
    tap = click(before, action, **more)
    by = Clicker(person, person, nonce_of(tap, person))
    return apply_click(before, tap, by, now=5, sign=lambda made: made)


@pytest.mark.parametrize(
    ("action", "more", "status"),
    [
        (Action.APPROVE, {}, Status.APPROVED),
        (Action.EDIT, {"arguments": {"command": "pwd"}}, Status.APPROVED),
        (Action.RESPOND, {"result": 5}, Status.APPROVED),
        (Action.DENY, {"message": "no"}, Status.DENIED),
        (Action.ABORT, {}, Status.DENIED),
    ],
)
def test_each_action_ends_the_request_as_it_should(
    action: Action, more: dict[str, Any], status: Status
) -> None:
    """Every action leads to its own status, cites the person, and is given to the submitter."""
    after = decide(record(), action, **more).after
    assert (after.status, after.revision) == (status, 2)
    assert after.decision is not None
    assert after.decision.action is action
    assert (after.decision.decided_by.name, after.decision.reason) == ("ann", Reason.PERSON)
    assert after.consumers == (("p" * 16,) if status is Status.APPROVED else ())
    assert after.decision.abort == ("turn" if action is Action.ABORT else None)


def test_feedback_is_told_apart_from_a_denial() -> None:
    """Words to plan again are their own reason."""
    after = decide(record(), Action.DENY, message="use a branch", feedback=True).after
    assert after.decision is not None
    assert after.decision.reason is Reason.FEEDBACK


def test_a_note_never_reaches_the_agent() -> None:
    """The note is in the record and the audit, not in the decision that is sent."""
    after = decide(record(), note="looks fishy").after
    assert summary({}, after)["note"] == "looks fishy"
    assert "fishy" not in repr(after.decision)


def test_an_edit_makes_a_new_digest_over_exactly_the_new_arguments() -> None:
    """What was edited is what the decision names."""
    before = record()
    after = decide(before, Action.EDIT, arguments={"command": "pwd"}).after
    assert after.decision is not None
    assert after.decision.arguments == {"command": "pwd"}
    assert after.decision.digest == digest_of(before.request, {"command": "pwd"})
    assert after.digest != before.digest


def test_an_edit_of_what_was_read_masked_is_refused() -> None:
    """Else the mask itself would run. What an agent wrote like one is its own affair."""
    hidden = mask("ghp_" + "a" * 36)
    with pytest.raises(InvalidRequest, match="reveal the secret"):
        decide(record(), Action.EDIT, arguments={"token": hidden, "to": "prod"})
    own = record(request=request(arguments={"token": hidden}, allowed=tuple(Action)))
    assert decide(own, Action.EDIT, arguments={"token": hidden, "to": "prod"}).after.final
    with pytest.raises(InvalidRequest, match="reveal the secret"):
        decide(own, Action.EDIT, arguments={"token": hidden, "key": mask("ghp_" + "b" * 36)})


@pytest.mark.parametrize(
    "other",
    [{"action": Action.DENY}, {"arguments": {"b": 1}}, {"result": 1}, {"abort": "agent"},
     {"answers": {"q": "yes"}}, {"remember": Remember()}],
)  # fmt: skip
def test_a_click_that_is_sent_again_says_the_same(other: dict[str, Any]) -> None:
    """Another answer under the same nonce is another click."""
    one = click(record(), Action.EDIT, arguments={"a": 1}, nonce="n")
    assert nonce_of(one, "ann") == nonce_of(replace(one), "ann")
    assert nonce_of(one, "ann") != nonce_of(replace(one, **other), "ann")


def test_an_action_that_the_agent_cannot_follow_is_refused() -> None:
    """Allowed actions are enforced, whatever a card offered; denying is always possible."""
    before = record(request=request(allowed=(Action.APPROVE,)))
    with pytest.raises(InvalidRequest, match="does not allow edit; it allows approve or deny"):
        decide(before, Action.EDIT, arguments={})
    assert decide(before, Action.DENY).after.status is Status.DENIED


def test_a_click_on_an_older_picture_is_refused() -> None:
    """Nobody approves what they did not see; votes alone do not make a picture old."""
    before = record(revision=4, shown_since=3)
    with pytest.raises(Conflict):
        decide(before, revision=2)
    with pytest.raises(Conflict):
        decide(before, revision=5)
    assert decide(before, revision=3).after.status is Status.APPROVED


def test_a_quorum_counts_people_not_taps() -> None:
    """Two approvals of one person are one; the second person ends it."""
    first = decide(record(quorum=2)).after
    assert (first.status, [vote.person for vote in first.votes]) == (Status.PENDING, ["ann"])
    with pytest.raises(Conflict):
        decide(first)
    assert decide(first, person="bob").after.status is Status.APPROVED


def test_one_deny_ends_an_open_quorum() -> None:
    """Deny wins."""
    first = decide(record(quorum=3)).after
    assert decide(first, Action.DENY, person="bob").after.status is Status.DENIED


def test_an_edit_voids_earlier_votes() -> None:
    """Who approved other arguments has approved nothing; and their old picture is refused."""
    first = decide(record(quorum=2)).after
    edited = decide(first, Action.EDIT, person="bob", arguments={"command": "pwd"}).after
    assert [vote.person for vote in edited.votes] == ["bob"]
    assert edited.status is Status.PENDING
    with pytest.raises(Conflict):
        decide(edited, revision=first.revision)
    final = decide(edited).after
    assert final.decision is not None
    assert final.decision.arguments == {"command": "pwd"}


def test_respond_with_an_open_quorum_is_refused() -> None:
    """One person alone cannot put words in place of a call that needs two."""
    with pytest.raises(InvalidRequest):
        decide(record(quorum=2), Action.RESPOND, result=1)


@pytest.mark.parametrize("arguments", [{}, {"command": 5}, {"command": "x", "more": 1}])
def test_edited_arguments_must_fit_the_schema(arguments: dict[str, Any]) -> None:
    """The agent's own schema is checked before anyone is told that it was approved."""
    schema = {
        "type": "object",
        "required": ["command"],
        "properties": {"command": {"type": "string"}},
        "additionalProperties": False,
    }
    before = record(request=request(schema=schema))
    with pytest.raises(InvalidRequest, match="do not fit"):
        decide(before, Action.EDIT, arguments=arguments)
    assert decide(before, Action.EDIT, arguments={"command": "x"}).after.status is Status.APPROVED


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"$ref": "https://example.invalid/x"},
        {"properties": {"command": {"$ref": "#/definitions/none"}}},
    ],
)
def test_an_unusable_schema_refuses_the_edit_and_fetches_nothing(schema: dict[str, Any]) -> None:
    """A hostile schema cannot make the gateway call out, nor let an edit through."""
    before = record(request=request(schema=schema))
    with pytest.raises(InvalidRequest):
        decide(before, Action.EDIT, arguments={"command": "x"})


FORM = (
    Question(id="name", text="?"),
    Question(id="age", text="?", kind=FieldKind.NUMBER, required=False),
    Question(id="ok", text="?", kind=FieldKind.BOOLEAN, required=False),
    Question(
        id="one",
        text="?",
        kind=FieldKind.CHOICE,
        options=(Option(value="a"), Option(value="b")),
        required=False,
    ),
    Question(
        id="many",
        text="?",
        kind=FieldKind.CHOICES,
        options=(Option(value="a"), Option(value="b")),
        required=False,
    ),
    Question(id="password", text="?", secret=True, required=False),
)


def form() -> StoredRequest:
    """Return a pending question."""
    return record(
        request=request(kind=Kind.QUESTION, questions=FORM, allowed=(Action.ANSWER, Action.DENY))
    )


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"name": ""},
        {"name": 5},
        {"name": "x", "age": "5"},
        {"name": "x", "age": True},
        {"name": "x", "ok": "yes"},
        {"name": "x", "one": "c"},
        {"name": "x", "many": "a"},
        {"name": "x", "many": ["a", "c"]},
        {"name": "x", "other": 1},
    ],
)
def test_answers_that_do_not_fit_the_form_are_refused(answers: dict[str, Any]) -> None:
    """Required, known, and of the right kind: checked at the server."""
    with pytest.raises(InvalidRequest):
        decide(form(), Action.ANSWER, answers=answers)


def test_secret_answers_are_kept_apart() -> None:
    """The decision and the event of a question never hold a secret."""
    answers = {"name": "x", "age": 1.5, "one": "a", "many": ["a", "b"], "password": "hunter2"}
    effect = decide(form(), Action.ANSWER, answers=answers)
    assert effect.secrets == {"password": "hunter2"}
    assert "hunter2" not in repr(effect.after)
    assert effect.after.decision is not None
    assert effect.after.decision.answers == {**answers, "password": None}


def test_a_question_cannot_be_approved_nor_a_call_answered() -> None:
    """The action must fit the kind, even when the agent allows everything."""
    loose = replace(form(), request=replace(form().request, allowed=tuple(Action)))
    with pytest.raises(InvalidRequest):
        decide(loose, Action.APPROVE)
    with pytest.raises(InvalidRequest):
        decide(record(request=request(allowed=tuple(Action))), Action.ANSWER, answers={})


POLICY = PolicyDocument(people=PEOPLE, routes=(Route(approvers=("ann", "bob")),))


def test_whoever_approves_for_an_agent_answers_for_its_sessions() -> None:
    """Patterns, groups and admins count as they do at a click; others may not."""
    policy = replace(
        POLICY,
        people=(*PEOPLE, Person(name="root", identities=("token:root",), admin=True)),
        routes=(
            Route(name="a", agents=("ci-*",), approvers=("ann", "slack:T1/S1")),
            Route(name="b", agents=("other",), approvers=("bob",)),
        ),
    )
    chat = Identity(platform="slack", id="T1/U1", groups=("slack:T1/S1",))
    for who in (identity("ann"), identity("root"), chat):
        assert answers_for(policy, "ci-7", who)
    for who in (identity("bob"), identity("eve"), replace(chat, groups=())):
        assert not answers_for(policy, "ci-7", who)


def test_only_people_of_the_route_may_decide() -> None:
    """Not on the list, unknown, or on another platform: no."""
    assert _approver(POLICY, record(), identity("ann")).name == "ann"
    for who in (identity("eve"), identity("nobody"), replace(identity("ann"), platform="slack")):
        with pytest.raises(Unauthorized):
            _approver(POLICY, record(), who)


def _approver(policy: PolicyDocument, asked: StoredRequest, who: Identity) -> Approver:
    return approver(policy.ruling_on(asked.request), asked, who)


def test_an_empty_list_of_approvers_means_nobody() -> None:
    """Missing configuration never lets anyone in."""
    for policy in (PolicyDocument(), PolicyDocument(people=PEOPLE, routes=(Route(),))):
        with pytest.raises(Unauthorized):
            _approver(policy, record(), identity("ann"))


@pytest.mark.parametrize(
    ("route", "risk"),
    [
        (Route(approvers=("ann",), self_approval=False), RiskLevel.LOW),
        (Route(approvers=("ann",)), RiskLevel.HIGH),
    ],
)
def test_requesters_do_not_decide_their_own_requests(route: Route, risk: RiskLevel) -> None:
    """Neither the credential's owner nor the person whom the agent names; high risk always."""
    policy = PolicyDocument(
        people=(Person(name="ann", identities=("token:ann", "slack:T1/U1")),), routes=(route,)
    )
    level = Risk(level=risk)
    named = request(origin=Origin(channel="slack", sender="T1/U1"))
    for asked in (record(owner="ann", risk=level), record(request=named, risk=level)):
        with pytest.raises(Unauthorized, match="yourself"):
            _approver(policy, asked, identity("ann"))
    assert _approver(policy, record(owner="bob", risk=level), identity("ann")).name == "ann"


def test_an_agents_label_can_only_raise_the_risk() -> None:
    """Calling something low risk changes nothing."""
    medium = Risk(level=RiskLevel.MEDIUM)
    assert raise_risk(medium, Risk(level=RiskLevel.LOW)) == medium
    assert raise_risk(medium, Risk(level=RiskLevel.HIGH, reasons=("prod",))) == Risk(
        level=RiskLevel.HIGH, reasons=("the agent says: prod",)
    )
