"""What Gemini CLI writes to its hook BeforeTool, and how it is answered. It has no ids of calls,
and runs the tool when its hook fails, is late, or prints what it cannot read."""

from __future__ import annotations

from typing import Any

from gateway.errors import InvalidRequest
from gateway.integrations.coding_agents.hook import (
    BLOCKED,
    HookCall,
    HookOutput,
    HookVerdict,
    HostProtocol,
    arguments,
    text,
)

_EVENT = "BeforeTool"
_KINDS = {
    "run_shell_command": "command",
    **dict.fromkeys(("write_file", "replace"), "file_change"),
}


class GeminiCli(HostProtocol):
    """Gemini CLI's hook."""

    host = "gemini"
    timeout = 45.0  # of 60

    def read(self, call: dict[str, Any]) -> HookCall:
        """Return what Gemini CLI wrote. Raises InvalidRequest."""
        if call.get("hook_event_name") != _EVENT:
            raise InvalidRequest(f"that is no call of {self.host}'s {_EVENT}")
        tool = text(call, "tool_name", needed=True) or ""
        found = HookCall(
            event=_EVENT,
            tool=tool,
            arguments=arguments(call, "tool_input"),
            cwd=text(call, "cwd"),
            session=text(call, "session_id"),
        )
        found.kind = _KINDS.get(tool, "tool")
        return found

    def answer(self, call: HookCall, verdict: HookVerdict) -> HookOutput:
        """Return what tells Gemini CLI."""
        if verdict.kind == "approved":
            told: dict[str, Any] = {"decision": "allow", "reason": verdict.sentence}
            if verdict.arguments is not None:
                told["hookSpecificOutput"] = {
                    "hookEventName": _EVENT,
                    "tool_input": verdict.arguments,
                }
            return HookOutput(0, told)
        if verdict.kind == "aborted":
            stop = {"continue": False, "stopReason": verdict.sentence}
            return HookOutput(0, {**stop, "decision": "deny", "reason": verdict.sentence})
        return HookOutput(BLOCKED, error=verdict.sentence)  # which it gives to the model


DIALECT = GeminiCli()
