"""What Dexto is told: only what runs as it asked is approved."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.client import Outcome, OutcomeKind
from gateway.integrations.bridges.dexto import BadMessage, read_request, write_answer
from gateway.models import Action, DecidedBy, DeciderKind, Decision, Reason, Status

REQUEST: dict[str, Any] = {
    "approvalId": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "type": "tool_approval",
    "metadata": {"toolName": "bash_exec", "toolCallId": "c", "args": {"command": "ls"}},
}


def outcome(kind: OutcomeKind, reason: Reason | None = None, **more: Any) -> Outcome:
    """Return an outcome, with a decision where a reason is given."""
    decision = (
        None
        if reason is None
        else Decision(
            request_id="0" * 32,
            revision=2,
            status=Status.DENIED,
            action=Action.DENY,
            reason=reason,
            digest="",
            decided_by=DecidedBy(kind=DeciderKind.SYSTEM, name="gateway"),
            decided_at=1,
            expires_at=2,
        )
    )
    return Outcome(kind=kind, message="so it ended", decision=decision, **more)


TOLD = [
    (OutcomeKind.APPROVED, Reason.PERSON, "approved", None),
    (OutcomeKind.EDITED, Reason.PERSON, "denied", "system_denied"),
    (OutcomeKind.RESPONDED, Reason.HOOK, "denied", "system_denied"),
    (OutcomeKind.DENIED, Reason.PERSON, "denied", "user_denied"),
    (OutcomeKind.DENIED, Reason.FEEDBACK, "denied", "user_denied"),
    (OutcomeKind.DENIED, Reason.RULE, "denied", "system_denied"),
    (OutcomeKind.DENIED, Reason.GRANT, "denied", "system_denied"),
    (OutcomeKind.DENIED, Reason.STOPPED, "denied", "system_denied"),
    (OutcomeKind.DENIED, Reason.UNDELIVERABLE, "denied", "system_denied"),
    (OutcomeKind.ABORTED, Reason.PERSON, "denied", "user_denied"),
    (OutcomeKind.EXPIRED, Reason.TIMEOUT, "cancelled", "timeout"),
    (OutcomeKind.CANCELLED, Reason.CANCELLED_BY_OPERATOR, "cancelled", "system_cancelled"),
    (OutcomeKind.ALREADY_USED, None, "cancelled", "system_cancelled"),
    (OutcomeKind.PENDING, None, "cancelled", "system_cancelled"),
    (OutcomeKind.OVER_BUDGET, None, "cancelled", "system_cancelled"),
    (OutcomeKind.UNREACHABLE, None, "cancelled", "system_cancelled"),
    (OutcomeKind.UNVERIFIED, None, "cancelled", "system_cancelled"),
]


@pytest.mark.parametrize(("kind", "reason", "status", "told"), TOLD)
def test_every_outcome_has_its_answer(
    kind: OutcomeKind, reason: Reason | None, status: str, told: str | None
) -> None:
    """Status and reason of the contract, with the words for the model; never approved but once."""
    body = write_answer(read_request(REQUEST), outcome(kind, reason))
    assert body is not None
    assert (body["status"], body.get("reason")) == (status, told)
    assert ("so it ended" in body.get("message", "")) is (status != "approved")


def test_every_kind_of_outcome_is_on_the_list() -> None:
    """A new one must be given an answer; `answered` is that of a form."""
    assert {kind for kind, *_ in TOLD} == set(OutcomeKind) - {OutcomeKind.ANSWERED}


def test_what_was_changed_is_named_and_does_not_run() -> None:
    """The model reads the other arguments, or the result."""
    asked = read_request(REQUEST)
    edited = outcome(OutcomeKind.EDITED, Reason.PERSON, arguments={"command": "ls -l"})
    assert '{"command": "ls -l"}' in (write_answer(asked, edited) or {})["message"]
    responded = outcome(OutcomeKind.RESPONDED, Reason.PERSON, result=["a"])
    assert '["a"]' in (write_answer(asked, responded) or {})["message"]


def test_what_dexto_ended_itself_is_not_told() -> None:
    """It knows."""
    ended = outcome(OutcomeKind.CANCELLED, Reason.RESOLVED_ELSEWHERE)
    assert write_answer(read_request(REQUEST), ended) is None


@pytest.mark.parametrize(
    ("timeout", "attempt", "seconds"),
    [(60_000, 1, 54.0), (3_600_000, 1, 3570.0), (10_000, 1, 8.0), (1_000, 1, 0.5),
     (60_000, 3, 32.4)],
)  # fmt: skip
def test_our_deadline_is_shorter_than_dextos(timeout: int, attempt: int, seconds: float) -> None:
    """By a tenth, at least two seconds or half; and by what earlier deliveries took."""
    asked = read_request({**REQUEST, "timeout": timeout}, attempt=attempt)
    assert asked.details["timeout"] == pytest.approx(seconds)


def test_without_a_timeout_the_routes_holds() -> None:
    """And what arrives after its time is not asked."""
    assert read_request(REQUEST).details["timeout"] is None
    with pytest.raises(BadMessage):
        read_request({**REQUEST, "timeout": 10_000}, attempt=3)


@pytest.mark.parametrize(
    ("tool", "known"),
    [("bash_exec", True), ("internal--bash_exec", True), ("mcp--shop--bash_exec", False),
     ("other", False)],
)  # fmt: skip
def test_only_dextos_own_tools_have_its_roles(tool: str, known: bool) -> None:
    """A tool of some server that has the same name may do anything."""
    metadata = {**REQUEST["metadata"], "toolName": tool}
    asked = read_request({**REQUEST, "metadata": metadata})
    assert asked.details["roles"] == ({"command": "command"} if known else {})
