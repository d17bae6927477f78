"""`gateway ask --hook`: what a host's hook before a tool reads and writes.

These hosts run the tool when a hook fails, and take exit code 2 alone as a refusal. So everything
that is not an approval ends with 2.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from gateway.errors import InvalidRequest
from gateway.wire.identifiers import SESSION_NAME

BLOCKED = 2
TIMEOUTS = {"claude-code": 540.0, "codex": 540.0, "gemini": 45.0}
"""Seconds, by host: less than the host's own limit (600, 600 and 60 s unless its settings say
otherwise), after which it runs the tool."""

_EVENTS = {"claude-code": "PreToolUse", "codex": "PreToolUse", "gemini": "BeforeTool"}


class HostHook:
    """One call of a host's tool, and how the host is answered."""

    def __init__(self, host: str, call: dict[str, Any]) -> None:
        self._host = host
        self.tool: str = call["tool_name"]
        self.arguments: dict[str, Any] = call["tool_input"]
        self.cwd: str = call.get("cwd") or os.getcwd()  # noqa: PTH109 (as in `gateway ask`)
        session = str(call.get("session_id"))
        self.session = session if SESSION_NAME.fullmatch(session) else "default"

    def answer(self, approved: bool, sentence: str, edited: dict[str, Any] | None) -> int:
        """Tell the host; return the exit code."""
        if not approved:
            sys.stderr.write(f"{sentence}\n")  # which it gives to the model
            return BLOCKED
        if self._host == "gemini":
            told: dict[str, Any] = {"decision": "allow", "reason": sentence}
            if edited is not None:
                told["hookSpecificOutput"] = {"tool_input": edited}
        else:
            output = {
                "hookEventName": _EVENTS[self._host],
                "permissionDecision": "allow",
                "permissionDecisionReason": sentence,
            }
            changed = {} if edited is None else {"updatedInput": edited}
            told = {"hookSpecificOutput": {**output, **changed}}
        sys.stdout.write(f"{json.dumps(told)}\n")
        sys.stdout.flush()
        return 0


def named(argv: Sequence[str]) -> bool:
    """Whether a command line asks to run as a host's hook, however wrong the rest of it is."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    options = (word.partition("=")[0] for word in own)
    return any(len(one) >= len("--ho") and "--hook".startswith(one) for one in options)


def run_blocking(run: Callable[[], int]) -> int:
    """Run a hook; whatever goes wrong, the host is told to block."""
    try:
        return 0 if run() == 0 else BLOCKED
    except BaseException as error:  # that a person stopped it is no leave either
        if not isinstance(error, SystemExit):
            sys.stderr.write(f"gateway ask: {type(error).__name__}: {error}\n")
        return BLOCKED


def read(host: str, source: TextIO) -> HostHook:
    """Read the call that a host writes to its hook. Raises InvalidRequest."""
    try:
        call = json.load(source)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{host} wrote no JSON to its hook: {error}") from error
    fits = (
        isinstance(call, dict)
        and call.get("hook_event_name") == _EVENTS[host]
        and isinstance(call.get("tool_name"), str)
        and isinstance(call.get("tool_input"), dict)
        and isinstance(call.get("cwd") or "", str)
    )
    if not fits:
        raise InvalidRequest(f"that is no call of {host}'s {_EVENTS[host]} hook")
    return HostHook(host, call)
