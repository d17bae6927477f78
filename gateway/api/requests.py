"""Serve requests over HTTP: read them, wait for changes, decide one or several."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from aiohttp import web
from pydantic import Field

from gateway.api.api_call import ApiCall, long_poll, operation, reply
from gateway.api.messages import (
    MAX_WAIT_SECONDS,
    NONCE,
    Decide,
    Listing,
    Requests,
    RequestView,
    WaitQuery,
    check_match,
    masked_view,
    view,
)
from gateway.approvals.decisions import MOST
from gateway.cards.blocks import draw, weight_of
from gateway.domain.log_context import log_also_of
from gateway.domain.records import Click, Query, StoredRequest
from gateway.domain.time_and_tasks import check_wanted
from gateway.errors import NotRemembered
from gateway.models import Action, State, Status, new_id
from gateway.wire.codec import JsonObject, Wire, plain
from gateway.wire.schema import REQUEST_ID, Says, matching


@operation("requests.look", {200: (State, RequestView)}, 404, query=WaitQuery)
async def look(call: ApiCall) -> web.Response:
    """Return a request, with `wait` after waiting for a change."""
    query: WaitQuery = call.query
    record = await find_visible(call)
    log_also_of(record)
    if query.wait and not _is_news(record, query.revision):
        record = await _news(call, query)
        await call.services.access.check_unchanged(call.request, call.caller)
    if not call.is_agent:
        return reply(await _add_links(call, record, await _for_approver(call, record)))
    origin = call.origin("sync", query.process)
    state = await call.core.approvals.state(record.id, origin)
    if query.record:
        told = await call.core.approvals.fetch(record.id, origin)
        state = replace(state, record=told.record)
    return reply(state)


@operation("requests.listing", {200: Requests}, query=Listing)
async def list_requests(call: ApiCall) -> web.Response:
    """Return a page of requests."""
    query = call.query
    agent = call.caller.name if call.is_agent else query.agent
    if query.agent not in (None, agent):
        return reply(Requests(items=(), next=None))
    ended = query.final or query.status not in (None, Status.PENDING)
    reads = call.services.reads if call.is_agent else call.core.requests
    page = await reads.page(
        Query(
            final=ended,
            status=query.status if ended else None,
            agent=agent,
            session=query.session,
            after=query.after,
            limit=query.limit,
        )
    )
    own = [record for record in page.items if record.created >= call.caller.since]
    if call.is_agent:
        items = [plain(view(record, whole=False)) for record in own]
    else:
        shown = zip(own, await render_records(own), strict=True)
        items = [await _add_links(call, record, seen) for record, seen in shown]
    return reply({"items": items, "next": page.next})


@operation("requests.decide", {200: RequestView}, 404, 409, body=Decide)
async def decide(call: ApiCall) -> web.Response:
    """Apply an approver's decision."""
    body, name = call.body, call.caller.name
    click = Click(
        request_id=call.id,
        revision=body.revision,
        identity=call.identity,
        action=body.action,
        # The caller's name keeps one person's nonce apart from another's.
        nonce=f"http:{name}:{body.nonce or new_id()}",
        message=body.message,
        note=body.note,
        arguments=body.arguments,
        answers=body.answers,
        result=body.result,
        abort=body.abort,
        feedback=body.feedback,
        confirmed=body.confirmed,
        remember=body.remember,
        number=body.number,
    )
    with call.services.metrics.decide_seconds.time():
        try:
            record, warning = await call.core.requests.decide(click), ""
        except NotRemembered as told:  # the decision is valid without the grant
            record, warning = told.record, str(told)
    log_also_of(record)
    (seen,) = await render_records([record])
    return reply({**seen, "warning": warning} if warning else seen)


async def render_records(records: Sequence[StoredRequest]) -> list[JsonObject]:
    """Render records for approvers, in a thread when they are large."""
    parts = [part for record in records for part in weight_of(record)]
    return await draw(lambda: [masked_view(record) for record in records], *parts)


async def _add_links(call: ApiCall, record: StoredRequest, seen: JsonObject) -> JsonObject:
    """Return a view with the addresses of the request's cards in chats."""
    found = list(await call.core.copies.links.link_cards(record.id))
    return {**seen, "messages": found} if found else seen


async def _for_approver(call: ApiCall, record: StoredRequest) -> JsonObject:
    """Render one request for an approver, unmasked with `reveal`."""
    (seen,) = await render_records([record])
    if not call.query.reveal or seen == plain(view(record, whole=True)):
        return seen
    record = await call.core.requests.reveal(record.id, call.identity)
    whole: JsonObject = plain(view(record, whole=True))
    return whole


async def find_visible(call: ApiCall) -> StoredRequest:
    """Return the request that a call names if the caller may see it. Raises NotFound."""
    if call.is_agent:
        return await call.core.approvals.own(call.id, call.origin("sync"))
    return await call.core.requests.get(call.id)


async def _news(call: ApiCall, query: WaitQuery) -> StoredRequest:
    """Wait at most `query.wait` seconds for a change of the request; return its current record."""
    core, seconds = call.core, min(query.wait, MAX_WAIT_SECONDS)
    end = time.monotonic() + seconds
    if call.is_agent and query.process is not None:
        await core.approvals.sync([call.id], call.origin("sync", query.process))
    with long_poll(call), call.services.metrics.waiters.track_inprogress():
        async with core.feed.watch(call.id) as wait:
            record = await find_visible(call)
            while not _is_news(record, query.revision) and (left := end - time.monotonic()) > 0:
                check_wanted()
                await wait(left)
                record = await find_visible(call)
    return record


def _is_news(record: StoredRequest, revision: int | None) -> bool:
    return record.final or (revision is not None and record.revision > revision)


# One decision for several requests of an agent, over HTTP.


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem(Wire):
    """One request of a batch, and the revision that was seen."""

    id: Annotated[str, matching(REQUEST_ID)]
    revision: int

    def __post_init__(self) -> None:
        check_match(REQUEST_ID, "id", self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Wire):
    """One decision on several requests of one agent: `approve` or `deny`, for all or for none.

    High risk cannot be approved this way. A repeated call with the same `nonce` is one decision.
    """

    action: Annotated[Action, Field(json_schema_extra={"enum": [Action.APPROVE, Action.DENY]})]
    items: Annotated[
        tuple[BatchItem, ...], Field(min_length=1, max_length=MOST), Says(uniqueItems=True)
    ]
    message: str = ""
    note: str = ""
    feedback: bool = False
    nonce: Annotated[str, matching(NONCE)] | None = None

    def __post_init__(self) -> None:
        check_match(NONCE, "nonce", self.nonce)


@operation("batches.decide", {200: Requests}, 409, body=Batch)
async def decide_batch(call: ApiCall) -> web.Response:
    """Apply an approver's decision to several requests, to all of them or to none."""
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
