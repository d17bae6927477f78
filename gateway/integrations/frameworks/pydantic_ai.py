"""Pydantic AI: its deferred tools are approved by people, within the run or in another process.

What needs approval is said in Pydantic AI's own way: `requires_approval=True` of a tool,
`ApprovalRequired` raised by one, or `toolset.approval_required(…)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.client import Client, Outcome
from gateway.errors import GatewayError
from gateway.integrations.frameworks.calls import (
    FrameworkCall,
    FrameworkGate,
    PausedRun,
    name_decider,
    tell,
)


class DeferredTools:
    """Has people answer the deferred tools of agents. `details` are keywords of `client.request`,
    such as `timeout`.

    A person's abort raises Aborted out of the run; every other refusal is told to the model.
    """

    def __init__(self, *, client: Client | None = None, **details: Any) -> None:
        self._gate = FrameworkGate("pydantic-ai-slim", client, details)

    def inline(self) -> Any:
        """Return a capability that asks for each batch of calls and waits: for
        `Agent(capabilities=[…])`."""
        from pydantic_ai.capabilities import HandleDeferredToolCalls  # noqa: PLC0415 (the vendor)

        return HandleDeferredToolCalls(handler=self._answer)

    async def begin(self, agent: Any, prompt: Any, **run: Any) -> Any:
        """Run an agent until it has its result, or PausedRun until people must answer.

        Its `output_type` has `DeferredToolRequests`. `run` are keywords of `agent.run`.
        """
        return await self._go_on(agent, await agent.run(prompt, **run), 0.0, run)

    async def resume(
        self, agent: Any, paused: PausedRun, *, timeout: float = 0.0, **run: Any
    ) -> Any:
        """Go on in any process, and return what `begin` returns: the same one where somebody has
        not answered within `timeout` seconds. Raises Aborted where a person stops the run.

        What runs is what people were asked about, whatever was kept, and once.
        """
        from pydantic_ai import ModelMessagesTypeAdapter  # noqa: PLC0415 (the vendor)

        messages = ModelMessagesTypeAdapter.validate_python(paused.state["messages"])
        requests = _find_requests(messages, paused.state["metadata"])
        return await self._settle(agent, messages, requests, timeout, run)

    async def _answer(self, context: Any, requests: Any) -> Any:
        """Answer the calls that need approval; what is to run elsewhere is left to others."""
        if not requests.approvals:
            return None
        outcomes = await self._gate.ask(_calls(requests), context.conversation_id)
        return _results(requests, outcomes)

    async def _go_on(self, agent: Any, result: Any, timeout: float, run: dict[str, Any]) -> Any:
        from pydantic_ai import DeferredToolRequests  # noqa: PLC0415 (the vendor)

        if not isinstance(result.output, DeferredToolRequests):
            return result
        return await self._settle(agent, result.all_messages(), result.output, timeout, run)

    async def _settle(
        self, agent: Any, messages: list[Any], requests: Any, timeout: float, run: dict[str, Any]
    ) -> Any:
        from pydantic_ai import ModelMessagesTypeAdapter  # noqa: PLC0415 (the vendor)

        if requests.calls:
            raise GatewayError("a call that is to run elsewhere is no approval: answer it yourself")
        state = {
            "messages": ModelMessagesTypeAdapter.dump_python(messages, mode="json"),
            "metadata": {one.tool_call_id: _why(requests, one) for one in requests.approvals},
        }
        session = messages[-1].conversation_id
        outcomes = await self._gate.settle(_calls(requests), session, state, timeout=timeout)
        if isinstance(outcomes, PausedRun):
            return outcomes
        results = _results(requests, outcomes)
        again = await agent.run(message_history=messages, deferred_tool_results=results, **run)
        return await self._go_on(agent, again, timeout, run)


def _find_requests(messages: list[Any], metadata: dict[str, Any]) -> Any:
    """Return the calls that a run was paused for, from what was kept."""
    from pydantic_ai import DeferredToolRequests, ToolCallPart  # noqa: PLC0415 (the vendor)

    parts = [one for message in messages for one in message.parts if isinstance(one, ToolCallPart)]
    waiting = {one.tool_call_id: one for one in parts if one.tool_call_id in metadata}
    return DeferredToolRequests(approvals=list(waiting.values()), metadata=metadata)


def _calls(requests: Any) -> list[FrameworkCall]:
    """Return what the model calls; what a tool says of its own call is a hint."""
    return [
        FrameworkCall(
            tool=one.tool_name,
            arguments=one.args_as_dict(),
            call_id=one.tool_call_id,
            hint="; ".join(f"{name}: {said}" for name, said in _why(requests, one).items()),
        )
        for one in requests.approvals
    ]


def _why(requests: Any, part: Any) -> dict[str, Any]:
    """Return what a tool says of its own call."""
    return dict(requests.metadata.get(part.tool_call_id) or {})


def _results(requests: Any, outcomes: Sequence[Outcome]) -> Any:
    """Return Pydantic AI's answer to a batch: with who decided, and the request of each call."""
    from pydantic_ai import ToolApproved, ToolDenied  # noqa: PLC0415 (the vendor)

    pairs = [
        (one.tool_call_id, one.tool_name, how)
        for one, how in zip(requests.approvals, outcomes, strict=True)
    ]
    return requests.build_results(
        approvals={
            call: ToolApproved(override_args=how.arguments)
            if how.runs
            else ToolDenied(tell(tool, how))
            for call, tool, how in pairs
        },
        answered_by={call: name_decider(how) for call, _, how in pairs},
        metadata={
            call: {"request_id": how.decision.request_id} for call, _, how in pairs if how.decision
        },
    )
