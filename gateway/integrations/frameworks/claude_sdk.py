"""Claude Agent SDK: answer its permission questions with people's decisions. Start at
`can_use_tool`; a tool for `--permission-prompt-tool` calls `answer_permission_prompt`.

Claude Code does not ask if its own rules or modes allow a call. To gate those calls too, use the
hook that `gateway install claude-code` adds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from gateway.client import AsyncClient, Outcome, OutcomeKind
from gateway.errors import GatewayError, InvalidRequest
from gateway.integrations.coding_agents.claude_code import ClaudeCode, changed_input
from gateway.integrations.coding_agents.hook import HookCall, HookVerdict
from gateway.models import Action, ApprovalRequest, Context, Kind, Origin, Question
from gateway.wire.codec import JsonObject, build

if TYPE_CHECKING:
    from claude_agent_sdk import (
        PermissionResultAllow,
        PermissionResultDeny,
        ToolPermissionContext,
    )

_DIALECT = ClaudeCode()


async def answer_permission_prompt(
    client: AsyncClient, asked: JsonObject, *, session: str | None = None, cwd: str | None = None
) -> JsonObject:
    """Ask people about the call `{tool_name, input, tool_use_id}` in `asked`. Return the JSON that
    Claude Code expects from a permission tool.

    Its `behavior` is allow with `updatedInput`, or deny with `message`. For an error, return a
    denial with the reason.
    """
    given = asked.get("input")
    try:
        call = HookCall(
            event="permission prompt",
            tool=str(asked.get("tool_name") or ""),
            arguments=given if isinstance(given, dict) else {},
            cwd=cwd,
            session=session,
            call_id=str(asked.get("tool_use_id") or "") or None,
        )
        if not isinstance(given, dict):
            raise InvalidRequest("the input of the tool is not a JSON object")
        call.kind = _DIALECT.kinds.get(call.tool, "tool")
        _DIALECT.offer(call)
        outcome = await client.outcome(_make_request(client, call))
    except GatewayError as error:
        return {"behavior": "deny", "message": f"nobody was asked: {error}"}
    return _tell(call, outcome)


def can_use_tool(
    client: AsyncClient, *, session: str | None = None, cwd: str | None = None
) -> Callable[
    [str, dict[str, Any], ToolPermissionContext],
    Awaitable[PermissionResultAllow | PermissionResultDeny],
]:
    """Return the callback for `ClaudeAgentOptions(can_use_tool=…)`. The callback asks through
    `client`, for the given session and working folder."""

    async def ask(
        tool: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        from claude_agent_sdk import (  # noqa: PLC0415 (only who uses the SDK has it)
            PermissionResultAllow,
            PermissionResultDeny,
        )

        call_id = getattr(context, "tool_use_id", None)
        asked = {"tool_name": tool, "input": given, "tool_use_id": call_id}
        told = await answer_permission_prompt(client, asked, session=session, cwd=cwd)
        if told["behavior"] == "allow":
            return PermissionResultAllow(updated_input=told["updatedInput"])
        interrupt = told.get("interrupt", False)
        return PermissionResultDeny(message=told["message"], interrupt=interrupt)

    return ask


def _make_request(client: AsyncClient, call: HookCall) -> ApprovalRequest:
    return client.request(
        call.tool,
        call.arguments,
        kind=Kind(call.kind),
        call_id=call.unique_id,
        context=Context(cwd=call.cwd) if call.cwd else None,
        origin=Origin(framework="claude-agent-sdk", tool_call_id=call.call_id),
        questions=[build(Question, one) for one in call.questions],
        session=None if call.session == "default" else call.session,
        allowed=[Action(one) for one in call.allowed],
    )


def _tell(call: HookCall, outcome: Outcome) -> JsonObject:
    if outcome.kind is OutcomeKind.ANSWERED:
        verdict = HookVerdict("approved", outcome.message, answers=outcome.result)
        return {"behavior": "allow", "updatedInput": changed_input(call, verdict)}
    if outcome.arguments is not None and not call.questions:
        return {"behavior": "allow", "updatedInput": outcome.arguments}
    stop = {"interrupt": True} if outcome.abort else {}
    return {"behavior": "deny", "message": outcome.message, **stop}
