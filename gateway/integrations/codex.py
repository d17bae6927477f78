"""What Codex writes to its hooks, and how it is answered: much as Claude Code, and stricter.

Codex skips a hook that nobody trusted, silently, and runs the tool. It takes no change of a call in
PermissionRequest, and no stop of the turn: an answer that holds one is thrown away whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gateway.integrations.claude_code import ClaudeCode
from gateway.integrations.hook_call import HookCall


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


DIALECT = Codex()
