"""Read the input of Cursor's hooks, and write the reply, a flat object. Exit code 2 blocks the
tool."""

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
from gateway.wire.canonical_json import parse

_TOOL, _SHELL, _MCP = "preToolUse", "beforeShellExecution", "beforeMCPExecution"
_KINDS = {"Shell": "command", **dict.fromkeys(("Write", "Edit", "Delete"), "file_change")}


class Cursor(HostProtocol):
    """The hooks of Cursor before a tool, a command, and a tool of an MCP server."""

    host = "cursor"
    timeout = 50.0  # Cursor allows 60

    def read(self, call: dict[str, Any]) -> HookCall:
        """Return the call in the input of a hook. Raises InvalidRequest if it is malformed."""
        event = text(call, "hook_event_name", needed=True) or ""
        if event == _SHELL:
            tool = "Shell"
            given: dict[str, Any] = {"command": text(call, "command", needed=True)}
        elif event in (_TOOL, _MCP):
            tool = text(call, "tool_name", needed=True) or ""
            given = _read_input(call)
        else:
            raise InvalidRequest(f"unknown event {event!r} of {self.host}")
        found = HookCall(
            event=event,
            tool=tool,
            arguments=given,
            cwd=text(call, "cwd") or _first_root(call),
            session=text(call, "conversation_id"),
            call_id=text(call, "tool_use_id"),
        )
        found.turn = text(call, "generation_id")
        found.kind = _KINDS.get(tool, "tool")
        found.allowed = ["approve", "edit", "deny"] if event == _TOOL else ["approve", "deny"]
        return found

    def answer(self, call: HookCall, verdict: HookVerdict) -> HookOutput:
        """Return the exit code and output for Cursor, with a message for the person and the
        model."""
        if verdict.kind == "approved":
            changed = {} if verdict.arguments is None else {"updated_input": verdict.arguments}
            return HookOutput(0, {"permission": "allow", **changed})
        words = {"user_message": verdict.sentence, "agent_message": verdict.sentence}
        return HookOutput(BLOCKED, {"permission": "deny", **words}, verdict.sentence)


def _read_input(call: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool. For MCP tools, Cursor sends the arguments as a JSON
    string."""
    if not isinstance(call.get("tool_input"), str):
        return arguments(call, "tool_input")
    return arguments({"tool_input": parse(call["tool_input"].encode())}, "tool_input")


def _first_root(call: dict[str, Any]) -> str | None:
    roots = call.get("workspace_roots")
    return text({"root": roots[0]}, "root") if isinstance(roots, list) and roots else None


DIALECT = Cursor()
