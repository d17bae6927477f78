"""OpenAI Agents SDK: let people decide the calls that need approval. Start at `RunStates`.

A tool wrapped by `gate` always requires approval, even if a saved RunState says that the call was
approved. People may edit its calls. People also decide other interruptions of the SDK
(`needs_approval`, shells, patches, MCP), but nobody can edit those calls.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from gateway.client import Client, Outcome
from gateway.client.gate import ALLOWED
from gateway.errors import GatewayError
from gateway.integrations.frameworks.calls import (
    UNEDITED,
    FrameworkCall,
    FrameworkGate,
    PausedRun,
    session_of_run,
    tell,
)
from gateway.wire.codec import JsonObject


class RunStates:
    """Let people decide the interruptions of runs. `details` are keywords of `client.request`.

    The session is the SDK's session, else the context's session, else a new session for the run. If
    a person aborts, the run raises Aborted. Other refusals are passed to the model.
    """

    def __init__(self, *, client: Client | None = None, **details: Any) -> None:
        self._gate = FrameworkGate("openai-agents", client, details)
        self._gated: dict[str, JsonObject] = {}
        self._approved: dict[tuple[str, str], JsonObject] = {}

    def gate(self, tool: Any) -> Any:
        """Return a copy of a function tool that always requires approval, and runs only in a
        process that has claimed one."""
        gated = copy.copy(tool)
        gated.needs_approval = True
        self._gated[tool.name] = tool.params_json_schema

        async def invoke(context: Any, arguments: str) -> Any:
            approved = self._approved.pop((tool.name, context.tool_call_id), None)
            if approved is None:
                raise GatewayError(f"{tool.name} was called without an approval")
            return await tool.on_invoke_tool(context, json.dumps(approved))

        gated.on_invoke_tool = invoke
        return gated

    def guardrail(self) -> Any:
        """Return an input guardrail for a tool. Each call makes a separate request and waits for
        the decision. Nobody can edit the call."""
        from agents import ToolGuardrailFunctionOutput, ToolInputGuardrail  # noqa: PLC0415

        async def guard(data: Any) -> Any:
            context = data.context
            call = _call(context.tool_name, context.tool_arguments, context.tool_call_id)
            [outcome] = await self._gate.ask([call])
            if outcome.runs:
                return ToolGuardrailFunctionOutput.allow()
            return ToolGuardrailFunctionOutput.reject_content(tell(call.tool, outcome))

        return ToolInputGuardrail(guardrail_function=guard, name="approval gateway")

    async def run(self, agent: Any, given: Any, **run: Any) -> Any:
        """Run an agent to its end as `Runner.run` does, and return its result. Waits for people at
        each interruption. Raises Aborted if a person aborts."""
        from agents import Runner  # noqa: PLC0415 (the vendor)

        result, session = await Runner.run(agent, given, **run), _name_session(run)
        while result.interruptions:
            state = result.to_state()
            outcomes = await self._gate.ask(self._calls(result.interruptions), session)
            result = await self._send(agent, state, result.interruptions, outcomes, run)
        return result

    async def begin(self, agent: Any, given: Any, **run: Any) -> Any:
        """Run an agent until it needs people. Return its result, or a PausedRun for `resume`."""
        from agents import Runner  # noqa: PLC0415 (the vendor)

        result = await Runner.run(agent, given, **run)
        if not result.interruptions:
            return result
        return await self._settle(agent, result.to_state(), _name_session(run), 0.0, run)

    async def resume(
        self, agent: Any, paused: PausedRun, *, timeout: float = 0.0, **run: Any
    ) -> Any:
        """Continue a run in any process. Return its result, or a PausedRun if a decision is missing
        after `timeout` seconds. Raises Aborted if a person aborts the run."""
        from agents import RunState  # noqa: PLC0415 (the vendor)

        state = await RunState.from_json(agent, paused.state)
        return await self._settle(agent, state, paused.session, timeout, run)

    async def _settle(
        self, agent: Any, state: Any, session: str | None, timeout: float, run: dict[str, Any]
    ) -> Any:
        while items := state.get_interruptions():
            calls, kept = self._calls(items), state.to_json()
            outcomes = await self._gate.settle(calls, session, kept, timeout=timeout)
            if isinstance(outcomes, PausedRun):
                return outcomes
            result = await self._send(agent, state, items, outcomes, run)
            if not result.interruptions:
                return result
            state = result.to_state()
        raise GatewayError("this run has no pending approvals")

    def _calls(self, items: Sequence[Any]) -> list[FrameworkCall]:
        known = self._gated
        return [_call(one.name, one.arguments, one.call_id, known.get(one.name)) for one in items]

    async def _send(
        self,
        agent: Any,
        state: Any,
        items: Sequence[Any],
        outcomes: Sequence[Outcome],
        run: dict[str, Any],
    ) -> Any:
        """Resume a run with the answers to all its interruptions."""
        from agents import Runner  # noqa: PLC0415 (the vendor)

        for item, outcome in zip(items, outcomes, strict=True):
            if outcome.runs:
                self._approved[item.name, item.call_id] = outcome.arguments or {}
                state.approve(item)
            else:
                state.reject(item, rejection_message=tell(item.name, outcome))
        return await Runner.run(agent, state, **run)


def _name_session(run: dict[str, Any]) -> str:
    """Return the session of a run: the session of the SDK's history, else of the context or the
    run."""
    known = getattr(run.get("session"), "session_id", None) or run.get("conversation_id")
    return known if isinstance(known, str) and known else session_of_run()


def _call(
    name: str, arguments: str | None, call_id: str | None, schema: JsonObject | None = None
) -> FrameworkCall:
    """Return a call of the SDK. People can edit the call only if its `schema` is known."""
    try:
        read = json.loads(arguments or "{}")
    except ValueError:
        read = None
    return FrameworkCall(
        tool=name,
        arguments=read if isinstance(read, dict) else {"input": arguments},
        call_id=call_id,
        allowed=ALLOWED if schema is not None else UNEDITED,
        schema=schema,
    )
