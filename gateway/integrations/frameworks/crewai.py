"""CrewAI: gate each tool call of every crew in this process. Start at `ask_people`.

CrewAI runs the tool if a hook raises, so the hooks here never raise. A tool hook cannot end a run.
So after an abort, the crew stops when it calls the model next. The parallel calls of a turn, each
in a separate thread, form one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.client import Client
from gateway.errors import Aborted
from gateway.integrations.frameworks.calls import (
    ALONE,
    FrameworkCall,
    FrameworkGate,
    ThreadTurnGate,
    Turn,
    tell,
)


def ask_people(*, client: Client | None = None, **details: Any) -> Callable[[], None]:
    """Register the hooks, and return a function that removes them. `details` are keywords of
    `client.request`. Call this after you register other hooks, because a later hook could change an
    approved call."""
    from crewai.hooks import (  # noqa: PLC0415 (the vendor)
        register_after_tool_call_hook,
        register_before_llm_call_hook,
        register_before_tool_call_hook,
        unregister_after_tool_call_hook,
        unregister_before_llm_call_hook,
        unregister_before_tool_call_hook,
    )

    hooks = _Hooks(FrameworkGate("crewai", client, details))
    register_before_tool_call_hook(hooks.before_tool)
    register_after_tool_call_hook(hooks.after_tool)
    register_before_llm_call_hook(hooks.before_model)

    def stop() -> None:
        unregister_before_tool_call_hook(hooks.before_tool)
        unregister_after_tool_call_hook(hooks.after_tool)
        unregister_before_llm_call_hook(hooks.before_model)

    return stop


class _Hooks:
    """The hooks of one gate. `_told` contains texts about blocked calls, `_stopped` aborted runs.
    The keys are ids of objects, and the values refer to these objects to keep them alive."""

    def __init__(self, gate: FrameworkGate) -> None:
        self._gate = ThreadTurnGate(gate)
        self._told: dict[int, tuple[Any, str]] = {}
        self._stopped: dict[int, tuple[Any, str]] = {}

    def before_tool(self, context: Any) -> bool | None:
        """Return False for a call that must not run, None for a call that may run. Never raises."""
        words: str | None = "the call was not run, because its gate failed"
        try:
            words = self._ask(context)
        except Exception as error:  # CrewAI would run the tool
            words = f"the call was not run: {type(error).__name__}: {error}"
        if words is None:
            return None
        self._told[id(context.tool_input)] = context.tool_input, words
        return False

    def after_tool(self, context: Any) -> str | None:
        """Return the text for the model about a blocked call, None for other calls."""
        kept = self._told.pop(id(context.tool_input), None)
        return kept[1] if kept else None

    def before_model(self, context: Any) -> None:
        """If a person aborted, end the run of the crew, or of an agent without a crew."""
        from crewai.hooks.dispatch import HookAborted  # noqa: PLC0415 (the vendor)

        if kept := self._stopped.pop(id(context.crew or context.agent), None):
            raise HookAborted(reason=kept[1])

    def _ask(self, context: Any) -> str | None:
        """If a call may run, set its arguments to the approved ones and return None. Otherwise
        return the reason."""
        call = FrameworkCall(
            tool=context.tool_name,
            arguments=dict(context.tool_input),
            hint=str(getattr(context.task, "name", None) or ""),
        )
        try:
            outcome = self._gate.ask(call, _find_turn(context))
        except Aborted as stopped:
            run = context.crew or context.agent
            self._stopped[id(run)] = run, str(stopped)
            return f"{call.tool} was not run: {stopped}"
        if not outcome.runs:
            return tell(call.tool, outcome)
        approved = dict(outcome.arguments or {})
        context.tool_input.clear()
        context.tool_input.update(approved)
        return None


def _find_turn(context: Any) -> Turn:
    """Return the turn of a call: the last message of the agent's run that contains tool calls."""
    executor = getattr(context.agent, "agent_executor", None)
    for message in reversed(getattr(executor, "messages", ())):
        if calls := message.get("tool_calls"):
            return Turn((id(executor), id(message)), len(calls))
    return ALONE
