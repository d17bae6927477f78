"""What Codex writes to its hooks, and how it is answered: much as Claude Code, and stricter.

Codex skips a hook that nobody trusted, silently, and runs the tool. It takes no change of a call in
PermissionRequest, and no stop of the turn: an answer that holds one is thrown away whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gateway.integrations.coding_agents.claude_code import ClaudeCode
from gateway.integrations.coding_agents.hook import HookCall, HookOutput, HookVerdict


class Codex(ClaudeCode):
    """Codex's hooks."""

    host = "codex"
    turn = "turn_id"
    kinds: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("Bash", "shell", "exec_command", "local_shell"), "command"),
        "apply_patch": "file_change",
    }

    def offer(self, found: HookCall) -> None:
        """Leave out what Codex cannot do."""
        found.allowed = ["approve", "deny"] if found.asks_itself else ["approve", "edit", "deny"]

    def answer(self, call: HookCall, verdict: HookVerdict) -> HookOutput:
        """Return what tells Codex. An approval of the call as it is is no answer: Codex takes an
        `allow` without a change for a mistake of the hook."""
        if verdict.kind == "approved" and verdict.arguments is None and not call.asks_itself:
            return HookOutput(0)
        return super().answer(call, verdict)


DIALECT = Codex()
