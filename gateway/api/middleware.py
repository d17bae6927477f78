"""Wrap every call: id, log line, problem documents, host check; start at `before_all`."""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware

from gateway.api.api_call import Services
from gateway.api.authentication import CALLER, check_host, check_query
from gateway.api.metrics import Metrics
from gateway.api.problems import Unauthenticated, problem_of, refusal_of
from gateway.domain.health_and_metrics import DISK_FULL
from gateway.domain.log_context import log_about
from gateway.domain.redaction import bug
from gateway.errors import GatewayError, Unreachable
from gateway.models import new_id
from gateway.wire.schema import REQUEST_ID

log = logging.getLogger("gateway.api")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CALL = web.RequestKey("call", str)  # the id of the call
_BEGAN = web.RequestKey("began", float)

# Probes use IP addresses, so their Host header is not checked; they reveal and change nothing.
_PROBES = frozenset({"/healthz", "/readyz"})
_CALL_ID = re.compile(r"[0-9A-Za-z_-]{8,64}")
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@web.middleware
async def log_call(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give each call an id and a log line with its caller, without query string, body or token.

    An error status is logged as INFO, all others as DEBUG.
    """
    given = request.headers.get("X-Request-ID", "")
    request[CALL] = given if _CALL_ID.fullmatch(given) else new_id()
    with log_about(request_id=request[CALL], **_ids_in(request)):
        return await _log_answer(request, handler)


async def _log_answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    began = request[_BEGAN] = time.monotonic()
    answer = await handler(request)
    caller = request.get(CALLER, "nobody")
    log.log(
        logging.INFO if answer.status >= HTTPStatus.BAD_REQUEST else logging.DEBUG,
        "%s %s %d for %s, call %s",
        request.method,
        path_of(request) or "?",
        answer.status,
        caller,
        request[CALL],
        extra={
            "event": "call",
            "caller": caller,
            "milliseconds": round((time.monotonic() - began) * 1000, 1),
        },
    )
    return answer


def _ids_in(request: web.Request) -> dict[str, str]:
    """Return the ids in the path for the log, but no other words of the caller."""
    found = request.match_info
    ids = {"request": found.get("id", ""), "grant": found.get("grant", "")}
    return {name: one for name, one in ids.items() if REQUEST_ID.fullmatch(one)}


def problem_guard(
    services: Services, ours: Collection[str], store_errors: tuple[type[Exception], ...]
) -> Middleware:
    """Return the middleware that turns errors into problem documents, except on adapters' pages."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as error:
            if path_of(request) not in {None, *ours}:
                raise
            return _with_allow(problem_of(refusal_of(error)), error)
        except Unauthenticated as error:
            services.metrics.auth_failures.inc()
            return problem_of(error)
        except GatewayError as error:
            return problem_of(error)
        except store_errors as error:
            _log_failure(request, error, "store_unreachable")
            full = DISK_FULL in services.core.health.readiness.down
            why = DISK_FULL if full else "the gateway's store does not respond"
            return problem_of(Unreachable(f"{why}; nothing was approved"))
        except Exception as error:
            # The problem document for the caller must not quote the error.
            _log_failure(request, error, "call_failed")
            return problem_of(
                GatewayError("the gateway failed; search its log for the id of this call")
            )

    return guard


def host_guard(allowed: Collection[str]) -> Middleware:
    """Return the middleware that rejects other hosts, and tokens in the query string."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in _PROBES:
            check_host(request, allowed)
        check_query(request)
        return await handler(request)

    return guard


@web.middleware
async def trust_proxy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Use the caller's address from the operator's proxy, which adds the last one."""
    told = request.headers.getall("X-Forwarded-For", [""])[-1].rpartition(",")[2].strip()
    try:
        address = str(ipaddress.ip_address(told))
    except ValueError:  # the proxy names none: the call keeps the proxy's address
        return await handler(request)
    handed_on = request.clone(remote=address)
    try:
        return await handler(handed_on)
    finally:  # later code reads notes such as the call's id from the original request
        for name, value in handed_on.items():
            request[name] = value


def before_all(proxied: bool) -> list[Middleware]:
    """Return the middleware that runs first; with `proxied`, it trusts the operator's proxy."""
    return [trust_proxy, log_call] if proxied else [log_call]


def security_headers(secure: bool) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """Return the hook that adds headers to every response, except those already set."""

    async def add(request: web.Request, answer: web.StreamResponse) -> None:
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        if secure:
            answer.headers["Strict-Transport-Security"] = "max-age=31536000"
        answer.headers["Server"] = "approval-gateway"
        answer.headers["X-Request-ID"] = request.get(CALL, "")

    return add


def count_responses(
    metrics: Metrics,
) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """Return the hook that counts and times every response, also of adapters' pages."""

    async def count(request: web.Request, answer: web.StreamResponse) -> None:
        metrics.responses.labels(str(answer.status)).inc()
        # Use only the route table's values: callers could make up any number of paths and methods.
        route, status = path_of(request) or "none", f"{answer.status // 100}xx"
        timed = metrics.http_seconds.labels(request.match_info.route.method, route, status)
        now = time.monotonic()
        timed.observe(now - request.get(_BEGAN, now))

    return count


def path_of(request: web.Request) -> str | None:
    """Return the path of the request's route, as in the table; None without a route."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else None


def _with_allow(answer: web.Response, error: web.HTTPException) -> web.Response:
    if "Allow" in error.headers:
        answer.headers["Allow"] = error.headers["Allow"]
    return answer


def _log_failure(request: web.Request, error: Exception, event: str) -> None:
    log.error("%s", bug(error), extra={"event": event})
