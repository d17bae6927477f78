"""LangChain and LangGraph: what interrupts a graph is answered by people, here or elsewhere.

A graph interrupts itself as always: by `HumanInTheLoopMiddleware` in either mode, or `interrupt`.
Its checkpointer keeps what it needs to go on, so any process may `resume` its thread.
"""

from __future__ import annotations

from typing import Any

from gateway.client import Client, Outcome
from gateway.errors import GatewayError, InvalidRequest
from gateway.integrations.framework_calls import FrameworkCall, FrameworkGate, PausedRun
from gateway.integrations.langgraph_shapes import answer, read_calls


class Interrupts:
    """Has people answer the interrupts of graphs. `details` are keywords of `client.request`.

    A person's abort raises Aborted, and leaves the thread where it is; every other refusal is told
    to the graph, in the words of its own shape.
    """

    def __init__(self, *, client: Client | None = None, **details: Any) -> None:
        self._gate = FrameworkGate("langgraph", client, details)

    async def invoke(self, graph: Any, given: Any, config: Any, **run: Any) -> Any:
        """Run a thread to its end, as `graph.ainvoke` does, and wait for people meanwhile."""
        result = await _check(graph).ainvoke(given, config, **run)
        while interrupts := (await graph.aget_state(config)).interrupts:
            calls = [call for one in interrupts for call in read_calls(one)]
            outcomes = await self._gate.ask(calls, _thread(config))
            result = await _send(graph, config, interrupts, outcomes, run)
        return result

    async def begin(self, graph: Any, given: Any, config: Any, **run: Any) -> Any:
        """Run a thread until it has its result, or PausedRun until people must answer."""
        result = await _check(graph).ainvoke(given, config, **run)
        return await self._go_on(graph, config, result, 0.0, run)

    async def resume(self, graph: Any, config: Any, *, timeout: float = 0.0, **run: Any) -> Any:
        """Go on with a thread in any process, and return what `begin` returns: PausedRun where
        somebody has not answered within `timeout` seconds, the thread's values where it has ended.

        Raises Aborted where a person stops it, and GatewayError for a thread that was resumed
        before and died meanwhile: its calls may have run.
        """
        state = await _check(graph).aget_state(config)
        if state.next and not state.interrupts:
            raise GatewayError(
                "this thread was resumed before, and has not ended: its calls may have run, so "
                "look before you go on with it yourself"
            )
        return await self._go_on(graph, config, state.values, timeout, run)

    async def _go_on(self, graph: Any, config: Any, result: Any, timeout: float, run: Any) -> Any:
        while interrupts := (await graph.aget_state(config)).interrupts:
            calls = [call for one in interrupts for call in read_calls(one)]
            thread = _thread(config)
            outcomes = await self._gate.settle(
                calls, thread, {"thread_id": thread}, timeout=timeout
            )
            if isinstance(outcomes, PausedRun):
                return outcomes
            result = await _send(graph, config, interrupts, outcomes, run)
        return result


def _check(graph: Any) -> Any:
    """Return a graph that can be resumed. Raises InvalidRequest."""
    if not getattr(graph, "checkpointer", None):
        raise InvalidRequest("a graph without a checkpointer cannot go on once it has asked")
    return graph


def _thread(config: Any) -> str:
    return str(config["configurable"]["thread_id"])


async def _send(
    graph: Any, config: Any, interrupts: Any, outcomes: list[Outcome], run: dict[str, Any]
) -> Any:
    """Resume a thread with the answers to all its interrupts at once."""
    from langgraph.types import Command  # noqa: PLC0415 (the vendor)

    left, answers = list(outcomes), {}
    for one in interrupts:
        calls: list[FrameworkCall] = read_calls(one)
        own, left = left[: len(calls)], left[len(calls) :]
        answers[one.id] = answer(one, calls, own)
    return await graph.ainvoke(Command(resume=answers), config, **run)
