"""Read the input of Copilot CLI's preToolUse hook, and write the reply. The reply is always on
standard output, because Copilot CLI's documentation does not define exit codes."""

from __future__ import annotations

from typing import Any

from gateway.integrations.coding_agents.hook import (
    HookCall,
    HookOutput,
    HookVerdict,
    HostProtocol,
    arguments,
    text,
)
from gateway.wire.canonical_json import parse

_KINDS = {
    "bash": "command",
    **dict.fromkeys(("create", "edit", "str_replace", "write"), "file_change"),
}


class CopilotCli(HostProtocol):
    """The hook of Copilot CLI."""

    host = "copilot"
    timeout = 20.0  # Copilot CLI allows 30

    def read(self, call: dict[str, Any]) -> HookCall:
        """Return the call in the input of the hook. Raises InvalidRequest if it is malformed."""
        tool = text(call, "toolName", needed=True) or ""
        given = call.get("toolArgs")
        if isinstance(given, str):
            call = {**call, "toolArgs": parse(given.encode())}
        found = HookCall(
            event="preToolUse",
            tool=tool,
            arguments=arguments(call, "toolArgs"),
            cwd=text(call, "cwd"),
            session=text(call, "sessionId"),
        )
        found.kind = _KINDS.get(tool, "tool")
        found.allowed = ["approve", "edit", "deny"]
        return found

    def answer(self, call: HookCall, verdict: HookVerdict) -> HookOutput:
        """Return the output that tells Copilot CLI how the call ended."""
        if verdict.kind == "approved":
            changed = {} if verdict.arguments is None else {"modifiedArgs": verdict.arguments}
            return HookOutput(0, {"permissionDecision": "allow", **changed})
        denied = {"permissionDecision": "deny", "permissionDecisionReason": verdict.sentence}
        return HookOutput(0, denied, verdict.sentence)

    def refuse(self, why: str) -> HookOutput:
        """Return a denial for Copilot CLI, with the reason why nobody could be asked."""
        denied = {"permissionDecision": "deny", "permissionDecisionReason": why}
        return HookOutput(0, denied, why)


DIALECT = CopilotCli()
