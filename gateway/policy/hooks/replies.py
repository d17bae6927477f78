"""What hooks answer, read strictly: whatever does not fit is a failure, never a yes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.domain.redaction import start_of
from gateway.models import Risk, RiskLevel
from gateway.policy.hooks.process import HookFailed
from gateway.wire.codec import JsonObject

_MOST_REASON = 2_000
_RESULT_TYPES: dict[str, type | tuple[type, ...]] = {
    "for_llm": str,
    "for_user": str,
    "silent": bool,
    "is_error": bool,
    "async": bool,
    "media": (list, type(None)),
    "artifact_tags": (list, type(None)),
    "response_handled": bool,
}


class HookAction(StrEnum):
    """What an intercepting hook wants done."""

    CONTINUE = "continue"
    MODIFY = "modify"
    RESPOND = "respond"
    DENY_TOOL = "deny_tool"
    ABORT_TURN = "abort_turn"
    HARD_ABORT = "hard_abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool and its arguments."""

    tool: str
    arguments: JsonObject

    def same_as(self, other: ToolCall) -> bool:
        """Whether both run the same. 1 and true are not the same, though Python says so."""
        mine, theirs = (
            json.dumps([one.tool, one.arguments], sort_keys=True) for one in (self, other)
        )
        return mine == theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """An interceptor's answer. `call` and `body` are what it changed, `result` its response, `risk`
    what it would raise the risk to."""

    action: HookAction
    reason: str = ""
    call: ToolCall | None = None
    result: JsonObject | None = None
    body: JsonObject | None = None
    risk: Risk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HookApproval:
    """An approver's answer."""

    approved: bool
    reason: str = ""
    risk: Risk | None = None


def tool_answer(raw: Any) -> HookReply:
    """Return the answer to before_tool; raises HookFailed."""
    values = _object(raw)
    action = _action(values)
    call = _call(values["call"]) if values.get("call") is not None else None
    if action is HookAction.MODIFY and call is None:
        raise HookFailed("a hook modifies a call without saying to what")
    result = _result(values.get("result")) if action is HookAction.RESPOND else None
    return HookReply(
        action=action, reason=_reason(values), call=call, result=result, risk=_risk(values)
    )


def other_answer(raw: Any, member: str) -> HookReply:
    """Return the answer to before_llm, after_llm or after_tool, which may change one member."""
    values = _object(raw)
    action = _action(values)
    if action in (HookAction.RESPOND, HookAction.DENY_TOOL):
        raise HookFailed(f"a hook answers {action} where there is no tool to run")
    body = values.get(member)
    if action is HookAction.MODIFY and not isinstance(body, dict):
        raise HookFailed(f"a hook modifies without a {member}")
    changed = body if action is HookAction.MODIFY else None
    return HookReply(action=action, reason=_reason(values), body=changed)


def approval(raw: Any) -> HookApproval:
    """Return the answer to approve_tool; raises HookFailed unless it says plainly yes or no."""
    values = _object(raw)
    if not isinstance(values.get("approved"), bool):
        raise HookFailed("a hook does not say whether it approves")
    return HookApproval(approved=values["approved"], reason=_reason(values), risk=_risk(values))


def _risk(values: JsonObject) -> Risk | None:
    """Return what a hook raises the risk to; None without. One that nobody knows is a failure."""
    if values.get("risk") is None:
        return None
    raw = _object(values["risk"])
    level, reasons = raw.get("level"), raw.get("reasons", [])
    if level not in tuple(RiskLevel) or not isinstance(reasons, list):
        raise HookFailed("a hook raises the risk to a level that there is not")
    if not all(isinstance(one, str) for one in reasons):
        raise HookFailed("a hook gives a reason that is no text")
    return Risk(level=RiskLevel(level), reasons=tuple(reasons))


def _object(raw: Any) -> JsonObject:
    if not isinstance(raw, dict):
        raise HookFailed("a hook answers something that is no object")
    return raw


def _action(values: JsonObject) -> HookAction:
    try:
        return HookAction(values.get("action", ""))
    except ValueError:
        raise HookFailed("a hook wants an action that there is not") from None


def _call(raw: Any) -> ToolCall:
    values = _object(raw)
    tool, arguments = values.get("tool"), values.get("arguments")
    if not isinstance(tool, str) or not tool or not isinstance(arguments, dict):
        raise HookFailed("a hook's call names no tool with arguments")
    return ToolCall(tool=tool, arguments=arguments)


def _result(raw: Any) -> JsonObject:
    values = _object(raw)
    for name, wanted in _RESULT_TYPES.items():
        if name in values and not isinstance(values[name], wanted):
            raise HookFailed(f"a hook's result has a strange {name}")
    return {name: values[name] for name in _RESULT_TYPES if values.get(name) is not None}


def _reason(values: JsonObject) -> str:
    reason = values.get("reason")
    return start_of(reason, _MOST_REASON) if isinstance(reason, str) else ""
