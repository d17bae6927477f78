"""Serve coding agents that call their hook by HTTP: request approval, wait, and reply in their
format.

A coding agent runs the tool after a reply that it cannot use. So each reply has status 200 and says
what to do, even after an error, because the coding agent would ignore an error status.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from aiohttp import web

from gateway.api.agent_verbs import complete
from gateway.api.api_call import (
    AGENT,
    ApiCall,
    Services,
    long_poll,
    read_json,
    read_query,
    reply,
)
from gateway.api.middleware import CALL
from gateway.api.problems import Unauthenticated
from gateway.domain.parsing import parse_off_loop
from gateway.domain.records import Query, StoredRequest
from gateway.domain.store import MessageContext
from gateway.domain.time_and_tasks import check_wanted, run_to_end
from gateway.errors import GatewayError, InvalidRequest
from gateway.models import ApprovalRequest, Execution, Reason, Report, State, Status, new_id
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject, Wire, plain
from gateway.wire.schema import Says

BASE = "/v1/hooks"

_LONGEST_SECONDS = 24 * 3600.0
_RENEW_SECONDS = 25.0
_SLACK_SECONDS = 0.5
_MOST_LOOKED_AT = 200

log = logging.getLogger("gateway.api")


class HostCall(Protocol):
    """One call that a coding agent reports to its hook. `closes` is set for an event that ends a
    pending call, or with `ends_turn` all pending calls of its session."""

    closes: str | None
    ends_turn: bool

    @property
    def mark(self) -> str:
        """Prefix of the ids of calls for which the coding agent gives no id."""

    def request(
        self, *, unknown: str, edit: bool = False, native_always: bool = False
    ) -> JsonObject:
        """Return the members of its approval request."""

    def answer(
        self,
        kind: str,
        sentence: str,
        arguments: JsonObject | None = None,
        answers: JsonObject | None = None,
        host_rule: JsonObject | None = None,
    ) -> JsonObject:
        """Return the reply that tells the coding agent the outcome."""


class HostHook(Protocol):
    """The formats of one coding agent: what it sends to its hook, and the replies."""

    timeout: float

    def read(self, given: JsonObject) -> HostCall:
        """Return the parsed call. Raises InvalidRequest."""

    def refuse(self, given: Any, why: str) -> JsonObject:
        """Return the reply that stops the tool because no approval could be requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookQuery(Wire):
    """Settings of a coding agent's hook: seconds to decide, and whether people may edit.
    `native_always` says that the agent learns which of its permissions a person chose."""

    timeout: Annotated[float, Says(exclusiveMinimum=0, maximum=_LONGEST_SECONDS)] | None = None
    edit: bool = True
    native_always: bool = False

    def __post_init__(self) -> None:
        if self.timeout is not None and not 0 < self.timeout <= _LONGEST_SECONDS:
            raise InvalidRequest("timeout must be a number of seconds, at most a day")


def hook_routes(
    services: Services, hosts: Mapping[str, HostHook], *, store_errors: tuple[type[Exception], ...]
) -> list[web.RouteDef]:
    """Return one route for each coding agent."""
    return [
        web.post(f"{BASE}/{name}", _serve(hook, services, store_errors))
        for name, hook in hosts.items()
    ]


