"""`gateway bridge codex-app-server`: let people answer the questions of Codex's app-server.

Codex accepts no edited call. Only its older methods accept a reason for a denial. The bridge
approves for the whole session only with `--native-always`, and only if a person chose that.
Otherwise only the gateway saves grants.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any, TypeGuard

from gateway.errors import InvalidRequest
from gateway.integrations.bridges.host_http import Remembered
from gateway.integrations.bridges.rpc import Ending, RpcDialect, key_of, run_bridge
from gateway.integrations.coding_agents.hook import HookCall, arguments, name_session, text
from gateway.wire.codec import JsonObject

_COMMAND, _CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
_PERMISSIONS, _QUESTION = "item/permissions/requestApproval", "item/tool/requestUserInput"
_OLD_COMMAND, _OLD_CHANGE = "execCommandApproval", "applyPatchApproval"
_HUMAN = "humanCommand"
# Members that identify the question, are only for display, or are never accepted.
_LEFT_OUT = frozenset(
    {"threadId", "turnId", "itemId", "approvalId", "startedAtMs", "availableDecisions", "cwd",
     "commandActions", "proposedExecpolicyAmendment", "proposedNetworkPolicyAmendments",
     "conversationId", "callId", "parsedCmd"}
)  # fmt: skip
_SESSION, _AMEND = "acceptForSession", "acceptWithExecpolicyAmendment"


class CodexAppServer(RpcDialect):
    """The questions of `codex app-server`, and the answers that it accepts."""

    name = "codex-app-server"
    closes_dialogs = True  # by serverRequest/resolved
    asks = frozenset({_COMMAND, _CHANGE, _PERMISSIONS, _QUESTION, _OLD_COMMAND, _OLD_CHANGE})

    def __init__(self) -> None:
        self._changes = Remembered[str, object]()

    def note_host(self, message: JsonObject) -> str | None:
        """Return the session of the thread that the message interrupts."""
        params = message.get("params")
        thread = params.get("threadId") if isinstance(params, dict) else None
        stops = message.get("method") == "turn/interrupt" and isinstance(thread, str)
        return name_session(str(thread)) if stops else None

    def note_agent(self, message: JsonObject) -> str | None:
        """Record the file changes of an item. Return the key of a question that the message
        closes."""
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
        """Return the call or question in a message. Raises InvalidRequest if the message is
        malformed."""
        old = method in (_OLD_COMMAND, _OLD_CHANGE)
        thread = text(params, "conversationId" if old else "threadId", needed=True)
        item = text(params, "callId" if old else "itemId", needed=True)
        if "accept" not in _decisions(params):
            raise InvalidRequest("Codex offers no approval for a single call")
        shown = {
            name: value
            for name, value in params.items()
            if name not in _LEFT_OUT and value is not None
        }
        tool, kind = self._read_call(method, params, shown, json.dumps([thread, item]))
        found = HookCall(
            event=method,
            tool=tool,
            arguments=shown,
            cwd=text(params, "cwd"),
            session=thread,
            call_id=text(params, "approvalId") or item,
        )
        found.kind = kind
        if params.get("kind") == _HUMAN:
            found.needs_person = "Codex requires that a person decides"
        found.turn = text(params, "turnId")
        if method == _QUESTION:
            found.ask(_read_questions(params))
        if method == _PERMISSIONS:  # its answer cannot stop the turn
            found.allowed = ["approve", "deny"]
        for one in _decisions(params):
            _offer_decision(found, one)
        return found

    def _read_call(
        self, method: str, params: JsonObject, shown: JsonObject, key: str
    ) -> tuple[str, str]:
        """Return the tool and the kind of a call, and complete its `shown` arguments."""
        if method == _QUESTION:
            return "question", "question"
        if method == _PERMISSIONS:
            if not arguments(params, "permissions"):
                raise InvalidRequest("Codex's question does not name the permissions")
            return "permissions", "tool"
        if method == _CHANGE:
            shown["changes"] = self._changes.get(key)
        if method in (_CHANGE, _OLD_CHANGE):
            if not shown.get("changes" if method == _CHANGE else "fileChanges"):
                raise InvalidRequest("Codex's question does not name the files to change")
            return "apply_patch", "file_change"
        if method == _OLD_COMMAND:
            shown["command"] = _join_words(params.get("command"))
            return "Bash", "command"
        return _read_command(params, shown)

    def answer(self, method: str, params: JsonObject, ending: Ending) -> JsonObject:
        """Return the answer for Codex: accept once, accept as a person chose, decline, or stop the
        turn."""
        if method == _QUESTION:
            given = (ending.answers or {}) if ending.approved else {}
            return {"answers": {name: {"answers": _list(one)} for name, one in given.items()}}
        if method == _PERMISSIONS:
            granted = params["permissions"] if ending.approved else {}
            return {"permissions": granted, "scope": "turn"}
        if method in (_OLD_COMMAND, _OLD_CHANGE):
            if ending.approved:
                return {"decision": "approved"}
            denied = {"denied": {"rejection": ending.sentence or "the call was not approved"}}
            return {"decision": "abort" if ending.stops else denied}
        if ending.approved:
            return {"decision": ending.own or "accept"}
        return {"decision": "cancel" if ending.stops else "decline"}


def _read_command(params: JsonObject, shown: JsonObject) -> tuple[str, str]:
    """Return tool and kind of a command, of input for a running command, or of network access."""
    known = isinstance(shown.get("command"), str)
    if not known and "networkApprovalContext" not in shown:
        raise InvalidRequest("Codex's question does not contain the command")
    if params.get("kind", "command") not in ("command", _HUMAN):
        return "write_stdin", "tool"
    return ("Bash", "command") if known else ("network", "tool")


def _decisions(params: JsonObject) -> list[Any]:
    """Return the answers that Codex accepts. If the question lists no answers, return `accept`."""
    offered = params.get("availableDecisions")
    return offered if isinstance(offered, list) else ["accept"]


def _offer_decision(found: HookCall, decision: Any) -> None:
    """Offer an answer that makes Codex save a rule, if the question contains the whole rule."""
    if decision == _SESSION:
        words = "calls that Codex considers the same as this one"
        found.offer_rule(words, "until its session ends", decision)
    amendment = decision.get(_AMEND) if isinstance(decision, dict) else None
    if isinstance(amendment, dict) and set(decision) == {_AMEND}:
        prefix = amendment.get("execpolicy_amendment")
        if set(amendment) == {"execpolicy_amendment"} and _are_words(prefix):
            rule = f"commands that begin with: {shlex.join(prefix)}"
            found.offer_rule(rule, "permanently, in Codex's own rules", decision)


def _are_words(words: Any) -> TypeGuard[list[str]]:
    return isinstance(words, list) and bool(words) and all(isinstance(one, str) for one in words)


def _join_words(words: Any) -> str:
    if not _are_words(words):
        raise InvalidRequest("Codex's question does not contain the command")
    return shlex.join(words)


def _list(answer: Any) -> list[str]:
    return [str(one) for one in answer] if isinstance(answer, list) else [str(answer)]


def _read_questions(params: JsonObject) -> list[JsonObject]:
    """Return the form fields for the model's questions. Raises InvalidRequest for malformed
    questions."""
    asked = params.get("questions")
    if not isinstance(asked, list) or not all(isinstance(one, dict) for one in asked):
        raise InvalidRequest("cannot parse Codex's question: it has no list of questions")
    return [_read_question(one) for one in asked]


def _read_question(one: JsonObject) -> JsonObject:
    """Return a form field for a question: a choice, or a text field if other answers are
    possible."""
    field: JsonObject = {
        "id": text(one, "id", needed=True),
        "text": text(one, "question", needed=True),
        "secret": one.get("isSecret") is True,
    }
    listed = one.get("options") or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise InvalidRequest("cannot parse Codex's question: the options are not a list")
    options = []
    for each in listed:
        label, more = text(each, "label", needed=True), text(each, "description")
        options.append({"value": label, "label": f"{label}: {more}" if more else label})
    if options and one.get("isOther") is True:
        said = "; ".join(option["label"] or "" for option in options)
        field["text"] += f" ({said}; or something else)"
    elif options:
        field |= {"kind": "choice", "options": options}
    return field


def main(words: Sequence[str]) -> int:
    """Run `gateway bridge codex-app-server`; return the exit code."""
    return run_bridge(words, CodexAppServer())
