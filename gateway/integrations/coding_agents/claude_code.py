"""What Claude Code writes to its hooks, and how it is answered.

PreToolUse is the gate: it holds under every permission mode, and everything but an approval blocks
with exit code 2. PermissionRequest comes where Claude Code would ask at its own terminal, which it
does all the same: the first answer counts, and without one of ours that of the terminal does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

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

PRE, REQUEST = "PreToolUse", "PermissionRequest"
AFTER_CALL = ("PostToolUse", "PostToolUseFailure", "PermissionDenied")
AFTER_TURN = ("UserPromptSubmit", "Stop", "SessionEnd")
QUESTION_TOOL = "AskUserQuestion"
_SCOPES = {
    "session": "until its session ends",
    "localSettings": "in this project, for this user (.claude/settings.local.json)",
    "projectSettings": "in this project, for everybody (.claude/settings.json)",
    "userSettings": "in all projects of this user (~/.claude/settings.json)",
}


class ClaudeCode(HostProtocol):
    """Claude Code's hooks, and those of hosts that took them over."""

    host = "claude-code"
    timeout = 540.0  # of 600
    turn = "prompt_id"
    kinds: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("Bash", "Monitor", "REPL", "Workflow", "PowerShell"), "command"),
        **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), "file_change"),
        "ExitPlanMode": "plan",
    }

    def read(self, call: dict[str, Any]) -> HookCall:
        """Return what the host wrote. Raises InvalidRequest."""
        event = text(call, "hook_event_name", needed=True) or ""
        if event not in (PRE, REQUEST, *AFTER_CALL, *AFTER_TURN):
            raise InvalidRequest(f"that is no event of {self.host} that this hook knows")
        is_call = event not in AFTER_TURN
        found = HookCall(
            event=event,
            tool=(text(call, "tool_name", needed=True) or "") if is_call else "-",
            arguments=arguments(call, "tool_input") if is_call else {},
            cwd=text(call, "cwd"),
            session=text(call, "session_id"),
            call_id=text(call, "tool_use_id", needed=event == PRE),
        )
        if event not in (PRE, REQUEST):
            why = "the call was decided at the terminal" if is_call else "the turn is over"
            found.closes = f"{self.host}: {why}"
            return found
        found.turn = text(call, self.turn)
        found.agent_type = text(call, "agent_type")
        found.kind = self.kinds.get(found.tool, "tool")
        found.asks_itself = event == REQUEST
        if found.asks_itself:
            read_suggestions(found, call.get("permission_suggestions"))
        self.offer(found)
        return found

    def offer(self, found: HookCall) -> None:
        """Ask what the model asks of a person as a question."""
        if found.tool == QUESTION_TOOL:
            found.ask(read_questions(found.arguments))

    def answer(self, call: HookCall, verdict: HookVerdict) -> HookOutput:
        """Return what tells the host."""
        return _answer_request(call, verdict) if call.asks_itself else _answer_gate(call, verdict)


def _answer_gate(call: HookCall, verdict: HookVerdict) -> HookOutput:
    """Answer PreToolUse, where everything but an approval blocks."""
    if verdict.kind == "approved":
        return HookOutput(0, _decide("allow", verdict.sentence, changed_input(call, verdict)))
    if verdict.kind == "deferred":
        return HookOutput(0, _decide("defer", verdict.sentence, None))
    if verdict.kind == "aborted":
        stop = {"continue": False, "stopReason": verdict.sentence}
        return HookOutput(0, {**stop, **_decide("deny", verdict.sentence, None)})
    return HookOutput(BLOCKED, error=verdict.sentence)  # which it gives to the model


def _decide(how: str, why: str, changed: dict[str, Any] | None) -> dict[str, Any]:
    told = {"hookEventName": PRE, "permissionDecision": how, "permissionDecisionReason": why}
    return {"hookSpecificOutput": told if changed is None else {**told, "updatedInput": changed}}


def _answer_request(call: HookCall, verdict: HookVerdict) -> HookOutput:
    """Answer PermissionRequest. What is no answer leaves it to the terminal, which asks too."""
    if verdict.kind == "approved":
        decision: dict[str, Any] = {"behavior": "allow"}
        changed = changed_input(call, verdict)
        if changed is not None:
            decision["updatedInput"] = changed
        kept = call.find_own(verdict.host_rule)
        if kept is not None:
            decision["updatedPermissions"] = [kept]
    elif verdict.is_a_no:
        decision = {"behavior": "deny", "message": verdict.sentence}
        if verdict.kind == "aborted":
            decision["interrupt"] = True
    else:
        return HookOutput(0, error=verdict.sentence)
    return HookOutput(0, {"hookSpecificOutput": {"hookEventName": REQUEST, "decision": decision}})


