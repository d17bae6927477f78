"""Build the HTTP API as one aiohttp application; start at `build_api`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger

from gateway.api.agent_hooks import HostHook, hook_routes
from gateway.api.api_call import APPROVER, Enrolment, Intercept, Limits, Services, answer_call
from gateway.api.authentication import LOOPBACK_HOSTS, TokenAccess
from gateway.api.metrics import AdapterProblems, Measure, Metrics, Outboxes, no_outboxes
from gateway.api.middleware import (
    Handler,
    before_all,
    count_responses,
    host_guard,
    problem_guard,
    security_headers,
)
from gateway.api.openapi import served_document
from gateway.api.problems import problem_of
from gateway.api.routes import ApiRoute, routes
from gateway.approvals.services import Core
from gateway.domain.health_and_metrics import Readiness
from gateway.domain.records import Identity
from gateway.domain.store import Store
from gateway.domain.web_limits import FailureLimit
from gateway.errors import GatewayError
from gateway.policy.authorization import refuse_auditor
from gateway.ports import Credentials
from gateway.wire.codec import JsonObject
from gateway.wire.schema import REQUEST_ID

# How long an idle connection stays open: longer than with proxies, so that no proxy sends a call
# over a connection that is being closed.
IDLE_SECONDS = 180.0
# How long calls may continue when the server stops: this time to finish, and again after they are
# cancelled. A write that is cut off is like one of a killed gateway.
STOP_SECONDS = 0.5
SERVICES = web.AppKey("services", Services)
RoutesOf = Callable[[Services, tuple[type[Exception], ...]], Sequence[web.AbstractRouteDef]]
"""Makes routes from the services and the errors that an unreachable store raises."""


async def _without_hooks(method: str, params: JsonObject) -> tuple[str, str, JsonObject | None]:
    """Let every message continue, because no hooks are configured."""
    return "continue", "", None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicAddress:
    """How clients reach the API, and the optional parts that it serves.

    `hosts` are accepted beside the loopback names; `secure` means TLS; `proxied` means behind the
    operator's own proxy. `pages` are adapters' web pages, served under the same guards; `closing`
    ends their open responses. `protocol` serves clients of the Agent Approval Protocol. `intercept`
    passes agents' messages to policy hooks; `host_hooks` are the coding agents that call their hook
    by HTTP. The metrics use `measure`, `outboxes` and `adapters`.
    """

    hosts: frozenset[str] = frozenset()
    secure: bool = False
    proxied: bool = False
    pages: tuple[web.AbstractRouteDef, ...] = ()
    closing: tuple[Callable[[], None], ...] = ()
    protocol: RoutesOf | None = None
    intercept: Intercept = _without_hooks
    host_hooks: Mapping[str, HostHook] = field(default_factory=dict)
    measure: Measure | None = None
    outboxes: Outboxes = no_outboxes
    adapters: AdapterProblems = dict


def build_api(
    *,
    core: Core,
    reads: Store,
    credentials: Credentials,
    ready: Callable[[], Awaitable[Readiness]],
    store_errors: tuple[type[Exception], ...],
    site: PublicAddress | None = None,
    enrolment: Enrolment | None = None,
    limits: Limits | None = None,
) -> web.Application:
    """Return the application; run it with `runner`.

    `ready` returns the current problems. `store_errors` are the errors of an unreachable store.
    """
    site = site or PublicAddress()
    bounds = limits or Limits()
    table = routes(enrolment=enrolment is not None)
    metrics = Metrics(
        reads,
        site.measure,
        site.outboxes,
        site.adapters,
        core.health,
        core.tally,
        store_errors=store_errors,
    )
    services = Services(
        core=core,
        reads=reads,
        access=TokenAccess(credentials=credentials, limit=FailureLimit(now=time.monotonic)),
        metrics=metrics,
        ready=ready,
        enrolment=enrolment,
        intercept=site.intercept,
        limits=bounds,
        streams=asyncio.Semaphore(bounds.event_streams),
        document=partial(served_document, enrolment=enrolment is not None),
    )
    allowed = LOOPBACK_HOSTS | {host.lower() for host in site.hosts}
    ours = frozenset(one.path for one in table)
    guards = (problem_guard(services, ours, store_errors), host_guard(allowed))
    app = web.Application(
        middlewares=[*before_all(site.proxied), *guards], client_max_size=bounds.body_bytes
    )
    app[SERVICES] = services
    for one in table:
        app.router.add_route(one.method, _match_ids(one.path), _serve(one, services))
    if site.protocol is not None:
        app.add_routes(site.protocol(services, store_errors))
    app.add_routes(hook_routes(services, site.host_hooks, store_errors=store_errors))
    app.add_routes(site.pages)
    app.on_response_prepare.append(security_headers(site.secure))
    app.on_response_prepare.append(count_responses(metrics))
    app.on_shutdown.append(_end_waits(site.closing))
    return app


def _match_ids(path: str) -> str:
    """Return a route's path with patterns for ids that words such as `offers` do not match."""
    if path == "/v1/requests/{id}":
        return "/v1/requests/{id:(?!prepare$)[^{}/]+}"
    return path.replace("{grant}", f"{{grant:{REQUEST_ID.pattern}}}")


