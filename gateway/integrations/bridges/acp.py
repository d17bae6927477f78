"""`gateway bridge acp`: let people answer agents that use the Agent Client Protocol.

An agent's `session/request_permission` lists options. The bridge chooses an option that is valid
for one call. The gateway saves longer decisions as grants, which people can list and revoke. With
`--native-always` people can also choose the agent's own options that last longer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gateway.errors import InvalidRequest
from gateway.integrations.bridges.host_http import Remembered
from gateway.integrations.bridges.rpc import Ending, RpcDialect, key_of, run_bridge
from gateway.integrations.coding_agents.hook import HookCall, arguments, name_session, text
from gateway.wire.codec import JsonObject

_KINDS = {"edit": "file_change", "delete": "file_change", "move": "file_change"}
_SHOWN = ("title", "rawInput", "content", "locations")
_TITLE = "command (from the title)"
_UNKNOWN = "only the title, which the agent wrote, says what would run"
_KEPT = "for as long as the agent keeps it; the agent decides what it covers"
_OPENS = ("session/new", "session/load", "session/resume")


class Acp(RpcDialect):
    """The Agent Client Protocol."""

    name = "acp"
    asks = frozenset({"session/request_permission"})

    def __init__(self) -> None:
        self._opening = Remembered[str, str]()
        self._folders = Remembered[str, str]()
        self._calls = Remembered[str, JsonObject]()

    def note_host(self, message: JsonObject) -> str | None:
        """Record the folder of a session. Return the session that the message cancels."""
        method, params, number = (message.get(one) for one in ("method", "params", "id"))
        if not isinstance(params, dict):
            return None
        session, folder = params.get("sessionId"), params.get("cwd")
        if method in _OPENS and isinstance(folder, str):
            if isinstance(session, str):
                self._folders.keep(session, folder)
            elif isinstance(number, str | int):
                self._opening.keep(key_of(number), folder)
        if method == "session/cancel" and isinstance(session, str):
            return name_session(session)
        return None

    def note_agent(self, message: JsonObject) -> str | None:
        """Record the id of a session, and its calls. Return the key of a question that the message
        closes."""
        method, params, number = (message.get(one) for one in ("method", "params", "id"))
        result = message.get("result")
        if method is None and isinstance(number, str | int) and isinstance(result, dict):
            folder, session = self._opening.pop(key_of(number), None), result.get("sessionId")
            if folder is not None and isinstance(session, str):
                self._folders.keep(session, folder)
        if not isinstance(params, dict):
            return None
        update = params.get("update")
        if method == "session/update" and isinstance(update, dict):
            self._note_call(params.get("sessionId"), update)
        over = params.get("requestId")
        return (
            key_of(over) if method == "$/cancel_request" and isinstance(over, str | int) else None
        )

    def _note_call(self, session: Any, update: JsonObject) -> None:
        if str(update.get("sessionUpdate")).startswith("tool_call"):
            self._merge(session, update)

    def _merge(self, session: Any, update: JsonObject) -> JsonObject:
        """Return the known members of a call, updated with those of a message."""
        key = json.dumps([session, update.get("toolCallId")])
        told = {name: update[name] for name in (*_SHOWN, "kind") if update.get(name) is not None}
        known = {**self._calls.get(key, {}), **told}
        self._calls.keep(key, known)
        return known

    def read(self, method: str, params: JsonObject) -> HookCall:
        """Return the call in a permission question. Raises InvalidRequest if the question is
        malformed."""
        session = text(params, "sessionId", needed=True) or ""
        call = arguments(params, "toolCall")
        call_id = text(call, "toolCallId", needed=True)
        if "allow_once" not in _options(params):
            raise InvalidRequest("the agent offers no option that allows the call once")
        known = self._merge(session, call)
        shown = {name: known[name] for name in _SHOWN if name in known}
        if not shown:
            raise InvalidRequest("the agent's question does not describe the call")
        kind = str(known.get("kind") or "other")
        if kind == "execute" and not shown.get("rawInput") and "title" in shown:
            shown[_TITLE] = shown.pop("title")
        raw = shown.get("rawInput")
        command = raw.get("command") if isinstance(raw, dict) else None
        runs = kind == "execute" and isinstance(command, str)
        found = HookCall(
            event=method,
            tool=kind,
            arguments={**shown, "command": command} if runs else shown,
            cwd=self._folders.get(session),
            session=session,
            call_id=call_id,
        )
        found.kind = "command" if runs else _KINDS.get(kind, "tool")
        if not shown.get("rawInput") and (kind == "execute" or not _has_diff(shown)):
            found.needs_person = _UNKNOWN
        for option in _options(params).get("allow_always", ()):
            found.offer_rule(str(option.get("name")), _KEPT, option["optionId"])
        return found

    def answer(self, method: str, params: JsonObject, ending: Ending) -> JsonObject:
        """Return the answer with an option: one that is valid for one call, or one that a person
        chose."""
        options = _options(params).get("allow_once" if ending.approved else "reject_once", ())
        chosen = next((one["optionId"] for one in options), None)
        if ending.approved and ending.own is not None:
            chosen = ending.own
        if chosen is None or (ending.stops and not ending.approved):
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    def stop(self, params: JsonObject) -> JsonObject | None:
        """Return the message with which the agent's own client would cancel the turn."""
        session = {"sessionId": params.get("sessionId")}
        return {"jsonrpc": "2.0", "method": "session/cancel", "params": session}


def _has_diff(shown: JsonObject) -> bool:
    """Return whether the content contains a file change as data, and not only text."""
    parts = shown.get("content")
    return isinstance(parts, list) and any(
        isinstance(one, dict) and one.get("type") == "diff" for one in parts
    )


def _options(params: JsonObject) -> dict[str, list[JsonObject]]:
    """Return the options of a question by their kind."""
    found: dict[str, list[JsonObject]] = {}
    listed = params.get("options")
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(one.get("optionId"), str):
            found.setdefault(str(one.get("kind")), []).append(one)
    return found


def main(words: Sequence[str]) -> int:
    """Run `gateway bridge acp`; return the exit code."""
    return run_bridge(words, Acp())
