"""Agents that are paused after many denials, over HTTP, for approvers."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from gateway.api.call import ApiCall, reply
from gateway.api.operation import Nothing, operation
from gateway.domain.policy_document import Budget
from gateway.errors import NotFound
from gateway.wire.codec import Wire
from gateway.wire.identifiers import AGENT_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedAgent(Wire):
    """An agent that asks nobody `until` then (milliseconds since the epoch), and the budget by
    which people's denials paused it."""

    agent: str
    until: int
    budget: Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedAgents(Wire):
    """The agents that ask nobody for now, by name."""

    items: tuple[PausedAgent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted(Wire):
    """Whether the agent was paused."""

    lifted: bool


@operation("agents.paused", {200: PausedAgents})
async def list_paused(call: ApiCall) -> web.Response:
    """List the agents that ask nobody after many denials, with their budgets."""
    operator = call.core.operator
    items = [
        PausedAgent(agent=one.agent, until=one.until, budget=await operator.budget_of(one.agent))
        for one in await operator.list_paused()
    ]
    return reply(PausedAgents(items=tuple(items)))


@operation("agents.lift", {200: Lifted}, 404, body=Nothing)
async def lift(call: ApiCall) -> web.Response:
    """Let a paused agent ask again."""
    agent = call.request.match_info["agent"]
    if not AGENT_NAME.fullmatch(agent):
        raise NotFound("no such agent")
    lifted = await call.core.operator.lift(agent, call.identity)
    if not lifted:
        await call.services.access.check_agent(agent)
    return reply(Lifted(lifted=lifted))