def _serve(
    hook: HostHook, services: Services, store_errors: tuple[type[Exception], ...]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def serve(request: web.Request) -> web.Response:
        given: Any = None
        try:
            who = await services.access.authenticate(request, (AGENT,))
            query = read_query(HookQuery, request.query)
            given = await _read(request, services)
            call = ApiCall(request=request, services=services, who=who, body=given, query=query)
            return reply(await _deal_with(hook, call))
        except Unauthenticated as error:
            services.metrics.auth_failures.inc()
            why = str(error)
        except GatewayError as error:
            why = str(error)
        except store_errors:
            why = "the gateway's store does not respond"
        except Exception:  # no error may let the tool run
            known = {"event": "hook_failed", "request_id": request[CALL]}
            log.exception("the hook of a coding agent failed", extra=known)
            why = "the gateway failed; see its log for the cause"
        return reply(hook.refuse(given, f"approval gateway: nobody was asked: {why}"))

    return serve


async def _read(request: web.Request, services: Services) -> JsonObject:
    """Return the object that the coding agent sent. Raises InvalidRequest."""
    given = await parse_off_loop(parse, await read_json(request, services.limits))
    if not isinstance(given, dict):
        raise InvalidRequest("the hook's input must be a JSON object")
    return given


async def _deal_with(hook: HostHook, call: ApiCall) -> JsonObject:
    asked = hook.read(call.body)
    if asked.closes is not None:
        await run_to_end(_close(call, asked, asked.closes))
        return {}
    timeout = call.query.timeout or hook.timeout
    own = {"agent": call.caller.name, "id": new_id(), "timeout": timeout}
    query: HookQuery = call.query
    fields = asked.request(unknown=new_id(), edit=query.edit, native_always=query.native_always)
    request = await complete({**fields, **own})
    with long_poll(call), call.services.metrics.waiters.track_inprogress():
        state = await _ask(call, request, timeout)
    decision = state.decision
    rule = None if decision is None or decision.host_rule is None else plain(decision.host_rule)
    return asked.answer(*_ending_of(state), host_rule=rule)


async def _ask(call: ApiCall, request: ApprovalRequest, timeout: float) -> State:
    """Submit the request, wait, and return its outcome. If that fails, for example because the
    coding agent is gone, cancel the request: nobody should approve a call that will not run."""
    origin, approvals = call.origin("sync", new_id()), call.core.approvals
    until = time.monotonic() + timeout + _SLACK_SECONDS
    try:
        await run_to_end(approvals.submit(request, origin))
    except asyncio.CancelledError:
        await run_to_end(_withdraw(call, request.id, origin))
        raise
    try:
        await _wait(call, request.id, origin, until)
        await call.services.access.check_unchanged(call.request, call.caller)
        state = await approvals.state(request.id, origin)
        if state.status is Status.PENDING:
            return await run_to_end(_withdraw(call, request.id, origin))
        if state.status is Status.APPROVED and state.decision is None:
            state = await run_to_end(approvals.consume(request.id, origin, once=True))
    except BaseException:
        await run_to_end(_withdraw(call, request.id, origin))
        raise
    return state


async def _wait(call: ApiCall, request_id: str, origin: MessageContext, until: float) -> None:
    """Wait for the decision until the time is over, and keep the process's lease."""
    approvals = call.core.approvals
    async with call.core.feed.watch(request_id) as wait:
        record = await approvals.own(request_id, origin)
        while not record.final and (left := until - time.monotonic()) > 0:
            check_wanted()
            await wait(min(left, _RENEW_SECONDS))
            await approvals.sync([request_id], origin)
            record = await approvals.own(request_id, origin)


async def _withdraw(call: ApiCall, request_id: str, origin: MessageContext) -> State:
    """Cancel a request; an approval that arrived meanwhile is reported as too late."""
    approvals = call.core.approvals
    words = "the coding agent no longer waits"
    record = await approvals.cancel(request_id, origin, reason=Reason.ABANDONED, message=words)
    if record.status is Status.APPROVED and record.consumers in ((), (origin.process,)):
        await approvals.report(request_id, Report(execution=Execution.REFUSED_LATE), origin)
    return record.state_for(None)


def _ending_of(state: State) -> tuple[str, str, JsonObject | None, JsonObject | None]:
    """Return the kind of an outcome, its sentence, and a person's arguments or answers."""
    decision = state.decision
    if decision is None:
        return "expired", "the approval came too late", None, None
    kind, sentence = str(state.status), decision.sentence()
    if state.may_have_run:
        return "failed", f"{sentence}, but another process was given that approval", None, None
    if state.status is Status.DENIED and decision.abort:
        kind = "aborted"
    if decision.reason in (Reason.ABANDONED, Reason.TIMEOUT):
        kind, sentence = "expired", "nobody answered in time; nobody denied it"
    return kind, sentence, decision.arguments, decision.answers


async def _close(call: ApiCall, asked: HostCall, why: str) -> None:
    """Cancel what was decided in the coding agent's own terminal: the call, or all of the turn."""
    session = asked.request(unknown="")["session"]
    wish = Query(agent=call.caller.name, session=session, limit=_MOST_LOOKED_AT)
    page = await call.services.reads.page(wish)
    waiting = [one for one in page.items if _is_closed_by(one, asked)]
    for one in waiting if asked.ends_turn else waiting[-1:]:  # the oldest
        await call.core.approvals.cancel(
            one.id, call.origin("cancel"), reason=Reason.RESOLVED_ELSEWHERE, message=why
        )


def _is_closed_by(record: StoredRequest, asked: HostCall) -> bool:
    mark = asked.mark if not asked.ends_turn else asked.mark.partition(".")[0] + "."
    return (record.request.call_id or "").startswith(mark)
