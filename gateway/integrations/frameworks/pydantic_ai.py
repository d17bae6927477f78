"""Pydantic AI: let people decide its deferred tools. Start at `DeferredTools`.

Mark the tools as usual: with `requires_approval=True`, by raising `ApprovalRequired`, or with
`toolset.approval_required(…)`.
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
    """Let people decide the deferred tools of agents, and continue a run in any process. `details`
    are keywords of `client.request`, such as `timeout`.

    If a person aborts, the run raises Aborted. Other refusals are passed to the model.
    """

    def __init__(self, *, client: Client | None = None, **details: Any) -> None:
        self._gate = FrameworkGate("pydantic-ai-slim", client, details)

    def inline(self) -> Any:
        """Return a capability for `Agent(capabilities=[…])`. The capability asks for each batch of
        calls, and waits within the run."""
        from pydantic_ai.capabilities import HandleDeferredToolCalls  # noqa: PLC0415 (the vendor)

        return HandleDeferredToolCalls(handler=self._answer)

    async def begin(self, agent: Any, prompt: Any, **run: Any) -> Any:
        """Run an agent until it needs people. Return its result, or a PausedRun for `resume`.

        The agent's `output_type` must include `DeferredToolRequests`. `run` are keywords of
        `agent.run`.
        """
        return await self._go_on(agent, await agent.run(prompt, **run), 0.0, run)

    async def resume(
        self, agent: Any, paused: PausedRun, *, timeout: float = 0.0, **run: Any
    ) -> Any:
        """Continue a run in any process. Return its result, or a PausedRun if a decision is missing
        after `timeout` seconds. Raises Aborted if a person aborts the run.

        Only approved calls run, and only once, even if the saved state has been changed.
        """
        from pydantic_ai import ModelMessagesTypeAdapter  # noqa: PLC0415 (the vendor)

        messages = ModelMessagesTypeAdapter.validate_python(paused.state["messages"])
        requests = _find_requests(messages, paused.state["metadata"])
        return await self._settle(agent, messages, requests, timeout, run)

    async def _answer(self, context: Any, requests: Any) -> Any:
        """Answer the calls that need approval. Calls to external tools are left to other
        handlers."""
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
            raise GatewayError("the run has external calls, which nobody can approve: answer them")
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
    """Return the pending calls of a paused run, from its saved messages."""
    from pydantic_ai import DeferredToolRequests, ToolCallPart  # noqa: PLC0415 (the vendor)

    parts = [one for message in messages for one in message.parts if isinstance(one, ToolCallPart)]
    waiting = {one.tool_call_id: one for one in parts if one.tool_call_id in metadata}
    return DeferredToolRequests(approvals=list(waiting.values()), metadata=metadata)


def _calls(requests: Any) -> list[FrameworkCall]:
    """Return the model's calls. Metadata that a tool gives for a call becomes the hint."""
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
    """Return the metadata that a tool gave for its call."""
    return dict(requests.metadata.get(part.tool_call_id) or {})


def _results(requests: Any, outcomes: Sequence[Outcome]) -> Any:
    """Return the results of a batch for Pydantic AI, with the decider and request id of each."""
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
