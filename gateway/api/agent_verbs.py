"""Handle the agents' verbs over HTTP and Redis streams, and policy hooks for messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from aiohttp import web

from gateway.api.api_call import ApiCall, Nothing, operation, reply
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
from gateway.approvals.services import Core
from gateway.domain.log_context import log_also, log_also_of
from gateway.domain.parsing import (
    check_agent_reason,
    check_agent_report,
    check_request,
    parse_message,
    parse_off_loop,
    parse_request,
)
from gateway.domain.records import StoredRequest
from gateway.domain.redaction import mask
from gateway.domain.store import MessageContext, Store
from gateway.errors import GatewayError, InvalidRequest, NotFound, Unauthorized, Unreachable
from gateway.models import (
    MAX_SYNC_IDS,
    ApprovalRequest,
    Reason,
    Report,
    State,
    digest_of,
    id_of_call,
    new_id,
)
from gateway.ports import Credentials
from gateway.wire.canonical_json import canonical
from gateway.wire.codec import JsonObject, Wire, build
from gateway.wire.schema import (
    PROCESS_TOKEN,
    REQUEST_ID,
    SESSION_NAME,
    VERBS,
    Says,
    matching,
    told_verb,
)

_NO_DIGEST = "0" * 64


@operation("verbs.submit", {201: State, 200: State}, 409, body=Submit)
async def submit(call: ApiCall) -> web.Response:
    """Store a request, or return the stored one."""
    body = call.body
    origin = call.origin("submit", body.process)
    log_also(request=body.request.id)
    record, new = await call.core.approvals.submit(body.request, origin, detached=body.detached)
    log_also_of(record)
    return reply(await _state(call, record, origin), 201 if new else 200)


@operation("verbs.prepare", {200: Prepared}, body=Prepare)
async def prepare(call: ApiCall) -> web.Response:
    """Compute the digest of a request, and its id if it has none; nothing is stored."""
    given = {"agent": call.caller.name, "id": new_id(), **call.body.request}
    if "digest" in given:
        raise InvalidRequest(
            'remove "digest" to prepare a request, or send it to POST /v1/requests'
        )
    request = await complete(given)
    if request.agent != call.caller.name:
        raise Unauthorized(f"this credential belongs to the agent {call.caller.name!r}")
    told = canonical(request.arguments).decode()
    return reply(Prepared(request=request, arguments=told))


async def complete(given: JsonObject) -> ApprovalRequest:
    """Return the request with its digest; if it has a call id, also with the id derived from that.

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
    """Cancel a request, even one that has not arrived yet."""
    origin = call.origin("cancel")
    record = await call.core.approvals.cancel(
        call.id, origin, reason=call.body.reason, message=call.body.message
    )
    return reply(await _state(call, record, origin))


@operation("verbs.consume", {200: State}, 404, 409, body=Consume)
async def consume(call: ApiCall) -> web.Response:
    """Claim the approval for the process."""
    origin = call.origin("consume", call.body.process)
    return reply(await call.core.approvals.consume(call.id, origin, once=call.body.once))


@operation("verbs.report", {200: State}, 404, 409, body=Reported)
async def report(call: ApiCall) -> web.Response:
    """Report the outcome of the call."""
    origin = call.origin("report")
    record = await call.core.approvals.report(call.id, call.body.report, origin)
    return reply(await _state(call, record, origin))


@operation("verbs.sync", {200: States}, body=Sync)
async def sync(call: ApiCall) -> web.Response:
    """Attach the process to requests, renew its lease, and return their states."""
    origin = call.origin("sync", call.body.process)
    return reply(States(items=tuple(await call.core.approvals.sync(call.body.ids, origin))))


@operation("verbs.sessions", {200: SessionList}, query=WhichAgent)
async def list_sessions(call: ApiCall) -> web.Response:
    """List the sessions that have not ended."""
    agent = call.caller.name if call.is_agent else call.query.agent
    return reply(SessionList(items=tuple(await call.core.operator.list_sessions(agent))))


