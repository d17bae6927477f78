"""Read the input of Codex's hooks, and write the reply. The format is a stricter form of Claude
Code's.

Codex silently skips a hook that is not trusted, and runs the tool. In PermissionRequest, Codex
discards a reply with changed arguments or a stop of the turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gateway.integrations.coding_agents.claude_code import ClaudeCode
from gateway.integrations.coding_agents.hook import HookCall, HookOutput, HookVerdict


class Codex(ClaudeCode):
    """The hooks of Codex."""

    host = "codex"
    turn = "turn_id"
    kinds: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("Bash", "shell", "exec_command", "local_shell"), "command"),
        "apply_patch": "file_change",
    }

    def offer(self, found: HookCall) -> None:
        """Set the actions that Codex supports."""
        found.allowed = ["approve", "deny"] if found.asks_itself else ["approve", "edit", "deny"]

    def answer(self, call: HookCall, verdict: HookVerdict) -> HookOutput:
        """Return the exit code and output for Codex. An approval without changes has no output,
        because Codex treats an `allow` without a change as an error of the hook."""
        if verdict.kind == "approved" and verdict.arguments is None and not call.asks_itself:
            return HookOutput(0)
        return super().answer(call, verdict)


DIALECT = Codex()
