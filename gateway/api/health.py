"""Liveness, readiness, metrics and the OpenAPI document."""

from __future__ import annotations

import asyncio

from aiohttp import web

from gateway.api.call import ApiCall, operation, reply
from gateway.api.messages import HealthReply
from gateway.api.metrics import CONTENT_TYPE
from gateway.domain.health_and_metrics import Readiness

READY_SECONDS = 2.0


@operation("operations.health", {200: HealthReply})
async def check_health(call: ApiCall) -> web.Response:
    """Say that the process serves calls; nothing else is asked."""
    return reply(HealthReply(status="alive"))


@operation("operations.readiness", {200: HealthReply, 503: HealthReply})
async def check_readiness(call: ApiCall) -> web.Response:
    """Say whether people can answer here, and what works only in part.

    503 is for a gateway where nobody can answer anything, or where nothing can be recorded.
    """
    try:
        async with asyncio.timeout(READY_SECONDS):
            found = await call.services.ready()
    except TimeoutError:
        found = Readiness(down=(f"the store did not answer within {READY_SECONDS:g} s",))
    return reply(
        HealthReply(status=found.status, problems=found.problems), 503 if found.down else 200
    )


@operation("operations.metrics", {200: "text/plain"})
async def render_metrics(call: ApiCall) -> web.Response:
    """Return the figures for Prometheus."""
    page = await call.services.metrics.page()
    return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE})


@operation("operations.document", {200: "application/json"})
async def send_document(call: ApiCall) -> web.Response:
    """Return the OpenAPI document of the routes that are served."""
    body = await asyncio.to_thread(call.services.document)
    return web.Response(body=body, content_type="application/json")
