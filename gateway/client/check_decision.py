"""Check the gateway's replies as plain JSON: CheckedDecision for decisions, `error_of` for errors.

The SDK does the same with the wire types, which take too long to import for `gateway ask`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from gateway import errors
from gateway.errors import (
    Busy,
    GatewayError,
    InvalidRequest,
    NotFound,
    OverBudget,
    Unauthorized,
    Unreachable,
    Unverified,
)
from gateway.wire.canonical_json import action_digest, canonical
from gateway.wire.outcome_text import sentence
from gateway.wire.signatures import Verifier

T = TypeVar("T")

_CHECK_DECISION_ENDINGS = ("approved", "denied", "expired", "cancelled")
_RUNNABLE = ("approve", "edit")
"""The actions after which a command may run."""


class CheckedDecision:
    """How a request ended. `arguments` are the edited arguments, None without an edit. `answers`
    are the answers to a question. `host_rule` is the rule that the coding agent must save. Call
    `check` before you use them."""

    def __init__(
        self,
        state: dict[str, Any],
        request_id: str,
        public_key: str | None,
        *,
        question: bool = False,
    ) -> None:
        """Read a final state. Raises Unverified if the state is about another request, or if the
        pinned key did not sign its approval. Raises Unreachable if the state has no decision."""
        if state.get("status") == "approved" and state.get("decision") is None:
            raise Unreachable(
                "the gateway does not release the approval; check whether its kill switch is on"
            )
        decision = _member(state, "decision", dict)
        if [state.get("id"), decision.get("request_id")] != [request_id, request_id]:
            raise Unverified(f"the gateway's reply is not about the request {request_id}")
        self.decision: dict[str, Any] = decision
        self.status = _member(decision, "status", str)
        if self.status not in _CHECK_DECISION_ENDINGS:
            raise Unverified(f"the decision has an unknown status: {self.status!r}")
        self.arguments: dict[str, Any] | None = None
        if decision.get("arguments") is not None:
            self.arguments = _member(decision, "arguments", dict)
        self.host_rule: dict[str, Any] | None = decision.get("host_rule")
        self.may_have_run = bool(state.get("may_have_run"))
        self.answers: dict[str, Any] = {}
        if self.status == "approved":
            _check_approval(decision, public_key, ("answer",) if question else _RUNNABLE)
            if question:
                self.answers = _member(decision, "answers", dict)

    def check(self, request: dict[str, Any]) -> None:
        """Check an approval. Raises Unverified unless the approval is for this request or for its
        edit."""
        if self.status != "approved":
            return
        action = self.decision["action"]
        if action not in request["allowed"]:
            raise Unverified(f"the request does not allow the decision {action}")
        if self.arguments is not None and action != "edit":
            raise Unverified("the decision changes the arguments, but it is not an edit")
        if self.host_rule is not None and (
            action != "approve" or self.host_rule not in request.get("host_rules", ())
        ):
            raise Unverified("the decision names a host rule that the request did not offer")
        edited = request["arguments"] if self.arguments is None else self.arguments
        expected = action_digest(
            agent=request["agent"],
            kind=request["kind"],
            tool=request["tool"],
            arguments=edited,
            context=request["context"],
            questions=request.get("questions", ()),
        )
        if self.decision.get("digest") != expected:
            raise Unverified("the decision is for a different call from that of the request")

    @property
    def sentence(self) -> str:
        """A sentence that says how the request ended and who decided."""
        return sentence(
            reason=_member(self.decision, "reason", str),
            status=self.status,
            name=_member(_member(self.decision, "decided_by", dict), "name", str),
            message=str(self.decision.get("message", "")),
        )


def has_ended(state: Any) -> bool:
    """Return whether a request has ended. Raises Unreachable if the value is not a state."""
    return _member(state, "status", str) != "pending"


def _check_approval(
    decision: dict[str, Any], public_key: str | None, actions: tuple[str, ...]
) -> None:
    if decision.get("action") not in actions:
        raise Unverified("the decision gives a result or an answer, not an approval")
    if public_key:
        signed = {name: value for name, value in decision.items() if name != "signature"}
        signature = decision.get("signature")
        given = signature if isinstance(signature, str) else None
        Verifier(public_key).verify(canonical(signed), given)


def _member(values: Any, name: str, kind: type[T]) -> T:
    found = values.get(name) if isinstance(values, dict) else None
    if not isinstance(found, kind):
        raise Unreachable("the reply did not come from a gateway: check GATEWAY_URL")
    return found


# Turns the gateway's error codes into exceptions.

_BY_CODE: dict[str, type[GatewayError]] = {
    kind.code: kind
    for kind in (
        errors.InvalidRequest,
        errors.Conflict,
        errors.Used,
        errors.WrongNumber,
        Unauthorized,
        NotFound,
        Unreachable,
        Busy,
        OverBudget,
    )
}
_BY_STATUS: dict[int, type[GatewayError]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    429: Busy,
}
_SERVER_ERROR = 500
_LONGEST_PAUSE = 60


def error_of(
    code: str, detail: str, status: int = 400, *, retry_after: str | None = None
) -> GatewayError:
    """Return the exception for an error code or HTTP status, with `detail` as its message.

    `retry_after` is the value of the HTTP header `Retry-After`.
    """
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
    if kind is None:
        kind = Unreachable if status >= _SERVER_ERROR else InvalidRequest
    error = kind(detail)
    if isinstance(error, Busy) and retry_after and retry_after.isdecimal():
        error.retry_after = float(min(int(retry_after[:4]), _LONGEST_PAUSE))
    return error
