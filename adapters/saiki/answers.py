"""What a person answered, checked and decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adapters.saiki.access import CallRefused, SaikiVisitor
from adapters.saiki.events import is_offered, read_execution_id
from gateway.errors import Conflict, GatewayError, NotFound, NotRemembered, StepUpNeeded
from gateway.models import Action
from gateway.ports import Click, Desk, JsonObject, Record, Remember, remember_as, scopes_of

GONE = "Confirmation not found or expired"
_LIFETIME = "revoked"  # as the document says: until manually cleared
_MEMBERS = {"executionId": str, "approved": bool, "rememberChoice": bool, "sessionId": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaikiAnswer:
    """A `saiki:toolConfirmationResponse`."""

    execution: str
    approved: bool
    remember: bool = False
    session: str | None = None


def read_answer(data: Any) -> SaikiAnswer:
    """Return the answer that an event's data hold. Raises CallRefused for anything doubtful."""
    if not isinstance(data, dict):
        raise CallRefused(422, "data is no JSON object")
    for name, value in data.items():
        if not isinstance(value, _MEMBERS.get(name, ())):
            raise CallRefused(422, f"{name[:40]} is unknown, or of another type")
    for name in ("executionId", "approved"):
        if name not in data:
            raise CallRefused(422, f"{name} is missing")
    return SaikiAnswer(
        execution=data["executionId"],
        approved=data["approved"],
        remember=data.get("rememberChoice", False),
        session=data.get("sessionId"),
    )


async def decide(desk: Desk, visitor: SaikiVisitor, answer: SaikiAnswer) -> JsonObject:
    """Decide, and return what the caller is told. Raises CallRefused."""
    named = read_execution_id(answer.execution)
    if named is None:
        raise CallRefused(404, GONE)
    request_id, revision = named
    try:
        record = await desk.requests.get(request_id)
        wish = _choose(record, answer)
        click = Click(
            request_id=request_id,
            revision=revision,
            identity=visitor.identity,
            action=Action.APPROVE if answer.approved else Action.DENY,
            nonce=f"saiki {answer.execution} {answer.approved} {wish}",
            remember=wish,
        )
        try:
            after, kept = await desk.requests.decide(click), True
        except NotRemembered as failed:  # the answer counts all the same
            after, kept = failed.record, False
    except NotFound:
        raise CallRefused(404, GONE) from None
    except Conflict as late:
        now = await desk.requests.get(request_id)
        raise (CallRefused(404, GONE) if now.final else CallRefused(409, str(late))) from None
    except StepUpNeeded as needed:
        where = desk.address_of(request_id) or "the inbox"
        raise CallRefused(
            needed.status, f"it takes a step-up ({needed}): answer at {where}"
        ) from None
    except GatewayError as refusal:
        raise CallRefused(refusal.status, str(refusal)) from None
    told: JsonObject = {"success": True}
    if not after.final:
        told["status"] = after.status.value
    if answer.approved and answer.remember:
        told["remembered"] = wish is not None and after.final and kept
    return told


def _choose(record: Record, answer: SaikiAnswer) -> Remember | None:
    """Return what is to be remembered, None for nothing: the whole tool where an operator declared
    that it is harmless, otherwise the narrowest that is offered. Denials are not remembered."""
    if not record.final and not is_offered(record):
        raise CallRefused(404, GONE)
    if answer.session is not None and answer.session != record.request.session:
        raise CallRefused(422, "sessionId is not the session of this confirmation")
    if not (answer.approved and answer.remember):
        return None
    offered = scopes_of(record, Action.APPROVE)
    whole = [one for one in offered if one.whole_tool]
    chosen = next(iter((*whole, *offered)), None)
    if chosen is None:
        return None
    return remember_as(chosen.id, _LIFETIME, everywhere=answer.session is None)