def _shorten(record: logging.LogRecord) -> bool:
    """Make aiohttp log a malformed HTTP message in one line, and not as an error."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        record.levelno, record.levelname = logging.INFO, "INFO"
        record.msg, record.args = f"rejected malformed HTTP: {type(error).__name__}", ()
        record.exc_info = None
    return True


def runner(app: web.Application) -> web.AppRunner:
    """Return the runner for an application of `build_api`.

    It cancels a call whose caller disconnects, and closes idle connections. aiohttp's own access
    log is off, because it would log query strings.
    """
    server_logger.addFilter(_shorten)
    return web.AppRunner(
        app,
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=STOP_SECONDS,
        keepalive_timeout=IDLE_SECONDS,
    )


def _serve(route: ApiRoute, services: Services) -> Handler:
    operation = route.operation

    async def serve(request: web.Request) -> web.StreamResponse:
        who = None
        if route.needs_token:
            who = await services.access.authenticate(request, route.who)
            if who.kind == APPROVER and not (route.reads or route.method == "GET"):
                # It may be a moment old: the core gives auditors no rights either.
                policy = await services.core.writer.policy()
                refuse_auditor(policy, Identity(platform="token", id=who.name))
        elif route.who and services.enrolment is not None:
            services.access.check_secret(request, services.enrolment.secret)
        query, body = operation.query, operation.body
        return await answer_call(operation.handle, request, services, who, query=query, body=body)

    return serve


def _end_waits(
    closing: Sequence[Callable[[], None]],
) -> Callable[[web.Application], Awaitable[None]]:
    async def end(app: web.Application) -> None:
        for close in closing:
            close()
        app[SERVICES].stop_waits()

    return end


# The HTTP side of an adapter that runs as its own process: health, and its pages.

_LARGEST_BODY = 4 * 1024 * 1024


def build_pages(site: PublicAddress, ready: Callable[[], Awaitable[Readiness]]) -> web.Application:
    """Return the application; run it with `gateway.api.app.runner`.

    `ready` returns the problems that keep people from deciding.
    """

    async def healthz(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def readyz(request: web.Request) -> web.Response:
        found = await ready()
        body = {"status": found.status, "problems": list(found.problems)}
        return web.json_response(body, status=503 if found.down else 200)

    async def end_streams(app: web.Application) -> None:
        for close in site.closing:
            close()

    allowed = LOOPBACK_HOSTS | {host.lower() for host in site.hosts}
    app = web.Application(
        middlewares=[*before_all(site.proxied), _as_problems, host_guard(allowed)],
        client_max_size=_LARGEST_BODY,
    )
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), *site.pages])
    app.on_response_prepare.append(security_headers(site.secure))
    app.on_shutdown.append(end_streams)
    return app


@web.middleware
async def _as_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except GatewayError as error:
        return problem_of(error)
