"""AG2: gate the calls of one tool, or of all tools of an agent, with the middleware
`ask_people`."""

from __future__ import annotations

import copy
import json
from typing import Any

from gateway.client import Client
from gateway.errors import GatewayError
from gateway.integrations.frameworks.calls import (
    ALONE,
    FrameworkCall,
    FrameworkGate,
    Turn,
    TurnGate,
    tell,
)


def ask_people(*, client: Client | None = None, **details: Any) -> Any:
    """Return the middleware for `@tool(middleware=[…])`. `details` are keywords of
    `client.request`. All gated calls of one turn form one batch. If a person aborts, or the
    gateway rejects the request, the turn ends with `HumanInputFailedError`."""
    gate = TurnGate(FrameworkGate("ag2", client, details))

    async def ask(call_next: Any, event: Any, context: Any) -> Any:
        from ag2.events import ToolResultEvent  # noqa: PLC0415 (the vendor)
        from ag2.exceptions import HumanInputFailedError  # noqa: PLC0415 (the vendor)

        call = FrameworkCall(
            tool=event.name, arguments=event.serialized_arguments, call_id=event.id
        )
        try:
            turn = await _find_turn(event, context)
            outcome = await gate.ask(call, turn, str(context.stream.id))
        except GatewayError as error:  # AG2 passes other exceptions to the model, which goes on
            raise HumanInputFailedError(error) from error
        if not outcome.runs:
            return ToolResultEvent.from_call(event, result=tell(event.name, outcome))
        approved = copy.copy(event)
        approved.arguments = json.dumps(outcome.arguments)
        approved.serialized_arguments = outcome.arguments
        return await call_next(approved, context)

    return ask


async def _find_turn(event: Any, context: Any) -> Turn:
    """Return the turn of a call, found in the history of the call's stream."""
    from ag2.events import ToolCallsEvent  # noqa: PLC0415 (the vendor)

    for one in reversed(tuple(await context.stream.history.get_events())):
        if isinstance(one, ToolCallsEvent) and event.id in (ids := [own.id for own in one.calls]):
            return Turn((context.stream.id, *ids), len(ids))
    return ALONE