def read_suggestions(found: HookCall, suggested: Any) -> None:
    """Offer what Claude Code suggests to keep itself. What is not wholly known here is left out,
    and so is a change of its mode, which lets more through than its name says."""
    for one in suggested if isinstance(suggested, list) else ():
        scope = _SCOPES.get(str(one.get("destination"))) if isinstance(one, dict) else None
        if scope is None:
            continue
        what = _read_rules(one) or _read_folders(one)
        if what:
            found.offer_rule(what, scope, one)


def _read_rules(one: dict[str, Any]) -> str:
    """Return the rules of a suggestion as Claude Code's settings write them, "" for another."""
    rules = one.get("rules")
    known = set(one) == {"type", "rules", "behavior", "destination"}
    if not known or (one["type"], one["behavior"]) != ("addRules", "allow"):
        return ""
    said = [_read_rule(rule) for rule in rules] if isinstance(rules, list) else []
    return ", ".join(said) if all(said) else ""


def _read_rule(rule: Any) -> str:
    tool = rule.get("toolName") if isinstance(rule, dict) else None
    if not isinstance(tool, str) or not tool or set(rule) - {"toolName", "ruleContent"}:
        return ""
    content = rule.get("ruleContent", "")
    if not isinstance(content, str):
        return ""
    return f"{tool}({content})" if content else f"{tool} (every call of it)"


def _read_folders(one: dict[str, Any]) -> str:
    """Return the folders of a suggestion that Claude Code may work in, "" for another."""
    folders = one.get("directories")
    if set(one) != {"type", "directories", "destination"} or one["type"] != "addDirectories":
        return ""
    if not isinstance(folders, list) or not all(isinstance(each, str) for each in folders):
        return ""
    return f"work also in {', '.join(folders)}" if folders else ""


def changed_input(call: HookCall, verdict: HookVerdict) -> dict[str, Any] | None:
    """Return the whole input that runs instead, None where nobody changed it."""
    if not call.questions:
        return verdict.arguments
    answers = {}
    for question in call.questions:
        given = verdict.answers.get(question["id"])
        if given is not None:
            several = isinstance(given, list)
            answers[question["text"]] = ", ".join(map(str, given)) if several else str(given)
    return {**call.arguments, "answers": answers}


def read_questions(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of a question that Claude asks of a person. Raises InvalidRequest."""
    asked = given.get("questions")
    if not isinstance(asked, list):
        raise InvalidRequest("the host asks a question without any")
    return [_read_question(number, one) for number, one in enumerate(asked, 1)]


def _read_question(number: int, one: Any) -> dict[str, Any]:
    if not isinstance(one, dict) or not isinstance(one.get("options"), list):
        raise InvalidRequest("the host asks a question that cannot be read")
    field: dict[str, Any] = {"id": f"q{number}", "text": text(one, "question", needed=True)}
    options = []
    for option in one["options"]:
        if not isinstance(option, dict):
            raise InvalidRequest("the host asks a question that cannot be read")
        label, more = text(option, "label", needed=True), text(option, "description")
        options.append({"value": label, **({"label": f"{label}: {more}"} if more else {})})
    if options:
        field["kind"] = "choices" if one.get("multiSelect") is True else "choice"
        field["options"] = options
    return field


DIALECT = ClaudeCode()


# Claude Code's hooks by HTTP: the same words as of the command, without a process of ours between.
#
# The gateway itself serves this. A tool runs after an answer that Claude Code cannot use, so each
# is one of its decisions in a 200 answer, also where nobody could be asked.


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


def _answer_of(said: HookOutput, *, asks_itself: bool) -> dict[str, Any]:
    """Return the answer over HTTP of what the command would print, and of its exit code."""
    if said.output is not None:
        return said.output
    if said.code == 0 or asks_itself:
        return {}
    denial = {"permissionDecision": "deny", "permissionDecisionReason": said.error}
    return {"hookSpecificOutput": {"hookEventName": PRE, **denial}}


HTTP_HOOKS: Mapping[str, HttpHook] = {"claude-code": HttpHook()}
"""The hosts whose hooks call the gateway by HTTP."""
