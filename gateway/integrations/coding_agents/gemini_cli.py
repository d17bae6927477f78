"""Read the input of Gemini CLI's BeforeTool hook, and write the reply. Gemini CLI gives calls no
ids. If the hook fails, is late, or prints an invalid reply, it runs the tool."""

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
    """The hook of Gemini CLI."""

    host = "gemini"
    timeout = 45.0  # Gemini CLI allows 60

    def read(self, call: dict[str, Any]) -> HookCall:
        """Return the call in the input of the hook. Raises InvalidRequest if it is malformed."""
        if call.get("hook_event_name") != _EVENT:
            raise InvalidRequest(f"the hook of {self.host} is only for the event {_EVENT}")
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
        """Return the exit code and output that tell Gemini CLI how the call ended."""
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
        return HookOutput(BLOCKED, error=verdict.sentence)  # the model gets this text


DIALECT = GeminiCli()
