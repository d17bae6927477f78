"""Statistics of how people decide, over HTTP, for admins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from aiohttp import web
from pydantic import Field

from gateway.api.call import ApiCall, reply
from gateway.api.operation import operation
from gateway.domain.statistics import PeriodReport
from gateway.wire.codec import Wire

_LATEST = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Period(Wire):
    """From `since` to before `until`, milliseconds since the epoch; if absent the last 30 days."""

    since: Annotated[int, Field(ge=1, le=_LATEST)] | None = None
    until: Annotated[int, Field(ge=1, le=_LATEST)] | None = None


@operation("reports.report", {200: PeriodReport}, query=Period)
async def report(call: ApiCall) -> web.Response:
    """Return what a period's answers were like, by person and by agent."""
    query: Period = call.query
    operator = call.core.operator
    return reply(await operator.report(call.identity, since=query.since, until=query.until))
