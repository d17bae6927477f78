"""AG2: a middleware of a tool, or of all tools of an agent, asks people before each call."""

from __future__ import annotations

import copy
import json
from typing import Any

from gateway.client import Client
from gateway.errors import GatewayError
from gateway.integrations.framework_calls import FrameworkCall, FrameworkGate, tell


def ask_people(*, client: Client | None = None, **details: Any) -> Any:
    """Return the middleware: for `@tool(middleware=[…])`. `details` are keywords of
    `client.request`. A person's abort ends the turn with `HumanInputFailedError`."""
    gate = FrameworkGate("ag2", client, details)

    async def ask(call_next: Any, event: Any, context: Any) -> Any:
        from ag2.events import ToolResultEvent  # noqa: PLC0415 (the vendor)
        from ag2.exceptions import HumanInputFailedError  # noqa: PLC0415 (the vendor)

        call = FrameworkCall(
            tool=event.name, arguments=event.serialized_arguments, call_id=event.id
        )
        try:
            [outcome] = await gate.ask([call], str(context.stream.id))
        except GatewayError as error:  # any other exception is told to the model, which goes on
            raise HumanInputFailedError(error) from error
        if not outcome.runs:
            return ToolResultEvent.from_call(event, result=tell(event.name, outcome))
        approved = copy.copy(event)
        approved.arguments = json.dumps(outcome.arguments)
        approved.serialized_arguments = outcome.arguments
        return await call_next(approved, context)

    return ask
