"""Read the input of Claude Code's hooks, and write the reply. Start at ClaudeCode.

PreToolUse is the gate. This hook works in every permission mode, and blocks with exit code 2 unless
the call is approved. PermissionRequest comes when Claude Code asks at its own terminal. The first
decision counts, from the gateway or from the terminal.
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
    """The hooks of Claude Code. Base class for coding agents with the same hooks."""

    host = "claude-code"
    timeout = 540.0  # Claude Code allows 600
    turn = "prompt_id"
    kinds: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("Bash", "Monitor", "REPL", "Workflow", "PowerShell"), "command"),
        **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), "file_change"),
        "ExitPlanMode": "plan",
    }

    def read(self, call: dict[str, Any]) -> HookCall:
        """Return the call in the input of a hook. Raises InvalidRequest if it is malformed."""
        event = text(call, "hook_event_name", needed=True) or ""
        if event not in (PRE, REQUEST, *AFTER_CALL, *AFTER_TURN):
            raise InvalidRequest(f"unknown event {event!r} of {self.host}")
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
        """Set the actions that people may choose. Turn a question of the model into a form."""
        if found.tool == QUESTION_TOOL:
            found.ask(read_questions(found.arguments))

    def answer(self, call: HookCall, verdict: HookVerdict) -> HookOutput:
        """Return the exit code and output that tell the coding agent how the call ended."""
        return _answer_request(call, verdict) if call.asks_itself else _answer_gate(call, verdict)


def _answer_gate(call: HookCall, verdict: HookVerdict) -> HookOutput:
    """Answer PreToolUse. Without an approval, block the call."""
    if verdict.kind == "approved":
        return HookOutput(0, _decide("allow", verdict.sentence, changed_input(call, verdict)))
    if verdict.kind == "deferred":
        return HookOutput(0, _decide("defer", verdict.sentence, None))
    if verdict.kind == "aborted":
        stop = {"continue": False, "stopReason": verdict.sentence}
        return HookOutput(0, {**stop, **_decide("deny", verdict.sentence, None)})
    return HookOutput(BLOCKED, error=verdict.sentence)  # the model gets this text


def _decide(how: str, why: str, changed: dict[str, Any] | None) -> dict[str, Any]:
    told = {"hookEventName": PRE, "permissionDecision": how, "permissionDecisionReason": why}
    return {"hookSpecificOutput": told if changed is None else {**told, "updatedInput": changed}}


def _answer_request(call: HookCall, verdict: HookVerdict) -> HookOutput:
    """Answer PermissionRequest. Without a decision of the gateway, the one at the terminal
    counts."""
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
    """Offer the permission rules that Claude Code suggests to save. Skip unknown formats. Also skip
    changes of Claude Code's mode, which allow more than their name says."""
    for one in suggested if isinstance(suggested, list) else ():
        scope = _SCOPES.get(str(one.get("destination"))) if isinstance(one, dict) else None
        if scope is None:
            continue
        what = _read_rules(one) or _read_folders(one)
        if what:
            found.offer_rule(what, scope, one)


def _read_rules(one: dict[str, Any]) -> str:
    """Return the rules of a suggestion as in Claude Code's settings, "" for another format."""
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
    """Return the folders that a suggestion adds to those of Claude Code, "" for another format."""
    folders = one.get("directories")
    if set(one) != {"type", "directories", "destination"} or one["type"] != "addDirectories":
        return ""
    if not isinstance(folders, list) or not all(isinstance(each, str) for each in folders):
        return ""
    return f"also work in {', '.join(folders)}" if folders else ""


def changed_input(call: HookCall, verdict: HookVerdict) -> dict[str, Any] | None:
    """Return the complete new input of the tool, None if nobody changed it."""
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
    """Return the form fields for a question of the model. Raises InvalidRequest."""
    asked = given.get("questions")
    if not isinstance(asked, list):
        raise InvalidRequest("cannot parse the question: it has no list of questions")
    return [_read_question(number, one) for number, one in enumerate(asked, 1)]


def _read_question(number: int, one: Any) -> dict[str, Any]:
    if not isinstance(one, dict) or not isinstance(one.get("options"), list):
        raise InvalidRequest("cannot parse the question: it has no list of options")
    field: dict[str, Any] = {"id": f"q{number}", "text": text(one, "question", needed=True)}
    options = []
    for option in one["options"]:
        if not isinstance(option, dict):
            raise InvalidRequest("cannot parse the question: an option is not an object")
        label, more = text(option, "label", needed=True), text(option, "description")
        options.append({"value": label, **({"label": f"{label}: {more}"} if more else {})})
    if options:
        field["kind"] = "choices" if one.get("multiSelect") is True else "choice"
        field["options"] = options
    return field


DIALECT = ClaudeCode()


# Claude Code's hooks over HTTP: the same input and reply as for the command, without a process.
#
# The gateway itself serves this. Claude Code runs the tool after a reply that it cannot use. So
# each reply is one of its decisions with status 200, even if nobody could be asked.


class HttpCall:
    """One call in the input of a hook over HTTP."""

    def __init__(self, dialect: ClaudeCode, call: HookCall) -> None:
        self._dialect, self._call = dialect, call
        self.closes = call.closes
        self.ends_turn = call.tool == "-"

    @property
    def mark(self) -> str:
        """The prefix of the request ids for equal calls, if the coding agent gives calls no id."""
        return f"{REQUEST}.{self._call.content}."

    def request(
        self, *, unknown: str, edit: bool = False, native_always: bool = False
    ) -> dict[str, Any]:
        """Return the members of the request for this call. `unknown` distinguishes equal calls if
        the coding agent gives calls no id."""
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
        """Return the JSON reply that tells the coding agent how its call ended."""
        verdict = HookVerdict(
            kind, sentence, arguments=arguments, answers=answers, host_rule=host_rule
        )
        return _answer_of(
            self._dialect.answer(self._call, verdict), asks_itself=self._call.asks_itself
        )


class HttpHook:
    """The HTTP hooks of one coding agent."""

    timeout = DIALECT.timeout

    def read(self, given: dict[str, Any]) -> HttpCall:
        """Return the call in the input of a hook. Raises InvalidRequest if it is malformed."""
        return HttpCall(DIALECT, DIALECT.read(given))

    def refuse(self, given: Any, why: str) -> dict[str, Any]:
        """Return the JSON reply for a call about which nobody could be asked. If the coding agent
        asks at its own terminal, the reply is empty, and the person's decision there counts."""
        event = given.get("hook_event_name") if isinstance(given, dict) else None
        return _answer_of(DIALECT.refuse(why), asks_itself=event == REQUEST)


def _answer_of(said: HookOutput, *, asks_itself: bool) -> dict[str, Any]:
    """Return the JSON reply that corresponds to the output and exit code of the hook command."""
    if said.output is not None:
        return said.output
    if said.code == 0 or asks_itself:
        return {}
    denial = {"permissionDecision": "deny", "permissionDecisionReason": said.error}
    return {"hookSpecificOutput": {"hookEventName": PRE, **denial}}


HTTP_HOOKS: Mapping[str, HttpHook] = {"claude-code": HttpHook()}
"""The coding agents whose hooks call the gateway over HTTP."""
