"""What operators declare about tools, over HTTP: approvers read it, admins write it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from aiohttp import web

from gateway.api.call import ApiCall, reply
from gateway.api.operation import operation
from gateway.domain.policy_document import ToolRow
from gateway.policy.declared_tools import ToolWord
from gateway.wire.codec import Wire
from gateway.wire.identifiers import TOOL_NAME
from gateway.wire.roles import DECLARED_ROLES
from gateway.wire.schema import Says, matching, whole

_SAYS_AN_ARGUMENT = {"required": ["arguments"], "properties": {"arguments": {"minProperties": 1}}}
_SAYS_HARMLESS = {"required": ["harmless"], "properties": {"harmless": {"type": "boolean"}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareTool(Wire):
    """What an admin says of one tool. `arguments` are roles by name or address.

    `agents` are whose calls it is about: names in which `*` stands for anything, empty for all.
    Left out, they stay as they are, which for a tool of which nothing was declared is all; so does
    `harmless`. `confirmed` says that the person confirmed what it frees.
    """

    __pydantic_config__ = whole(anyOf=[_SAYS_AN_ARGUMENT, _SAYS_HARMLESS])

    tool: Annotated[str, matching(TOOL_NAME), Says(not_={"pattern": r"\*"})]
    arguments: Annotated[dict[str, str], DECLARED_ROLES] = field(default_factory=dict)
    harmless: bool | None = None
    agents: tuple[str, ...] | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTools(Wire):
    """What operators declared about tools, a row for each."""

    items: tuple[ToolRow, ...]


@operation("tools.listing", {200: DeclaredTools})
async def list_tools(call: ApiCall) -> web.Response:
    """Return what operators declared about tools."""
    return reply(DeclaredTools(items=await call.core.tools.rows()))


@operation("tools.declare", {200: DeclaredTools}, 409, body=DeclareTool)
async def declare(call: ApiCall) -> web.Response:
    """Declare, as an admin, what the arguments of a tool are, or that it is harmless."""
    body: DeclareTool = call.body
    word = ToolWord(
        tool=body.tool, arguments=body.arguments, harmless=body.harmless, agents=body.agents
    )
    await call.core.tools.declare(call.identity, word, confirmed=body.confirmed)
    return reply(DeclaredTools(items=await call.core.tools.rows()))
