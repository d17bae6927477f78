"""Microsoft's agent-framework: middleware asks people before each call of a tool.

One part sees which calls the model wants in a turn, the other makes each of them wait.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from gateway.client import Client
from gateway.errors import GatewayError
from gateway.integrations.framework_calls import FrameworkCall, FrameworkGate, tell
from gateway.integrations.framework_turns import ALONE, Turn, TurnGate

_turn: ContextVar[Turn] = ContextVar("_turn", default=ALONE)
"""The turn that a model wanted last: what runs its calls inherits it."""


def ask_people(*, client: Client | None = None, **details: Any) -> Any:
    """Return the middleware: for `Agent(middleware=[…])`. `details` are keywords of
    `client.request`. The calls of one turn are one batch. A person's abort raises
    `MiddlewareFailure` out of the run."""
    from agent_framework import (  # noqa: PLC0415 (the vendor)
        MiddlewareBundle,
        chat_middleware,
        function_middleware,
    )

    gate = TurnGate(FrameworkGate("agent-framework-core", client, details))

    @chat_middleware  # type: ignore[untyped-decorator]  # the framework's
    async def note(context: Any, call_next: Any) -> None:
        if context.stream:
            context.stream_result_hooks.append(_note_turn)
        await call_next()
        if not context.stream:
            _note_turn(context.result)

    @function_middleware  # type: ignore[untyped-decorator]  # the framework's
    async def ask(context: Any, call_next: Any) -> None:
        from agent_framework import MiddlewareFailure  # noqa: PLC0415 (the vendor)

        name = context.function.name
        call = FrameworkCall(
            tool=name, arguments=dict(context.arguments), call_id=context.metadata.get("call_id")
        )
        session = getattr(context.session, "session_id", None)
        try:
            outcome = await gate.ask(call, _turn.get(), session)
        except GatewayError as error:  # any other exception is told to the model, which goes on
            raise MiddlewareFailure(str(error)) from error
        if not outcome.runs:
            context.result = tell(name, outcome)
            return
        context.arguments = outcome.arguments
        await call_next()

    return MiddlewareBundle([note, ask])


def _note_turn(response: Any) -> None:
    """Remember how many calls a model wants."""
    parts = [part for message in response.messages for part in message.contents]
    _turn.set(Turn(object(), sum(part.type == "function_call" for part in parts)))
