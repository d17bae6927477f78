"""What agents send: the five verbs, what prepares a request, sessions, and enrolment."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from aiohttp import web

from gateway.api.call import ApiCall, reply
from gateway.api.messages import (
    Cancel,
    Consume,
    Enroll,
    Enrolled,
    Prepare,
    Prepared,
    Reported,
    SessionEnded,
    SessionList,
    States,
    Submit,
    Sync,
    WhichAgent,
)
from gateway.api.operation import Nothing, operation
from gateway.domain.parsing import check_request, parse_message, parse_off_loop
from gateway.domain.records import Record
from gateway.domain.store import MessageContext
from gateway.errors import InvalidRequest, NotFound, Unauthorized
from gateway.models import ApprovalRequest, State, digest_of, id_of_call, new_id
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import JsonObject, build
from gateway.wire.identifiers import SESSION_NAME

_NO_DIGEST = "0" * 64


@operation("verbs.submit", {201: State, 200: State}, 409, body=Submit)
async def submit(call: ApiCall) -> web.Response:
    """Take a request in, or find it again."""
    body = call.body
    origin = call.origin("submit", body.process)
    record, new = await call.core.approvals.submit(body.request, origin, detached=body.detached)
    return reply(await _state(call, record, origin), 201 if new else 200)


@operation("verbs.prepare", {200: Prepared}, body=Prepare)
async def prepare(call: ApiCall) -> web.Response:
    """Compute the digest of a request, and its id where it has none; nothing is stored."""
    given = {"agent": call.caller.name, "id": new_id(), **call.body.request}
    if "digest" in given:
        raise InvalidRequest("a request that has its digest is submitted, not prepared")
    request = await complete(given)
    if request.agent != call.caller.name:
        raise Unauthorized(f"this credential is {call.caller.name}'s")
    told = canonical(request.arguments).decode()
    return reply(Prepared(request=request, arguments=told))


async def complete(given: JsonObject) -> ApprovalRequest:
    """Return the request with its digest, and with the id of its call where that has one.

    Raises InvalidRequest.
    """
    raw = canonical({**given, "digest": _NO_DIGEST})
    draft = await parse_off_loop(partial(parse_message, ApprovalRequest), raw)
    request = replace(draft, digest=digest_of(draft))
    if request.call_id is not None:
        request = replace(request, id=id_of_call(request))
    check_request(request)
    return request


@operation("verbs.cancel", {200: State}, 404, body=Cancel)
async def cancel(call: ApiCall) -> web.Response:
    """Withdraw a request, also one that has not arrived yet."""
    origin = call.origin("cancel")
    record = await call.core.approvals.cancel(
        call.id, origin, reason=call.body.reason, message=call.body.message
    )
    return reply(await _state(call, record, origin))


@operation("verbs.consume", {200: State}, 404, 409, body=Consume)
async def consume(call: ApiCall) -> web.Response:
    """Take the approval for the process."""
    origin = call.origin("consume", call.body.process)
    return reply(await call.core.approvals.consume(call.id, origin, once=call.body.once))


@operation("verbs.report", {200: State}, 404, 409, body=Reported)
async def report(call: ApiCall) -> web.Response:
    """Say what became of the action."""
    origin = call.origin("report")
    record = await call.core.approvals.report(call.id, call.body.report, origin)
    return reply(await _state(call, record, origin))


@operation("verbs.sync", {200: States}, body=Sync)
async def sync(call: ApiCall) -> web.Response:
    """Attach the process to requests, renew its lease, and say how they stand."""
    origin = call.origin("sync", call.body.process)
    return reply(States(items=tuple(await call.core.approvals.sync(call.body.ids, origin))))


@operation("verbs.sessions", {200: SessionList}, query=WhichAgent)
async def list_sessions(call: ApiCall) -> web.Response:
    """List the sessions that have not ended."""
    agent = call.caller.name if call.is_agent else call.query.agent
    return reply(SessionList(items=tuple(await call.core.sessions.open(agent))))


@operation("verbs.end_session", {200: SessionEnded}, 404, query=WhichAgent, body=Nothing)
async def end_session(call: ApiCall) -> web.Response:
    """End a session and cancel what waits in it."""
    session = call.request.match_info["session"]
    if not SESSION_NAME.fullmatch(session):
        raise NotFound("no such session")
    desk, agent = call.core.sessions, call.query.agent
    if call.is_agent:
        ids = await desk.end(session, call.origin("cancel"))
    elif agent is None:
        raise InvalidRequest("agent is missing: a session belongs to an agent")
    else:
        ids = await desk.end_as(call.identity, agent, session)
    return reply(SessionEnded(cancelled=tuple(ids)))


@operation("verbs.enroll", {200: Enrolled}, body=Enroll)
async def enroll(call: ApiCall) -> web.Response:
    """Give a local agent a credential of its own."""
    enrolment = call.services.enrolment
    if enrolment is None:
        raise NotFound("no enrolment here")
    return reply(build(Enrolled, await enrolment.enroll(call.body.agent)))


async def _state(call: ApiCall, record: Record, origin: MessageContext) -> State:
    return await call.core.approvals.state(record.id, origin)
