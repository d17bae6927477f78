"""Claude Code's hooks by HTTP: the same words as of the command, without a process of ours between.

The gateway itself serves this. A tool runs after an answer that Claude Code cannot use, so each is
one of its decisions in a 200 answer, also where nobody could be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.integrations.claude_code import DIALECT, PRE, REQUEST, ClaudeCode
from gateway.integrations.hook_call import HookCall, HookVerdict, Said


class HttpCall:
    """One call that a host's hook was told of."""

    def __init__(self, dialect: ClaudeCode, call: HookCall) -> None:
        self._dialect, self._call = dialect, call
        self.closes = call.closes
        self.ends_turn = call.tool == "-"

    @property
    def mark(self) -> str:
        """How the ids of calls begin that have none of their own, and are asked about like this."""
        return f"{REQUEST}.{self._call.content}."

    def request(
        self, *, unknown: str, edit: bool = False, native_always: bool = False
    ) -> dict[str, Any]:
        """Return the members of the request that asks about it; `unknown` tells it from others
        where the host has no id for it."""
        call = self._call
        if not native_always:
            call.forget_rules()
        found = call.fields(self._dialect.host)
        if not edit:
            found["allowed"] = [one for one in call.allowed if one != "edit"]
        context = {"cwd": call.cwd} if call.cwd else {}
        call_id = call.unique_id or f"{call.event}.{call.content}.{unknown}"
        return {**found, "context": context, "call_id": call_id, "shows_number": False}

    def answer(
        self,
        kind: str,
        sentence: str,
        arguments: dict[str, Any] | None = None,
        answers: dict[str, Any] | None = None,
        host_rule: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return what tells the host how its call ended."""
        verdict = HookVerdict(
            kind, sentence, arguments=arguments, answers=answers, host_rule=host_rule
        )
        return _answer_of(
            self._dialect.answer(self._call, verdict), asks_itself=self._call.asks_itself
        )


class HttpHook:
    """The hooks of one host."""

    timeout = DIALECT.timeout

    def read(self, given: dict[str, Any]) -> HttpCall:
        """Return what the host wrote. Raises InvalidRequest."""
        return HttpCall(DIALECT, DIALECT.read(given))

    def refuse(self, given: Any, why: str) -> dict[str, Any]:
        """Return what tells the host that nobody could be asked. Where it asks by itself, that is
        no answer: its terminal's counts."""
        event = given.get("hook_event_name") if isinstance(given, dict) else None
        return _answer_of(DIALECT.refuse(why), asks_itself=event == REQUEST)


def _answer_of(said: Said, *, asks_itself: bool) -> dict[str, Any]:
    """Return the answer over HTTP of what the command would print, and of its exit code."""
    if said.output is not None:
        return said.output
    if said.code == 0 or asks_itself:
        return {}
    denial = {"permissionDecision": "deny", "permissionDecisionReason": said.error}
    return {"hookSpecificOutput": {"hookEventName": PRE, **denial}}


HTTP_HOOKS: Mapping[str, HttpHook] = {"claude-code": HttpHook()}
"""The hosts whose hooks call the gateway by HTTP."""
