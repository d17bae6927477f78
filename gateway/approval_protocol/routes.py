"""Build the HTTP routes of the protocol below `/aap`, which return errors in the protocol's
format."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from aiohttp import web

from gateway.api.api_call import AGENT, APPROVER, ApiCall, Services, answer_call
from gateway.api.middleware import CALL
from gateway.api.problems import Unauthenticated
from gateway.approval_protocol.provisioning import InstanceUpdate, Provision, Provisioning
from gateway.approval_protocol.requests import (
    NoBody,
    OutcomeReport,
    PollQuery,
    ProtocolRefusal,
    ProtocolRequests,
    Submission,
    error_of,
)
from gateway.errors import GatewayError, NotFound, Unreachable

BASE = "/aap"

Handle = Callable[[ApiCall], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ProtocolRoute:
    """One operation of the protocol: its path, the kind of token that it needs, and its input."""

    method: str
    path: str
    handle: Handle
    who: str
    body: type | None = None
    query: type = NoBody


def protocol_routes(
    requests: ProtocolRequests,
    provisioning: Provisioning,
    services: Services,
    store_errors: tuple[type[Exception], ...],
) -> list[web.RouteDef]:
    """Return the routes of the protocol."""
    one, instance = "/v1/requests/{id}", "/v1/instances/{id}"
    table = (
        ProtocolRoute("POST", "/v1/requests", requests.submit, AGENT, Submission),
        ProtocolRoute("GET", one, requests.look, AGENT, query=PollQuery),
        ProtocolRoute("DELETE", one, requests.cancel, AGENT),
        ProtocolRoute("POST", f"{one}/consume", requests.consume, AGENT, NoBody),
        ProtocolRoute("POST", f"{one}/outcome", requests.report, AGENT, OutcomeReport),
        ProtocolRoute("POST", "/v1/instances", provisioning.create, APPROVER, Provision),
        ProtocolRoute("GET", instance, provisioning.look, APPROVER),
        ProtocolRoute("PATCH", instance, provisioning.update, APPROVER, InstanceUpdate),
        ProtocolRoute("DELETE", instance, provisioning.delete, APPROVER),
    )
    served = []
    for row in table:
        own = {"allow_head": False} if row.method == "GET" else {}
        handler = _serve(row, services, store_errors)
        served.append(web.route(row.method, BASE + row.path, handler, **own))
    return [*served, web.route("*", f"{BASE}/{{rest:.*}}", _refuse_others(table))]


def _refuse_others(
    table: Collection[ProtocolRoute],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return a handler that answers unknown paths and methods with the protocol's errors."""

    async def refuse(request: web.Request) -> web.StreamResponse:
        rest = f"/{request.match_info['rest']}"
        known = {
            row.method for row in table if re.fullmatch(row.path.replace("{id}", "[^/]+"), rest)
        }
        if not known:
            return error_of(NotFound(rest), request[CALL])
        words = f"{request.method} is not allowed here; use {', '.join(sorted(known))}"
        answer = error_of(ProtocolRefusal(405, "method_not_allowed", words), request[CALL])
        answer.headers["Allow"] = ", ".join(sorted(known))
        return answer

    return refuse


def _serve(
    row: ProtocolRoute, services: Services, store_errors: Collection[type[Exception]]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def serve(request: web.Request) -> web.StreamResponse:
        try:
            who = await services.access.authenticate(request, (row.who,))
            handle, query, body = row.handle, row.query, row.body
            return await answer_call(handle, request, services, who, query=query, body=body)
        except GatewayError as error:
            if isinstance(error, Unauthenticated):
                services.metrics.auth_failures.inc()
            return error_of(error, request[CALL])
        except tuple(store_errors):
            return error_of(Unreachable("the gateway's store does not respond"), request[CALL])

    return serve
