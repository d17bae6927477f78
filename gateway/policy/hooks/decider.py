"""The hooks as a link of the policy chain, and the events that they are told."""

from __future__ import annotations

import asyncio
import logging

from gateway.approvals.service import Approvals
from gateway.domain.policy_document import Route
from gateway.domain.records import Event, Record
from gateway.domain.tasks import ended
from gateway.errors import NotFound, Unreachable
from gateway.models import ApprovalRequest, DecidedBy, DeciderKind, Execution, Reason
from gateway.policy.chain import ALLOW, DENY, MODIFY, RESPOND
from gateway.policy.hooks.host import HookHost
from gateway.policy.hooks.replies import Answer, HookAction, ToolCall
from gateway.ports import Verdict
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.hooks")

_MOST_RETURNED = 1000  # results that wait for hooks to look at them
PRIORITY = 800
_ABORTS = {HookAction.ABORT_TURN: "turn", HookAction.HARD_ABORT: "agent"}
_KINDS = {
    Execution.STARTED: "tool_exec_start",
    Execution.SUCCEEDED: "tool_exec_end",
    Execution.FAILED: "tool_exec_end",
    Execution.SKIPPED: "tool_exec_skipped",
    Execution.REFUSED_LATE: "tool_exec_skipped",
}


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
        """Return what the hooks want; None when none of them objects."""
        request = record.request
        if request.questions:
            return None
        call = ToolCall(tool=request.tool, arguments=record.arguments)
        about = about_request(request)
        # What a hook changed is not changed once more, only approved or refused.
        if record.edited is None:
            changed, answer, by = await self._host.before_tool(call, about)
            unchanged = answer.action is HookAction.MODIFY and changed.same_as(call)
            if answer.action is not HookAction.CONTINUE and not unchanged:
                return _wanted(call, changed, answer, by)
        answers = await self._host.approve_tool(call, about)
        refused = next((one for one in answers if not one[1].approved), None)
        if refused is not None:
            return _verdict(DENY, refused[0], refused[1].reason)
        if answers and self._host.allows():
            return _verdict(ALLOW, ", ".join(name for name, _ in answers), "")
        return None


def links(host: HookHost) -> list[HookLink]:
    """Return the link of the hooks that judge calls; none when no hook does."""
    judges = host.asked("before_tool") or host.asked("approve_tool")
    return [HookLink(host)] if judges else []


class HookEvents:
    """Tells hooks what happens, and what tools returned."""

    def __init__(self, host: HookHost, approvals: Approvals) -> None:
        self._host = host
        self._approvals = approvals
        # Ids only: what they name may be large.
        self._returned: asyncio.Queue[str] = asyncio.Queue(_MOST_RETURNED)

    async def run(self) -> None:
        """Follow the event stream until cancelled. Whatever a hook takes to look at what a tool
        returned, it holds up no event."""
        asking = asyncio.create_task(self._ask(), name="hooks after tools")
        try:
            while True:
                await self._follow()
        finally:
            await ended(asking)

    async def _follow(self) -> None:
        try:
            async with self._approvals.changes() as events:
                async for event in events:
                    await self._told(event)
        except Unreachable as behind:
            log.warning("hooks missed events: %s", behind, extra={"event": "hooks_missed"})

    async def _told(self, event: Event) -> None:
        record = await self._record(event.request_id)
        if record is None:
            return
        report = record.report if event.type == "reported" else None
        kind = _KINDS[report.execution] if report else event.type
        request = record.request
        payload = {"Tool": request.tool, "Arguments": record.arguments}
        self._host.tell(kind, {"Kind": kind, "Meta": _meta(request), "Payload": payload})
        if kind != "tool_exec_end" or not self._host.asked("after_tool"):
            return
        try:
            self._returned.put_nowait(request.id)
        except asyncio.QueueFull:
            log.warning(
                "hooks are too slow to look at what %s returned",
                request.id,
                extra={"event": "hooks_missed"},
            )

    async def _ask(self) -> None:
        """Show hooks what tools returned, one after the other. It has run, and its result is with
        the agent: hooks can change nothing."""
        while True:
            request_id = await self._returned.get()
            try:
                await self._after_tool(request_id)
            except Exception:
                # Whatever it was, the next result is shown.
                log.exception("%s was not shown", request_id, extra={"event": "hooks_missed"})

    async def _after_tool(self, request_id: str) -> None:
        record = await self._record(request_id)
        report = record.report if record else None
        if record is None or report is None:
            return
        request = record.request
        params = about_request(request) | {
            "tool": request.tool,
            "arguments": record.arguments,
            "result": {
                "for_llm": report.detail,
                "is_error": report.execution is Execution.FAILED,
            },
            "duration": (report.duration_ms or 0) * 1_000_000,
        }
        await self._host.intercept("after_tool", params)

    async def _record(self, request_id: str) -> Record | None:
        """Return a request that hooks hear of; None when it is gone, or nobody's."""
        if not request_id:
            return None
        try:
            record = await self._approvals.get(request_id)
        except NotFound:
            return None
        return None if record.canary else record


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
        "meta": _meta(request),
        "context": {"inbound": inbound, "route": {}, "scope": {}},
        "channel": inbound["channel"],
        "chat_id": inbound["chat_id"],
    }


def _meta(request: ApprovalRequest) -> JsonObject:
    return {
        "AgentID": request.agent,
        "TurnID": request.turn or "",
        "ParentTurnID": "",
        "SessionKey": request.session,
        "Iteration": 0,
        "TracePath": request.id,
        "Source": "approval-gateway",
    }


def _wanted(call: ToolCall, changed: ToolCall, answer: Answer, by: str) -> Verdict | None:
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
