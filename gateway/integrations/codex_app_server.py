"""`gateway bridge codex-app-server`: what Codex's app-server asks its program, people are asked.

It takes no change of a call and no words with a refusal; what would hold for a session is never
chosen, because what is remembered is the gateway's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from gateway.errors import InvalidRequest
from gateway.integrations.hook_call import HookCall, name_session, text
from gateway.integrations.rpc_bridge import Remembered, RpcDialect, key_of, run_bridge
from gateway.wire.codec import JsonObject

_COMMAND, _CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
# Names of the question itself, what is only for display, and what is never accepted.
_LEFT_OUT = frozenset(
    {"threadId", "turnId", "itemId", "approvalId", "startedAtMs", "availableDecisions", "cwd",
     "commandActions", "proposedExecpolicyAmendment", "proposedNetworkPolicyAmendments"}
)  # fmt: skip


class CodexAppServer(RpcDialect):
    """The questions of `codex app-server`."""

    name = "codex-app-server"
    asks = frozenset({_COMMAND, _CHANGE})

    def __init__(self) -> None:
        self._changes: Remembered[object] = Remembered()

    def note_host(self, message: JsonObject) -> str | None:
        """Return the thread whose turn is interrupted."""
        params = message.get("params")
        thread = params.get("threadId") if isinstance(params, dict) else None
        stops = message.get("method") == "turn/interrupt" and isinstance(thread, str)
        return name_session(str(thread)) if stops else None

    def note_agent(self, message: JsonObject) -> str | None:
        """Learn which files an item changes; return what is asked no longer."""
        method, params = message.get("method"), message.get("params")
        if not isinstance(params, dict):
            return None
        item, over = params.get("item"), params.get("requestId")
        if isinstance(item, dict) and item.get("type") == "fileChange":
            key = json.dumps([params.get("threadId"), item.get("id")])
            self._changes.keep(key, item.get("changes"))
        if method == "serverRequest/resolved" and isinstance(over, str | int):
            return key_of(over)
        return None

    def read(self, method: str, params: JsonObject) -> HookCall:
        """Return what Codex asks. Raises InvalidRequest."""
        thread = text(params, "threadId", needed=True) or ""
        item = text(params, "itemId", needed=True)
        offered = params.get("availableDecisions")
        if isinstance(offered, list) and "accept" not in offered:
            raise InvalidRequest("Codex offers no approval that holds for once")
        shown = {
            name: value
            for name, value in params.items()
            if name not in _LEFT_OUT and value is not None
        }
        command = shown.get("command")
        if method == _CHANGE:
            shown["changes"] = self._changes.get(json.dumps([thread, item]))
            if not shown["changes"]:
                raise InvalidRequest("Codex does not say which files it would change")
        elif not isinstance(command, str) and "networkApprovalContext" not in shown:
            raise InvalidRequest("Codex does not say what it would run")
        runs = method == _COMMAND and isinstance(command, str)
        found = HookCall(
            event=method,
            tool="apply_patch" if method == _CHANGE else "Bash" if runs else "network",
            arguments=shown,
            cwd=text(params, "cwd"),
            session=thread,
            call_id=text(params, "approvalId") or item,
        )
        found.kind = "file_change" if method == _CHANGE else "command" if runs else "tool"
        found.turn = text(params, "turnId")
        return found

    def answer(self, params: JsonObject, *, approved: bool, stops: bool) -> JsonObject:
        """Accept once, decline, or cancel the turn."""
        return {"decision": "accept" if approved else "cancel" if stops else "decline"}


def main(words: Sequence[str]) -> int:
    """Run `gateway bridge codex-app-server`; return the exit code."""
    return run_bridge(words, CodexAppServer())
