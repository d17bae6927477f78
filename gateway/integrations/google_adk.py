"""Google's Agent Development Kit: a callback asks people before each call of a tool."""

from __future__ import annotations

from typing import Any

from gateway.client import Client
from gateway.integrations.framework_calls import FrameworkCall, FrameworkGate, tell
from gateway.integrations.framework_turns import ALONE, Turn, TurnGate


def ask_people(*, client: Client | None = None, **details: Any) -> Any:
    """Return the callback: for `Agent(before_tool_callback=…)`. `details` are keywords of
    `client.request`. The calls of one turn are one batch. A person's abort raises Aborted out of
    the run."""
    gate = TurnGate(FrameworkGate("google-adk", client, details))

    async def ask(tool: Any, args: dict[str, Any], tool_context: Any) -> dict[str, Any] | None:
        call = FrameworkCall(
            tool=tool.name, arguments=dict(args), call_id=tool_context.function_call_id
        )
        outcome = await gate.ask(call, _find_turn(tool_context), tool_context.session.id)
        if not outcome.runs:
            return {"result": tell(tool.name, outcome)}
        args.clear()
        args.update(outcome.arguments or {})
        return None

    return ask


def _find_turn(tool_context: Any) -> Turn:
    """Return the turn of a call: the event in which the model wanted it."""
    for event in reversed(tool_context.session.events):
        ids = [one.id for one in event.get_function_calls()]
        if tool_context.function_call_id in ids:
            return Turn(event.id, len(ids))
    return ALONE