@operation("verbs.end_session", {200: SessionEnded}, 404, query=WhichAgent, body=Nothing)
async def end_session(call: ApiCall) -> web.Response:
    """End a session and cancel its pending requests."""
    session = call.request.match_info["session"]
    if not SESSION_NAME.fullmatch(session):
        raise NotFound("the agent has no open session with this name")
    agent = call.query.agent
    if call.is_agent:
        ids = await call.core.sessions.end(session, call.origin("cancel"))
    elif agent is None:
        raise InvalidRequest("the member agent is missing: name the agent of the session")
    else:
        ids = await call.core.operator.end_session(call.identity, agent, session)
    return reply(SessionEnded(cancelled=tuple(ids)))


@operation("verbs.enroll", {200: Enrolled}, body=Enroll)
async def enroll(call: ApiCall) -> web.Response:
    """Create a credential for a local agent."""
    enrolment = call.services.enrolment
    if enrolment is None:
        raise NotFound("enrolment is not enabled on this gateway")
    return reply(build(Enrolled, await enrolment.enroll(call.body.agent)))


async def _state(call: ApiCall, record: StoredRequest, origin: MessageContext) -> State:
    return await call.core.approvals.state(record.id, origin)


# Policy hooks for the messages between an agent and its model.

METHODS = ("before_llm", "after_llm", "after_tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookMessage(Wire):
    """A message for hooks: the parameters of `method`, without `meta`, which the gateway adds."""

    method: Annotated[str, Says(enum=METHODS)]
    params: JsonObject
    session: Annotated[str, matching(SESSION_NAME)] = "default"
    turn: str | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidRequest(f"the member method must be one of {', '.join(METHODS)}")
        if not SESSION_NAME.fullmatch(self.session):
            raise InvalidRequest("the member session is not a valid session name")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOutcome(Wire):
    """The hooks' result: `continue`, `modify` (with the changed members), or an abort."""

    action: str
    reason: str = ""
    changed: JsonObject | None = None


@operation("hooks.passed", {200: HookOutcome}, body=HookMessage)
async def run_hooks(call: ApiCall) -> web.Response:
    """Pass a message through the hooks that intercept it."""
    body: HookMessage = call.body
    meta = {"AgentID": call.caller.name, "SessionKey": body.session, "TurnID": body.turn or ""}
    action, reason, changed = await call.services.intercept(
        body.method, {**body.params, "meta": meta}
    )
    return reply(HookOutcome(action=action, reason=reason, changed=changed))


# The verbs over Redis streams: each entry becomes a call of `Approvals`.

_NONCE_LENGTH = 64


class Intake:
    """Handles entries of ingress streams. An agent's mistake is answered and audited; other errors
    are raised."""

    def __init__(self, core: Core, store: Store, credentials: Credentials) -> None:
        self._approvals = core.approvals
        self._sessions = core.sessions
        self._store = store
        self._credentials = credentials
        self._verbs: dict[str, Callable[[MessageContext, dict[str, str]], Awaitable[Any]]] = {
            "submit": self._submit,
            "sync": self._sync,
            "cancel": self._cancel,
            "consume": self._consume,
            "report": self._report,
            "fetch": self._fetch,
        }

    async def handle(self, agent: str, entry: str, fields: dict[str, str]) -> None:
        """Handle one entry of an agent's ingress stream."""
        origin = self._origin(agent, entry, fields)
        try:
            if fields.get("v") != "1":
                raise InvalidRequest("this gateway supports only version 1 of the protocol")
            verb = self._verbs.get(origin.verb)
            if verb is None:
                raise InvalidRequest(f"the verb must be one of {', '.join(VERBS)}")
            if origin.process is None:
                raise InvalidRequest("the member process is not a valid process token")
            holder = await self._credentials.holder(agent)
            await verb(replace(origin, owner=holder.owner, since=holder.since), fields)
        except Unreachable:
            raise
        except GatewayError as error:
            await self._refuse(origin, error)

    async def dead_letter(self, agent: str, entry: str, fields: dict[str, str]) -> None:
        """Answer an entry that failed too often, and record it in the audit."""
        origin = self._origin(agent, entry, fields)
        await self._store.note(
            "dead_letter", agent=agent, data={"entry": entry, "verb": told_verb(origin.verb)}
        )
        detail = "the gateway failed to handle this message"
        await self._store.answer(origin, error={"code": "error", "detail": detail})

    def _origin(self, agent: str, entry: str, fields: dict[str, str]) -> MessageContext:
        process = fields.get("process", "")
        return MessageContext(
            agent=agent,
            process=process if PROCESS_TOKEN.fullmatch(process) else None,
            arrived_ms=int(entry.partition("-")[0]),
            verb=fields.get("verb", "")[:20],
            nonce=fields.get("nonce", "")[:_NONCE_LENGTH],
            entry=entry,
        )

    async def _refuse(self, origin: MessageContext, error: GatewayError) -> None:
        why = mask(str(error))[:500]  # masked before the cut: half a secret is not recognized
        await self._store.note(
            "refused",
            agent=origin.agent,
            data={"verb": told_verb(origin.verb), "code": error.code, "why": why},
        )
        await self._store.answer(origin, error={"code": error.code, "detail": why})

    async def _submit(self, origin: MessageContext, fields: dict[str, str]) -> None:
        request = await parse_off_loop(parse_request, _body(fields))
        log_also(request=request.id)
        await self._approvals.submit(request, origin, detached=fields.get("detached") == "1")

    async def _sync(self, origin: MessageContext, fields: dict[str, str]) -> None:
        await self._approvals.sync(parse_message(SyncBody, _body(fields)).ids, origin)

    async def _cancel(self, origin: MessageContext, fields: dict[str, str]) -> None:
        body = parse_message(CancelBody, _body(fields))
        if body.session is not None:
            await self._sessions.end(body.session, origin)
        elif body.id is not None:
            log_also(request=body.id)
            await self._approvals.cancel(body.id, origin, reason=body.reason, message=body.message)

    async def _consume(self, origin: MessageContext, fields: dict[str, str]) -> None:
        body = parse_message(IdBody, _body(fields))
        log_also(request=body.id)
        await self._approvals.consume(body.id, origin)

    async def _report(self, origin: MessageContext, fields: dict[str, str]) -> None:
        body = parse_message(ReportBody, _body(fields))
        log_also(request=body.id)
        await self._approvals.report(body.id, body.report, origin)

    async def _fetch(self, origin: MessageContext, fields: dict[str, str]) -> None:
        await self._approvals.fetch(parse_message(IdBody, _body(fields)).id, origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncBody(Wire):
    """The body of `sync`: the requests that the process waits for."""

    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.ids) > MAX_SYNC_IDS:
            raise InvalidRequest(f"sync accepts at most {MAX_SYNC_IDS} ids")
        for one in self.ids:
            check_id(one)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelBody(Wire):
    """The body of `cancel`: one request, or a session to end."""

    id: str | None = None
    session: str | None = None
    reason: Reason = Reason.CANCELLED_BY_AGENT
    message: str = ""

    def __post_init__(self) -> None:
        if (self.id is None) == (self.session is None):
            raise InvalidRequest("cancel needs either id or session, not both")
        if self.id is not None:
            check_id(self.id)
        if self.session is not None and not SESSION_NAME.fullmatch(self.session):
            raise InvalidRequest("the member session is not a valid session name")
        check_agent_reason(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdBody(Wire):
    """The body of `consume` and `fetch`."""

    id: str

    def __post_init__(self) -> None:
        check_id(self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBody(Wire):
    """The body of `report`."""

    id: str
    report: Report

    def __post_init__(self) -> None:
        check_id(self.id)
        check_agent_report(self.report)


def check_id(value: str) -> None:
    """Raise InvalidRequest unless `value` is a request id."""
    if not REQUEST_ID.fullmatch(value):
        raise InvalidRequest("the member id must be 32 hex digits")


def _body(fields: dict[str, str]) -> bytes:
    return fields.get("body", "{}").encode()
