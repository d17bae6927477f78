"""The HTTP side of an adapter that runs as its own process: health, and its pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from gateway.api.app import Site
from gateway.api.authentication import LOOPBACK_HOSTS
from gateway.api.middleware import Handler, host_guard, log_call, security_headers, trust_proxy
from gateway.api.problems import problem_of
from gateway.domain.health import Readiness
from gateway.errors import GatewayError

_LARGEST_BODY = 4 * 1024 * 1024


def build_pages(site: Site, ready: Callable[[], Awaitable[Readiness]]) -> web.Application:
    """Return the application; run it with `gateway.api.app.runner`.

    `ready` says what keeps people from answering.
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
        middlewares=[
            *([trust_proxy] if site.proxied else []),
            log_call,
            _as_problems,
            host_guard(allowed),
        ],
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
