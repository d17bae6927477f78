"""One decision for several requests of an agent, over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from pydantic import Field

from gateway.api.call import ApiCall, reply
from gateway.api.messages import NONCE, Requests, check_match
from gateway.api.operation import operation
from gateway.api.requests import render_records
from gateway.approvals.batches import MOST
from gateway.domain.records import Click
from gateway.models import Action, new_id
from gateway.wire.codec import Wire
from gateway.wire.identifiers import REQUEST_ID
from gateway.wire.schema import Says, matching


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked(Wire):
    """One request of a batch, and the revision of it that was seen."""

    id: Annotated[str, matching(REQUEST_ID)]
    revision: int

    def __post_init__(self) -> None:
        check_match(REQUEST_ID, "id", self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Wire):
    """One answer to several requests of one agent: `approve` or `deny`, for all or for none.

    High risk is never decided so. `nonce` makes a repeated call the same call.
    """

    action: Annotated[Action, Field(json_schema_extra={"enum": [Action.APPROVE, Action.DENY]})]
    items: Annotated[
        tuple[Ticked, ...], Field(min_length=1, max_length=MOST), Says(uniqueItems=True)
    ]
    message: str = ""
    note: str = ""
    feedback: bool = False
    nonce: Annotated[str, matching(NONCE)] | None = None

    def __post_init__(self) -> None:
        check_match(NONCE, "nonce", self.nonce)


@operation("batches.decide", {200: Requests}, 409, body=Batch)
async def decide(call: ApiCall) -> web.Response:
    """Apply an approver's one answer to several requests, to all of them or to none."""
    body, name = call.body, call.caller.name
    nonce = body.nonce or new_id()
    clicks = [
        Click(
            request_id=item.id,
            revision=item.revision,
            identity=call.identity,
            action=body.action,
            nonce=f"http:{name}:{nonce}",
            message=body.message,
            note=body.note,
            feedback=body.feedback,
        )
        for item in body.items
    ]
    records = await call.core.requests.decide_all(clicks)
    return reply({"items": await render_records(records), "next": None})
