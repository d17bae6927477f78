"""Google's Agent Development Kit: gate tool calls. Start at `ask_people` or ToolConfirmations."""

from __future__ import annotations

import copy
from typing import Any

from gateway.client import Client, Outcome
from gateway.client.gate import ALLOWED
from gateway.errors import GatewayError
from gateway.integrations.frameworks.calls import (
    ALONE,
    FrameworkCall,
    FrameworkGate,
    PausedRun,
    Turn,
    TurnGate,
    tell,
)
from gateway.models import Action


def ask_people(*, client: Client | None = None, **details: Any) -> Any:
    """Return the callback for `Agent(before_tool_callback=…)`. `details` are keywords of
    `client.request`. The calls of one turn form one batch. If a person aborts, the run raises
    Aborted."""
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
    """Return the turn of a call: the event with the model's tool calls."""
    for event in reversed(tool_context.session.events):
        ids = [one.id for one in event.get_function_calls()]
        if tool_context.function_call_id in ids:
            return Turn(event.id, len(ids))
    return ALONE


# Runs that pause for confirmations.
#
# A tool that `gate` has wrapped always pauses, and runs only with an approval, even if a saved
# session says that it was confirmed. People may edit its calls. Confirmations of other tools are
# answered too, but only with yes or no.

_Waiting = dict[str, FrameworkCall]
"""The pending calls of a session, by the id of their confirmation."""
_CONFIRMATION = "adk_request_confirmation"
_WORDLESS = (Action.APPROVE, Action.DENY, Action.ABORT)


class ToolConfirmations:
    """Let people decide confirmations for which a run pauses, and continue the run in any process.
    `details` are keywords of `client.request`.

    If a person aborts, the run raises Aborted. Other refusals are passed to the model.
    """

    def __init__(self, *, client: Client | None = None, **details: Any) -> None:
        self._gate = FrameworkGate("google-adk", client, details)
        self._gated: set[str] = set()
        self._outcomes: dict[tuple[str, str], Outcome] = {}

    def gate(self, tool: Any) -> Any:
        """Return a tool that always pauses its run, and runs only if this process has an approval.
        `tool` is a function, or a tool of the kit."""
        from google.adk.tools import BaseTool, FunctionTool  # noqa: PLC0415 (the vendor)
        from google.adk.tools.tool_confirmation import ToolConfirmation  # noqa: PLC0415

        inner = tool if isinstance(tool, BaseTool) else FunctionTool(tool)
        gated = copy.copy(inner)
        self._gated.add(inner.name)

        async def check_require_confirmation(args: dict[str, Any], tool_context: Any) -> bool:
            return tool_context.tool_confirmation is None  # afterwards `run_async` handles it

        async def run_async(*, args: dict[str, Any], tool_context: Any) -> Any:
            key = (tool_context.session.id, tool_context.function_call_id)
            if (outcome := self._outcomes.pop(key, None)) is None:
                raise GatewayError(f"{inner.name} was called without an approval")
            if not outcome.runs:
                return {"result": tell(inner.name, outcome)}
            tool_context.tool_confirmation = ToolConfirmation(confirmed=True)
            return await inner.run_async(args=outcome.arguments or {}, tool_context=tool_context)

        gated.check_require_confirmation, gated.run_async = check_require_confirmation, run_async
        return gated

    async def begin(self, runner: Any, given: Any, *, session: Any, **run: Any) -> Any:
        """Run an agent until it needs people. Return its events, or a PausedRun for `resume`.
        `given` is a string or a Content, `run` are keywords of `runner.run_async`."""
        from google.genai.types import UserContent  # noqa: PLC0415 (the vendor)

        message = UserContent(given) if isinstance(given, str) else given
        place = {"user_id": session.user_id, "session_id": session.id}
        return await self._run(runner, place, message, 0.0, run)

    async def resume(
        self, runner: Any, paused: PausedRun, *, timeout: float = 0.0, **run: Any
    ) -> Any:
        """Continue a run in any process. Return its events, or a PausedRun if a decision is missing
        after `timeout` seconds. Raises Aborted if a person aborts the run."""
        if not (waiting := await self._find_waiting(runner, paused.state)):
            raise GatewayError("this run has no pending confirmations")
        return await self._settle(runner, paused.state, waiting, timeout, run)

    async def _run(
        self, runner: Any, place: dict[str, str], message: Any, timeout: float, run: Any
    ) -> Any:
        events = [one async for one in runner.run_async(**place, new_message=message, **run)]
        if not (waiting := await self._find_waiting(runner, place)):
            return events
        return await self._settle(runner, place, waiting, timeout, run)

    async def _settle(
        self, runner: Any, place: dict[str, str], waiting: _Waiting, timeout: float, run: Any
    ) -> Any:
        from google.genai.types import Content, FunctionResponse, Part  # noqa: PLC0415 (the vendor)

        calls, session = list(waiting.values()), place["session_id"]
        outcomes = await self._gate.settle(calls, session, place, timeout=timeout)
        if isinstance(outcomes, PausedRun):
            return outcomes
        parts = []
        for asked, call, outcome in zip(waiting, calls, outcomes, strict=True):
            self._outcomes[session, str(call.call_id)] = outcome
            # `confirmed` is for tools without a gate, which run with the model's arguments.
            said = {"confirmed": outcome.runs and outcome.arguments == call.arguments}
            answer = FunctionResponse(id=asked, name=_CONFIRMATION, response=said)
            parts.append(Part(function_response=answer))
        return await self._run(runner, place, Content(role="user", parts=parts), timeout, run)

    async def _find_waiting(self, runner: Any, place: dict[str, str]) -> _Waiting:
        """Return the calls that have a confirmation request and no result yet."""
        session = await runner.session_service.get_session(app_name=runner.app_name, **place)
        waiting: dict[str, tuple[str, FrameworkCall]] = {}
        for event in session.events if session else ():
            for one in event.get_function_calls():
                if one.name == _CONFIRMATION:
                    call = self._read(one.args["originalFunctionCall"])
                    waiting[str(call.call_id)] = (one.id, call)
            for one in event.get_function_responses():
                if one.id not in event.actions.requested_tool_confirmations:
                    waiting.pop(one.id, None)
        return dict(waiting.values())

    def _read(self, call: dict[str, Any]) -> FrameworkCall:
        name, arguments = call["name"], call.get("args") or {}
        allowed = ALLOWED if name in self._gated else _WORDLESS
        return FrameworkCall(tool=name, arguments=arguments, call_id=call["id"], allowed=allowed)
