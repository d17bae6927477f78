"""CrewAI: a hook asks people before each tool call of every crew in this process.

CrewAI runs the tool when a hook raises, so nothing here does; and it ends no run for what a hook of
a tool says, so an abort stops the crew at its next question to the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.client import Client
from gateway.errors import Aborted
from gateway.integrations.framework_calls import FrameworkCall, FrameworkGate, tell


def ask_people(*, client: Client | None = None, **details: Any) -> Callable[[], None]:
    """Register the hooks; return what takes them out again. `details` are keywords of
    `client.request`. Register it last: a hook after it may change what was approved."""
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
    """The hooks of one gate, and what they must tell of the calls that they blocked."""

    def __init__(self, gate: FrameworkGate) -> None:
        self._gate = gate
        self._told: list[tuple[Any, str]] = []
        self._stopped: list[tuple[Any, str]] = []

    def before_tool(self, context: Any) -> bool | None:
        """Return False for a call that must not run, whatever happens."""
        words: str | None = "the call was not run: its gate failed"
        try:
            words = self._ask(context)
        except Exception as error:  # CrewAI would run the tool
            words = f"the call was not run: {type(error).__name__}: {error}"
        if words is None:
            return None
        self._told.append((context.tool_input, words))
        return False

    def after_tool(self, context: Any) -> str | None:
        """Return what the model is told of a call that was blocked."""
        for kept in self._told:
            if kept[0] is context.tool_input:
                self._told.remove(kept)
                return kept[1]
        return None

    def before_model(self, context: Any) -> None:
        """End the run of a crew, or of an agent without one, that a person stopped."""
        from crewai.hooks.dispatch import HookAborted  # noqa: PLC0415 (the vendor)

        for kept in self._stopped:
            if kept[0] is (context.crew or context.agent):
                self._stopped.remove(kept)
                raise HookAborted(reason=kept[1])

    def _ask(self, context: Any) -> str | None:
        """Return None for a call that may run with its arguments, which are the approved ones then,
        else why it may not."""
        call = FrameworkCall(
            tool=context.tool_name,
            arguments=dict(context.tool_input),
            hint=str(getattr(context.task, "name", None) or ""),
        )
        try:
            [outcome] = self._gate.ask_blocking([call])
        except Aborted as stopped:
            self._stopped.append((context.crew or context.agent, str(stopped)))
            return f"{call.tool} was not run: {stopped}"
        if not outcome.runs:
            return tell(call.tool, outcome)
        approved = dict(outcome.arguments or {})
        context.tool_input.clear()
        context.tool_input.update(approved)
        return None
