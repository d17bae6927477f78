"""Microsoft's agent-framework: a function middleware asks people before each call of a tool."""

from __future__ import annotations

from typing import Any

from gateway.client import Client
from gateway.errors import GatewayError
from gateway.integrations.framework_calls import FrameworkCall, FrameworkGate, tell
from gateway.integrations.framework_turns import ALONE, AT_ONCE, Turn, TurnGate


def ask_people(*, client: Client | None = None, **details: Any) -> Any:
    """Return the middleware: for `Agent(middleware=[…])`. `details` are keywords of
    `client.request`. The calls of one turn are one batch. A person's abort raises
    `MiddlewareFailure` out of the run."""
    from agent_framework import function_middleware  # noqa: PLC0415 (the vendor)

    gate = TurnGate(FrameworkGate("agent-framework-core", client, details))

    @function_middleware  # type: ignore[untyped-decorator]  # the framework's
    async def ask(context: Any, call_next: Any) -> None:
        from agent_framework import MiddlewareFailure  # noqa: PLC0415 (the vendor)

        name = context.function.name
        call = FrameworkCall(
            tool=name, arguments=dict(context.arguments), call_id=context.metadata.get("call_id")
        )
        session = getattr(context.session, "session_id", None)
        try:
            outcome = await gate.ask(call, _find_turn(context), session)
        except GatewayError as error:  # any other exception is told to the model, which goes on
            raise MiddlewareFailure(str(error)) from error
        if not outcome.runs:
            context.result = tell(name, outcome)
            return
        context.arguments = outcome.arguments
        await call_next()

    return ask


def _find_turn(context: Any) -> Turn:
    """Return the turn of a call: each run has a list of tools of its own, and starts the calls of a
    turn at once."""
    return ALONE if context.tools is None else Turn(id(context.tools), AT_ONCE)
