"""The wire types: what the digest covers, and that nothing is lost on the way."""

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from gateway.api.api_call import Nothing
from gateway.domain.parsing import parse_message, parse_request
from gateway.errors import InvalidRequest
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    DecidedBy,
    DeciderKind,
    Decision,
    Kind,
    Option,
    Origin,
    Preview,
    Question,
    Reason,
    Risk,
    RiskLevel,
    State,
    Status,
    digest_of,
)
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import build, plain
from tests.world import request

FULL = request(
    session="s1",
    turn="t1",
    hint="because",
    preview=Preview(format="diff", text="+a"),
    payload={"k": [1, None]},
    context=Context(cwd="/tmp", host="h", env={"A": "1"}, files={"f": "00"}),
    origin=Origin(framework="x", tool_call_id="c", sender="U1", channel="slack"),
    schema={"type": "object"},
    risk=Risk(level=RiskLevel.HIGH, reasons=("r",)),
    timeout=5.0,
)


def test_a_request_survives_the_wire() -> None:
    """Every member arrives as it was sent, for the strict server and the lenient client."""

    raw = json.dumps(plain(FULL)).encode()
    assert build(ApprovalRequest, plain(FULL)) == FULL
    assert parse_request(raw) == FULL


def test_a_message_without_members_is_an_empty_object() -> None:
    """The body of a call that takes none, for one."""
    assert plain(Nothing()) == {}
    assert build(Nothing, {}) == Nothing()


def test_a_question_survives_the_wire() -> None:
    """Nested members of a question arrive."""
    asked = Question(id="a", text="?", options=(Option(value="x", label="X"),), secret=True)
    made = request(kind=Kind.QUESTION, questions=(asked,), allowed=(Action.ANSWER,))
    assert build(ApprovalRequest, plain(made)) == made


@pytest.mark.parametrize(
    "change",
    [
        {"agent": "other"},
        {"tool": "rm"},
        {"kind": Kind.COMMAND},
        {"arguments": {"command": "ls "}},
        {"payload": {"k": [1]}},
        {"context": Context(cwd="/", host="h", env={"A": "1"}, files={"f": "00"})},
        {"context": Context(cwd="/tmp", host="h", env={"A": "2"}, files={"f": "00"})},
        {"context": Context(cwd="/tmp", host="h", env={"A": "1"}, files={"f": "01"})},
    ],
)
def test_the_digest_changes_with_everything_that_would_run(change: dict[str, Any]) -> None:
    """No part of an action can change without a new digest."""
    assert digest_of(replace(FULL, **change)) != digest_of(FULL)


def test_the_digest_ignores_ids_and_the_agents_words() -> None:
    """The same action has the same digest in every request and session."""
    other = replace(FULL, id="f" * 32, session="s2", hint="trust me", preview=None, timeout=None)
    assert digest_of(other) == digest_of(FULL)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "short"},
        {"agent": "Bot:1"},
        {"session": "a b"},
        {"tool": ""},
        {"tool": "a\nb"},
        {"timeout": -1.0},
        {"timeout": 1e9},
        {"timeout": float("nan")},
        {"allowed": ()},
        {"kind": Kind.QUESTION},
        {"questions": (Question(id="a", text="?"),)},
    ],
)
def test_a_member_that_breaks_the_rules_is_refused(change: dict[str, Any]) -> None:
    """Names, ids and times outside their range never become a request."""
    with pytest.raises(InvalidRequest):
        replace(FULL, **change)


def test_unknown_members_are_refused_by_the_server_and_skipped_by_the_client() -> None:
    """The server is strict; an agent survives a newer gateway."""

    values = {**plain(FULL), "Cmd": "rm"}
    with pytest.raises(InvalidRequest, match="Cmd is not a known member"):
        parse_request(json.dumps(values).encode())
    assert build(ApprovalRequest, values) == FULL


def test_a_reason_that_a_newer_gateway_adds_is_kept() -> None:
    """As it came, so that the signed bytes stay the same; it equals no reason that we know."""
    decision = Decision(
        request_id=FULL.id,
        revision=2,
        status=Status.DENIED,
        action=Action.DENY,
        reason=Reason.RULE,
        digest=FULL.digest,
        decided_by=DecidedBy(kind=DeciderKind.RULE, name="r"),
        decided_at=1,
        expires_at=2,
    )
    values = {**plain(decision), "reason": "quarantined"}
    read: Decision = pickle.loads(pickle.dumps(build(Decision, values)))
    assert read.reason == "quarantined"
    assert read.reason not in set(Reason)
    assert read.signed_bytes() == canonical(values)
    assert "quarantined" not in read.sentence()


def test_a_wrong_digest_is_refused() -> None:
    """The digest is checked at the edge, not believed."""

    with pytest.raises(InvalidRequest, match="digest"):
        parse_request(json.dumps(plain(replace(FULL, digest="0" * 64))).encode())


def test_types_are_not_guessed() -> None:
    """A string is no number, and a number no string."""
    with pytest.raises(InvalidRequest):
        parse_message(
            State, b'{"id":"x","status":"pending","revision":"1","digest":"","deadline":1}'
        )


def test_nobody_is_told_that_a_person_denied_when_nobody_was_asked() -> None:
    """The sentence names the true author of every outcome."""
    base = Decision(
        request_id=FULL.id,
        revision=2,
        status=Status.DENIED,
        action=Action.DENY,
        reason=Reason.PERSON,
        digest=FULL.digest,
        decided_by=DecidedBy(kind=DeciderKind.PERSON, name="ann"),
        decided_at=1,
        expires_at=2,
        message="no",
    )
    assert base.sentence() == "denied by ann: no"
    for reason in set(Reason) - {Reason.PERSON, Reason.FEEDBACK}:
        system = DecidedBy(kind=DeciderKind.SYSTEM, name="gateway")
        said = replace(base, reason=reason, decided_by=system, message="").sentence()
        assert "ann" not in said
        assert "user" not in said
