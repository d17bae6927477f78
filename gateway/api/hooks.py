"""Policy hooks for the messages that an agent's side sends to and gets from its model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from aiohttp import web

from gateway.api.call import ApiCall, reply
from gateway.api.operation import operation
from gateway.errors import InvalidRequest
from gateway.wire.codec import JsonObject, Wire
from gateway.wire.identifiers import SESSION_NAME
from gateway.wire.schema import Says, matching

METHODS = ("before_llm", "after_llm", "after_tool")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookMessage(Wire):
    """What hooks are to look at: the parameters of `method`, without `meta`, which is ours."""

    method: Annotated[str, Says(enum=METHODS)]
    params: JsonObject
    session: Annotated[str, matching(SESSION_NAME)] = "default"
    turn: str | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InvalidRequest(f"method must be one of {', '.join(METHODS)}")
        if not SESSION_NAME.fullmatch(self.session):
            raise InvalidRequest("the session's name does not fit")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOutcome(Wire):
    """What hooks want: `continue`, `modify` (with the changed members), or an abort."""

    action: str
    reason: str = ""
    changed: JsonObject | None = None


@operation("hooks.passed", {200: HookOutcome}, body=HookMessage)
async def run_hooks(call: ApiCall) -> web.Response:
    """Pass a message through the hooks that intercept it."""
    body: HookMessage = call.body
    meta = {"AgentID": call.caller.name, "SessionKey": body.session, "TurnID": body.turn or ""}
    action, reason, changed = await call.services.intercept(
        body.method, {**body.params, "meta": meta}
    )
    return reply(HookOutcome(action=action, reason=reason, changed=changed))
