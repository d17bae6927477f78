"""LangChain and LangGraph: let people answer the interrupts of a graph. Start at `Interrupts`.

The graph interrupts itself with `HumanInTheLoopMiddleware` in either mode, or with `interrupt`. The
graph's checkpointer saves the state, so any process can `resume` the thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gateway.client import Client, Outcome, OutcomeKind
from gateway.errors import GatewayError, InvalidRequest
from gateway.integrations.frameworks.calls import FrameworkCall, FrameworkGate, PausedRun, tell
from gateway.models import Action
from gateway.wire.codec import JsonObject

# The formats of LangGraph's interrupts, and the answer to each.
#
# Supported are both modes of LangChain's `HumanInTheLoopMiddleware`, the older format of its Agent
# Inbox, and any other value of a plain `interrupt`. The answer to that is True, False or a person's
# result. LangGraph saves an answer for good, so only answers that the format allows are sent.

_DECISIONS = {
    "approve": (Action.APPROVE,),
    "edit": (Action.EDIT,),
    "reject": (Action.DENY, Action.ABORT),
    "respond": (Action.RESPOND,),
}
_INBOX = {
    "allow_accept": (Action.APPROVE,),
    "allow_edit": (Action.EDIT,),
    "allow_ignore": (Action.DENY, Action.ABORT),
    "allow_respond": (Action.RESPOND, Action.DENY, Action.ABORT),
}
_PLAIN = (Action.APPROVE, Action.DENY, Action.RESPOND, Action.ABORT)
_BATCH = {"action_requests", "review_configs"}


class CannotBeTold(GatewayError):
    """The interrupt's format cannot express the outcome of the request. The thread stays
    interrupted."""


def read_calls(interrupt: Any) -> list[FrameworkCall]:
    """Return the calls in an interrupt, in order."""
    value, name = interrupt.value, interrupt.id
    if _is_batch(value):
        pairs = zip(value["action_requests"], value["review_configs"], strict=True)
        return [
            _review(one, config["allowed_decisions"], f"{name}:{number}")
            for number, (one, config) in enumerate(pairs)
        ]
    if _is_call(value):
        known = getattr(interrupt, "response_schema", None)
        decisions, schema = _read_schema(known if isinstance(known, dict) else {})
        return [_review(value, decisions, f"{name}:0", schema)]
    if letters := _letters(value):
        return [_letter(one, f"{name}:{number}") for number, one in enumerate(letters)]
    shown = value if isinstance(value, dict) else {"value": value}
    return [FrameworkCall(tool="interrupt", arguments=shown, call_id=f"{name}:0", allowed=_PLAIN)]


def answer(interrupt: Any, calls: Sequence[FrameworkCall], outcomes: Sequence[Outcome]) -> Any:
    """Return the value that resumes an interrupt. Raises CannotBeTold if its format has none."""
    pairs = list(zip(calls, outcomes, strict=True))
    if _is_batch(interrupt.value):
        return {"decisions": [_decide(*pair) for pair in pairs]}
    if _is_call(interrupt.value):
        return _decide(*pairs[0])
    if letters := _letters(interrupt.value):
        return [_reply(one["config"], *pair) for one, pair in zip(letters, pairs, strict=True)]
    [(_, outcome)] = pairs
    return outcome.result if outcome.kind is OutcomeKind.RESPONDED else outcome.runs


def _is_batch(value: Any) -> bool:
    return isinstance(value, dict) and set(value) >= _BATCH


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "tool_approval"


def _letters(value: Any) -> list[JsonObject]:
    """Return the requests in the format of the Agent Inbox, an empty list for another format."""
    found = value if isinstance(value, list) else [value]
    fits = all(isinstance(one, dict) and {"action_request", "config"} <= set(one) for one in found)
    return found if fits else []


def _review(
    asked: JsonObject, decisions: Iterable[str], call_id: str, schema: JsonObject | None = None
) -> FrameworkCall:
    """Return a call in the format of `HumanInTheLoopMiddleware`."""
    return FrameworkCall(
        tool=asked["name"],
        arguments=asked["args"],
        call_id=call_id,
        hint=asked.get("description", ""),
        allowed=_allow(_DECISIONS[one] for one in decisions),
        schema=schema,
    )


def _letter(asked: JsonObject, call_id: str) -> FrameworkCall:
    return FrameworkCall(
        tool=asked["action_request"]["action"],
        arguments=asked["action_request"]["args"],
        call_id=call_id,
        hint=asked.get("description") or "",
        allowed=_allow(_INBOX[name] for name, said in asked["config"].items() if said),
    )


def _allow(found: Iterable[tuple[Action, ...]]) -> tuple[Action, ...]:
    """Return the allowed actions. A person may always abort, because an abort needs no answer to
    the graph."""
    return tuple(dict.fromkeys([one for many in found for one in many] + [Action.ABORT]))


def _read_schema(schema: JsonObject) -> tuple[list[str], JsonObject | None]:
    """Return the decisions that a call allows, and the JSON Schema for its edited arguments."""
    named = {f"{one.capitalize()}Decision": one for one in _DECISIONS}
    parts = {**schema.get("$defs", {}), schema.get("title", ""): schema}
    edited = parts.get("EditedAction", {}).get("properties", {}).get("args")
    fitting = {**edited, "$defs": schema["$defs"]} if edited else None
    return [one for name, one in named.items() if name in parts], fitting


def _decide(call: FrameworkCall, outcome: Outcome) -> JsonObject:
    """Return an outcome in the format of `HumanInTheLoopMiddleware`."""
    if outcome.kind is OutcomeKind.APPROVED:
        return {"type": "approve"}
    if outcome.kind is OutcomeKind.EDITED:
        return {
            "type": "edit",
            "edited_action": {"name": call.tool, "args": outcome.arguments},
        }
    responded = outcome.kind is OutcomeKind.RESPONDED
    if not responded and Action.DENY not in call.allowed:
        raise CannotBeTold(f"the interrupt does not allow a rejection: {tell(call.tool, outcome)}")
    return {"type": "respond" if responded else "reject", "message": tell(call.tool, outcome)}


def _reply(config: JsonObject, call: FrameworkCall, outcome: Outcome) -> JsonObject:
    """Return an outcome in the format of the Agent Inbox."""
    if outcome.kind is OutcomeKind.APPROVED:
        return {"type": "accept", "args": None}
    if outcome.kind is OutcomeKind.EDITED:
        return {"type": "edit", "args": {"action": call.tool, "args": outcome.arguments}}
    if config.get("allow_respond"):
        return {"type": "response", "args": tell(call.tool, outcome)}
    if not config.get("allow_ignore"):
        raise CannotBeTold(f"the interrupt does not allow a rejection: {tell(call.tool, outcome)}")
    return {"type": "ignore", "args": None}


class Interrupts:
    """Let people answer the interrupts of graphs. `details` are keywords of `client.request`.

    If a person aborts, Aborted is raised and the thread stays interrupted. Other refusals are
    passed to the graph in the format of its interrupt.
    """

    def __init__(self, *, client: Client | None = None, **details: Any) -> None:
        self._gate = FrameworkGate("langgraph", client, details)

    async def invoke(self, graph: Any, given: Any, config: Any, **run: Any) -> Any:
        """Run a thread to its end as `graph.ainvoke` does, and return its result. Waits for people
        at each interrupt. Raises Aborted if a person aborts."""
        result = await _check(graph).ainvoke(given, config, **run)
        while interrupts := (await graph.aget_state(config)).interrupts:
            calls = [call for one in interrupts for call in read_calls(one)]
            outcomes = await self._gate.ask(calls, _thread(config))
            result = await _send(graph, config, interrupts, outcomes, run)
        return result

    async def begin(self, graph: Any, given: Any, config: Any, **run: Any) -> Any:
        """Run a thread until it needs people. Return its result, or a PausedRun."""
        result = await _check(graph).ainvoke(given, config, **run)
        return await self._go_on(graph, config, result, 0.0, run)

    async def resume(self, graph: Any, config: Any, *, timeout: float = 0.0, **run: Any) -> Any:
        """Continue a thread in any process. Return the thread's values if it has ended, or a
        PausedRun if a decision is missing after `timeout` seconds.

        Raises Aborted if a person aborts. Raises GatewayError if an earlier resume of the thread
        did not finish, because its calls may have run.
        """
        state = await _check(graph).aget_state(config)
        if state.next and not state.interrupts:
            raise GatewayError(
                "this thread was resumed before and did not end: its calls may have run, so "
                "check before you continue it yourself"
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
    """Return the graph. Raises InvalidRequest if the graph cannot be resumed."""
    if not getattr(graph, "checkpointer", None):
        raise InvalidRequest("a graph without a checkpointer cannot be resumed: give it one")
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
