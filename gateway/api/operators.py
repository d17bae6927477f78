"""Serve operators over HTTP: `explain`, reports, blocked agents, tools, health, metrics."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Annotated

from aiohttp import web
from pydantic import Field

from gateway.api.api_call import ApiCall, Nothing, operation, reply
from gateway.api.messages import HealthReply
from gateway.api.metrics import CONTENT_TYPE
from gateway.approvals.explanation import Explanation
from gateway.domain.health_and_metrics import Readiness
from gateway.domain.parsing import check_request
from gateway.domain.policy_document import Budget, ToolRow
from gateway.domain.statistics import PeriodReport
from gateway.errors import NotFound
from gateway.models import ApprovalRequest
from gateway.policy.declared_tools import ToolWord
from gateway.wire.codec import Wire
from gateway.wire.roles import DECLARED_ROLES
from gateway.wire.schema import AGENT_NAME, TOOL_NAME, Says, matching, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainCall(Wire):
    """A request as an agent would submit it."""

    request: ApprovalRequest


@operation("explain.explain", {200: Explanation}, body=ExplainCall)
async def explain(call: ApiCall) -> web.Response:
    """Return the outcome that a request would have, each decider's view, and who would be asked.

    Nothing is asked or stored. A request that would be rejected at submission is rejected here too.
    """
    request: ApprovalRequest = call.body.request
    check_request(request)
    found = await call.core.explanations.explain(call.identity, request)
    try:
        await call.services.access.check_agent(request.agent)
    except NotFound:
        found = replace(found, known=False)
    return reply(found)


# Statistics of decisions, for admins.

_LATEST = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Period(Wire):
    """From `since` to before `until`, in ms since the epoch; the last 30 days by default."""

    since: Annotated[int, Field(ge=1, le=_LATEST)] | None = None
    until: Annotated[int, Field(ge=1, le=_LATEST)] | None = None


@operation("reports.report", {200: PeriodReport}, query=Period)
async def report(call: ApiCall) -> web.Response:
    """Return statistics of a period's decisions, by person and by agent."""
    query: Period = call.query
    operator = call.core.operator
    return reply(await operator.report(call.identity, since=query.since, until=query.until))


# Agents that are blocked after many denials, for approvers.


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedAgent(Wire):
    """An agent that is blocked `until` a time (milliseconds since the epoch), and the budget whose
    limit of denials it reached."""

    agent: str
    until: int
    budget: Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedAgents(Wire):
    """The blocked agents, by name."""

    items: tuple[PausedAgent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted(Wire):
    """Whether the agent was blocked."""

    lifted: bool


@operation("agents.paused", {200: PausedAgents})
async def list_paused(call: ApiCall) -> web.Response:
    """List the agents that are blocked after many denials, with their budgets."""
    operator = call.core.operator
    items = [
        PausedAgent(agent=one.agent, until=one.until, budget=await operator.budget_of(one.agent))
        for one in (await operator.status()).paused
    ]
    return reply(PausedAgents(items=tuple(items)))


@operation("agents.lift", {200: Lifted}, 404, body=Nothing)
async def lift(call: ApiCall) -> web.Response:
    """Unblock an agent."""
    agent = call.request.match_info["agent"]
    if not AGENT_NAME.fullmatch(agent):
        raise NotFound("there is no such agent")
    lifted = await call.core.operator.lift(agent, call.identity)
    if not lifted:
        await call.services.access.check_agent(agent)
    return reply(Lifted(lifted=lifted))


# Operators' declarations of tools: approvers can read them, admins can write them.

_SAYS_AN_ARGUMENT = {"required": ["arguments"], "properties": {"arguments": {"minProperties": 1}}}
_SAYS_HARMLESS = {"required": ["harmless"], "properties": {"harmless": {"type": "boolean"}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareTool(Wire):
    """An admin's declaration of one tool. `arguments` maps names or addresses to roles.

    `agents` are names of agents in which `*` matches anything; an empty list means all. Without
    `agents` or `harmless`, the current values stay; for a new tool, `agents` is then all.
    `confirmed` says that the person confirmed the values that the declaration frees.
    """

    __pydantic_config__ = whole(anyOf=[_SAYS_AN_ARGUMENT, _SAYS_HARMLESS])

    tool: Annotated[str, matching(TOOL_NAME), Says(not_={"pattern": r"\*"})]
    arguments: Annotated[dict[str, str], DECLARED_ROLES] = field(default_factory=dict)
    harmless: bool | None = None
    agents: tuple[str, ...] | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTools(Wire):
    """The tools that operators declared, one row each."""

    items: tuple[ToolRow, ...]


@operation("tools.listing", {200: DeclaredTools})
async def list_tools(call: ApiCall) -> web.Response:
    """List the tools that operators declared."""
    return reply(DeclaredTools(items=await call.core.operator.list_declared()))


@operation("tools.declare", {200: DeclaredTools}, 409, body=DeclareTool)
async def declare(call: ApiCall) -> web.Response:
    """Declare a tool's arguments, or that the tool is harmless, as an admin."""
    body: DeclareTool = call.body
    word = ToolWord(
        tool=body.tool, arguments=body.arguments, harmless=body.harmless, agents=body.agents
    )
    await call.core.operator.declare(call.identity, word, confirmed=body.confirmed)
    return reply(DeclaredTools(items=await call.core.operator.list_declared()))


# Liveness, readiness, metrics and the OpenAPI document.

READY_SECONDS = 2.0


@operation("operations.health", {200: HealthReply})
async def check_health(call: ApiCall) -> web.Response:
    """Confirm that the process serves calls, without checking anything else."""
    return reply(HealthReply(status="alive"))


@operation("operations.readiness", {200: HealthReply, 503: HealthReply})
async def check_readiness(call: ApiCall) -> web.Response:
    """Return whether people can decide here, and what is degraded.

    The status is 503 if nobody can decide anything, or nothing can be recorded.
    """
    try:
        async with asyncio.timeout(READY_SECONDS):
            found = await call.services.ready()
    except TimeoutError:
        found = Readiness(down=(f"the store did not answer within {READY_SECONDS:g} s",))
    return reply(
        HealthReply(status=found.status, problems=found.problems), 503 if found.down else 200
    )


@operation("operations.metrics", {200: "text/plain"}, 404)
async def render_metrics(call: ApiCall) -> web.Response:
    """Return the metrics for Prometheus. Raises NotFound for calls that a proxy forwards, because
    they may come from the internet."""
    if "X-Forwarded-For" in call.request.headers:
        raise NotFound("a proxy forwarded this call: read the metrics from the gateway itself")
    page = await call.services.metrics.page()
    return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE})


@operation("operations.document", {200: "application/json"})
async def send_document(call: ApiCall) -> web.Response:
    """Return the OpenAPI document of the served routes."""
    body = await asyncio.to_thread(call.services.document)
    return web.Response(body=body, content_type="application/json")
