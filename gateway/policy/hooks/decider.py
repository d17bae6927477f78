"""The hooks as a link of the policy chain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.domain.policy_document import Route
from gateway.domain.records import Record
from gateway.domain.risk_rules import RaisedRisk
from gateway.models import ApprovalRequest, DecidedBy, DeciderKind, Reason, Risk
from gateway.policy.chain import ALLOW, CONTINUE, DENY, MODIFY, RESPOND
from gateway.policy.decider import Verdict
from gateway.policy.hooks.host import HookHost
from gateway.policy.hooks.replies import HookAction, HookReply, ToolCall
from gateway.wire.codec import JsonObject

PRIORITY = 800
_ABORTS = {HookAction.ABORT_TURN: "turn", HookAction.HARD_ABORT: "agent"}


class HookLink:
    """Asks hooks about a request: first what they would change, then all approvers.

    A hook that fails allows nothing, and neither does anything below: people are asked.
    """

    name = "hooks"
    priority = PRIORITY
    after_storing = True  # it may take a while

    def __init__(self, host: HookHost) -> None:
        self._host = host
        self.seconds = host.slowest

    async def decide(self, record: Record, route: Route) -> Verdict | None:
        """Return what the hooks want, and to what they raise the risk; None for a question."""
        request = record.request
        if request.questions:
            return None
        call = ToolCall(tool=request.tool, arguments=record.arguments)
        about = about_request(request)
        risks: tuple[tuple[str, Risk], ...] = ()
        # What a hook changed is not changed once more, only approved or refused.
        if record.edited is None:
            changed, answer, by, risks = await self._host.before_tool(call, about)
            unchanged = answer.action is HookAction.MODIFY and changed.same_as(call)
            if answer.action is not HookAction.CONTINUE and not unchanged:
                return _raise_risk(_to_verdict(call, changed, answer, by), risks)
        answers = await self._host.approve_tool(call, about)
        risks += tuple((name, one.risk) for name, one in answers if one.risk)
        refused = next((one for one in answers if not one[1].approved), None)
        if refused is not None:
            return _raise_risk(_verdict(DENY, refused[0], refused[1].reason), risks)
        allows = bool(answers) and self._host.allows()
        names = ", ".join(name for name, _ in answers)
        return _raise_risk(_verdict(ALLOW if allows else CONTINUE, names, ""), risks)


def links(host: HookHost) -> list[HookLink]:
    """Return the link of the hooks that judge calls; none when no hook does."""
    judges = host.list_interceptors("before_tool") or host.list_interceptors("approve_tool")
    return [HookLink(host)] if judges else []


def about_request(request: ApprovalRequest) -> JsonObject:
    """Return what hooks are told about a request beside the call itself."""
    origin = request.origin
    inbound = {
        "channel": origin.channel or "",
        "chat_id": origin.chat or "",
        "sender_id": origin.sender or "",
    }
    told: JsonObject = {} if request.payload is None else {"payload": request.payload}
    return told | {
        "meta": meta_of(request),
        "context": {"inbound": inbound, "route": {}, "scope": {}},
        "channel": inbound["channel"],
        "chat_id": inbound["chat_id"],
    }


def meta_of(request: ApprovalRequest) -> JsonObject:
    """Return what hooks are told about where a request comes from."""
    return {
        "AgentID": request.agent,
        "TurnID": request.turn or "",
        "ParentTurnID": "",
        "SessionKey": request.session,
        "Iteration": 0,
        "TracePath": request.id,
        "Source": "approval-gateway",
    }


def _raise_risk(verdict: Verdict, risks: Iterable[tuple[str, Risk]]) -> Verdict:
    """Return a verdict that raises the risk as the hooks did, each in its own name."""
    raised = (
        RaisedRisk(decider=HookLink.name, by=f"hook {name}", level=one.level, reasons=one.reasons)
        for name, one in risks
    )
    return replace(verdict, raised=tuple(raised))


def _to_verdict(call: ToolCall, changed: ToolCall, answer: HookReply, by: str) -> Verdict:
    if answer.action is HookAction.DENY_TOOL:
        return _verdict(DENY, by, answer.reason)
    if answer.action in _ABORTS:
        return _verdict(DENY, by, answer.reason, abort=_ABORTS[answer.action])
    if answer.action is HookAction.RESPOND:
        return _verdict(RESPOND, by, answer.reason, result=answer.result)
    if changed.tool != call.tool:
        # The agent runs the tool that it asked for, or none: it has to ask for the other one.
        return _verdict(DENY, by, answer.reason or f"call {changed.tool} instead")
    return _verdict(MODIFY, by, answer.reason, arguments=changed.arguments)


def _verdict(
    effect: str,
    by: str,
    message: str,
    *,
    abort: str | None = None,
    arguments: JsonObject | None = None,
    result: JsonObject | None = None,
) -> Verdict:
    return Verdict(
        effect=effect,
        by=DecidedBy(kind=DeciderKind.RULE, name=by),
        reason=Reason.HOOK,
        message=message,
        abort=abort,
        arguments=arguments,
        result=result,
    )
