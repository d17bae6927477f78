"""What Copilot CLI writes to its hook preToolUse, and how it is answered: always by a decision on
standard output, for its documents promise nothing of exit codes."""

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
    """Copilot CLI's hook."""

    host = "copilot"
    timeout = 20.0  # of 30

    def read(self, call: dict[str, Any]) -> HookCall:
        """Return what Copilot CLI wrote. Raises InvalidRequest."""
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
        """Return what tells Copilot CLI."""
        if verdict.kind == "approved":
            changed = {} if verdict.arguments is None else {"modifiedArgs": verdict.arguments}
            return HookOutput(0, {"permissionDecision": "allow", **changed})
        denied = {"permissionDecision": "deny", "permissionDecisionReason": verdict.sentence}
        return HookOutput(0, denied, verdict.sentence)

    def refuse(self, why: str) -> HookOutput:
        """Return what tells Copilot CLI that nothing could be asked."""
        denied = {"permissionDecision": "deny", "permissionDecisionReason": why}
        return HookOutput(0, denied, why)


DIALECT = CopilotCli()
