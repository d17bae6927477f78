"""smolagents: gate each tool call and each piece of code of an agent. Start at `ask_people`.

smolagents has no approval hook. So this module wraps an agent's `execute_tool_call`, or the
executor of a CodeAgent.
"""

from __future__ import annotations

import ast
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

_HARMLESS = "final_answer"
_CODE = "python_interpreter"


def ask_people(agent: Any, *, client: Client | None = None, **details: Any) -> Any:
    """Gate an agent and the agents that it manages, and return it. `details` are keywords of
    `client.request`. The call of a managed agent needs no approval, but the calls that this agent
    makes do."""
    return _wrap(agent, FrameworkGate("smolagents", client, details))


def _wrap(agent: Any, gate: FrameworkGate) -> Any:
    for managed in agent.managed_agents.values():
        _wrap(managed, gate)
    if hasattr(agent, "execute_tool_call"):
        agent.execute_tool_call = asking = _AskingCalls(agent, gate)
        agent.process_tool_calls = asking.note_turn(agent.process_tool_calls)
    else:
        agent.python_executor = _AskingExecutor(agent, gate)
    return agent


class _AskingCalls:
    """Replaces the `execute_tool_call` of a ToolCallingAgent, and asks before each call."""

    def __init__(self, agent: Any, gate: FrameworkGate) -> None:
        self._agent, self._gate, self._run = agent, ThreadTurnGate(gate), agent.execute_tool_call
        self._turn = ALONE

    def note_turn(self, process: Any) -> Any:
        """Wrap the agent's `process_tool_calls`, to count the gated calls of each turn."""

        def process_noted(message: Any, step: Any) -> Any:
            names = [one.function.name for one in message.tool_calls or ()]
            self._turn = Turn(object(), sum(map(self._asks, names)) or 1)
            return process(message, step)

        return process_noted

    def __call__(self, tool_name: str, arguments: Any) -> Any:
        """Run a call after approval, or return the reason why it did not run. Raises Aborted."""
        if not self._asks(tool_name):
            return self._run(tool_name, arguments)
        shown = self._put_variables(arguments)  # so that people see the real values
        named = isinstance(shown, dict)
        call = FrameworkCall(tool=tool_name, arguments=shown if named else {"input": shown})
        outcome = self._gate.ask(call, self._turn)
        if not outcome.runs or outcome.arguments is None:
            return tell(tool_name, outcome)
        approved = outcome.arguments if named else outcome.arguments.get("input")
        if self._put_variables(approved) != approved:
            return f"{tool_name} was not run: an argument is the name of a variable of the agent"
        return self._run(tool_name, approved)

    def _asks(self, tool_name: str) -> bool:
        return tool_name != _HARMLESS and tool_name not in self._agent.managed_agents

    def _put_variables(self, arguments: Any) -> Any:
        return self._agent._substitute_state_variables(arguments)


class _AskingExecutor:
    """Replaces the executor of a CodeAgent, and asks before each piece of code."""

    def __init__(self, agent: Any, gate: FrameworkGate) -> None:
        self._agent, self._gate, self._executor = agent, gate, agent.python_executor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def __call__(self, code_action: str) -> Any:
        """Run code after approval, or return the reason why it did not run. An abort stops the
        agent."""
        from smolagents.local_python_executor import CodeOutput  # noqa: PLC0415 (the vendor)

        if self._only_answers(code_action):
            return self._executor(code_action)
        call = FrameworkCall(tool=_CODE, arguments={"code": code_action})
        try:
            [outcome] = self._gate.ask_blocking([call])
        except Aborted as stopped:
            self._agent.interrupt()  # an exception would only reach the model, which goes on
            return CodeOutput(output=None, logs=f"not run: {stopped}", is_final_answer=False)
        code = (outcome.arguments or {}).get("code")
        if outcome.runs and isinstance(code, str):
            return self._executor(code)
        return CodeOutput(output=None, logs=tell(_CODE, outcome), is_final_answer=False)

    def _only_answers(self, code: str) -> bool:
        """Return whether code only returns constants as the final answer, and no earlier code has
        redefined `final_answer`."""
        known = getattr(self._executor, "state", None)
        if not isinstance(known, dict) or _HARMLESS in known:
            return False
        try:
            [statement] = ast.parse(code).body
        except (SyntaxError, ValueError):
            return False
        match statement:
            case ast.Expr(ast.Call(ast.Name(name), given, [])):
                return name == _HARMLESS and all(isinstance(one, ast.Constant) for one in given)
        return False
