"""`gateway mcp server`: serve tools to ask people, and Claude Code's permission prompt. See
AskTools.

If a model does not call these tools, nothing stops its actions. The permission prompt does gate the
calls that Claude Code asks about.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import anyio
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

from gateway.client import AsyncClient, Outcome, OutcomeKind
from gateway.client.approval import outcome_of
from gateway.errors import GatewayError, NotFound
from gateway.integrations.coding_agents.claude_code import REQUEST, ClaudeCode
from gateway.integrations.coding_agents.hook import HookCall, HookVerdict
from gateway.integrations.mcp.calls import LONGEST_CLIENT, PROGRESS_SECONDS, Connect, end
from gateway.models import (
    Action,
    ApprovalRequest,
    FieldKind,
    Kind,
    Option,
    Origin,
    Question,
    Reason,
    new_id,
)
from gateway.wire.codec import JsonObject, build

FRAMEWORK = "mcp-server"
ASKING, QUESTION = "mcp__gateway__request_approval", "mcp__gateway__ask_human"
MOST_SECONDS = 300.0
"""The longest wait of one call in seconds. After that, `check_approval` continues."""

_WAIT = 50.0
_DETAILS = {
    "type": "object",
    "properties": {"action": {"type": "string"}, "details": {"type": "object"}},
    "required": ["action", "details"],
    "additionalProperties": False,
}
_PROMPT = ClaudeCode()

T = TypeVar("T")
Seconds = Annotated[
    float, Field(ge=0, le=MOST_SECONDS, description="how many seconds to wait for people")
]


class AskTools:
    """The tools of one process. One agent makes all the requests."""

    def __init__(
        self,
        connect: Connect,
        *,
        timeout: float | None = None,
        progress_seconds: float = PROGRESS_SECONDS,
    ) -> None:
        self._connect = connect
        self._timeout = timeout
        self._progress_seconds = progress_seconds
        self._session = f"mcp-server-{new_id()[:12]}"
        self._tasks: set[asyncio.Task[Any]] = set()

    def server(self) -> MCPServer:
        """Return an MCP server with the tools."""
        server = MCPServer(
            "approval-gateway",
            instructions="Ask a person before anything that cannot be undone, or when you are not "
            "sure. While a status is `pending`, call check_approval; do nothing meanwhile.",
        )
        for tool in (self.request_approval, self.check_approval, self.ask_human):
            server.tool()(tool)
        server.tool(structured_output=False)(self.permission_prompt)
        return server

    async def serve(self, streams: tuple[Any, Any]) -> None:
        """Serve one client until it ends, then cancel the requests that the client did not wait
        for."""
        server = self.server()._lowlevel_server  # the server's own `run` would take the pipes
        try:
            await server.run(*streams, server.create_initialization_options())
        finally:
            with anyio.CancelScope(shield=True):
                await end(self._tasks)

    async def request_approval(
        self,
        context: Context,
        action: Annotated[str, Field(description="exactly what you want to do, as it would run")],
        details: Annotated[dict[str, Any], Field(description="the arguments of the call")] = {},  # noqa: B006 (a schema)
        reason: Annotated[str, Field(description="why")] = "",
        wait_seconds: Seconds = _WAIT,
    ) -> dict[str, Any]:
        """Ask a person to approve an action before you take it, and wait for the answer.

        Act only if `status` is approved or edited: once, and exactly as `action` and `details` in
        the answer say. If `status` is pending, call check_approval with the `id`. Without an
        approval, do not act; nothing else prevents the action.
        """
        given = {"action": action, "details": details}
        allowed = (Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT)
        return await self._ask(
            context, ASKING, given, wait_seconds, hint=reason, allowed=allowed, schema=_DETAILS
        )

    async def ask_human(
        self,
        context: Context,
        question: str,
        options: Annotated[list[str], Field(description="the answers to choose from")] = [],  # noqa: B006 (a schema)
        wait_seconds: Seconds = _WAIT,
    ) -> dict[str, Any]:
        """Ask a person a question, and wait for the answer.

        If `status` is pending, call check_approval with the `id`.
        """
        choices = tuple(Option(value=one) for one in options)
        kind = FieldKind.CHOICE if choices else FieldKind.TEXT
        asked = Question(id="answer", text=question, kind=kind, options=choices)
        return await self._ask(
            context, QUESTION, {"question": question}, wait_seconds,
            kind=Kind.QUESTION, questions=(asked,), allowed=(Action.ANSWER, Action.DENY),
        )  # fmt: skip

    async def check_approval(
        self, context: Context, id: str, wait_seconds: Seconds = 0.0
    ) -> dict[str, Any]:
        """Return the answer to an earlier call of request_approval or ask_human.

        You get an approval only once. If `status` is already_used, you got the approval before and
        must not act on it again.
        """
        try:
            client = await self._connect()
            record = (await client.fetch(id)).record
            if record is None or record.request.origin.framework != FRAMEWORK:
                # Another part of this agent waits for it, and this would claim its approval.
                raise NotFound(f"these tools have not submitted a request {id!r}")
            waiting = outcome_of(client.wait_id(id, timeout=wait_seconds))
            return _tell(id, await self._wait(context, waiting))
        except GatewayError as error:
            return {"status": "unknown", "id": id, "message": str(error)}

    async def permission_prompt(
        self,
        context: Context,
        tool_name: str,
        input: dict[str, Any],
        tool_use_id: str | None = None,
    ) -> str:
        """Answer Claude Code's --permission-prompt-tool. Models must not call this tool."""
        try:
            asked = _PROMPT.read(
                {
                    "hook_event_name": REQUEST,
                    "tool_name": tool_name,
                    "tool_input": input,
                    "tool_use_id": tool_use_id,
                }
            )
            client = await self._connect()
            request = client.request(
                asked.tool,
                asked.arguments,
                kind=Kind(asked.kind),
                questions=[build(Question, one) for one in asked.questions],
                origin=_origin(context, _PROMPT.host),
                call_id=asked.unique_id,
                session=self._session,
                allowed=[Action(one) for one in asked.allowed],
                timeout=self._timeout,
            )
            request = replace(request, shows_number=False)  # nobody sees the output under `-p`
            outcome = await self._wait(context, client.outcome(request))
            told = _behavior(asked, outcome)
        except GatewayError as error:
            told = _refuse(f"nobody could be asked: {error}")
        return json.dumps(told, ensure_ascii=False)

    async def _ask(
        self, context: Context, tool: str, arguments: JsonObject, seconds: float, **details: Any
    ) -> JsonObject:
        """Submit a request, wait up to `seconds`, and return the result for the model. Cancelling
        this call cancels the request."""
        try:
            client = await self._connect()
            request = client.request(
                tool, arguments, origin=_origin(context, FRAMEWORK), session=self._session,
                timeout=self._timeout, **details,
            )  # fmt: skip
            outcome = await self._submit_and_wait(context, client, request, seconds)
        except GatewayError as error:
            words = f"nobody could be asked: {error}"
            return {"status": str(OutcomeKind.UNREACHABLE), "message": words}
        return _tell(request.id, outcome)

    async def _submit_and_wait(
        self, context: Context, client: AsyncClient, request: ApprovalRequest, seconds: float
    ) -> Outcome:
        try:
            pending = await client.submit(request)
            return await self._wait(context, outcome_of(client.wait(pending, timeout=seconds)))
        except asyncio.CancelledError:
            self._keep(client.cancel(request, reason=Reason.ABANDONED))  # nobody else knows its id
            raise

    async def _wait(self, context: Context, waiting: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Wait for an outcome, and send progress notes. Cancelling this call ends the wait."""
        task = self._keep(waiting)
        told = 0
        try:
            while not (await asyncio.wait({task}, timeout=self._progress_seconds))[0]:
                told += 1
                await context.report_progress(told, message="waiting for an answer")
            return task.result()
        finally:
            task.cancel()

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _origin(context: Context, framework: str) -> Origin:
    """Return the origin of a call, with the client name that the client claims."""
    told = context.session.client_params
    client = f"{told.client_info.name} {told.client_info.version}" if told else ""
    return Origin(framework=framework, channel=client[:LONGEST_CLIENT] or None)


def _tell(request_id: str, outcome: Outcome) -> JsonObject:
    """Convert an outcome to the result that the model reads."""
    told: JsonObject = {
        "status": str(outcome.kind), "id": request_id, "message": outcome.message,
    }  # fmt: skip
    if outcome.runs and outcome.arguments is not None:
        told |= outcome.arguments
    elif outcome.kind is OutcomeKind.ANSWERED:
        told["answer"] = outcome.result["answer"]
    elif outcome.kind is OutcomeKind.RESPONDED:
        told["result"] = outcome.result
    return told


def _behavior(asked: HookCall, outcome: Outcome) -> JsonObject:
    """Convert an outcome to a decision in Claude Code's format."""
    answered = outcome.kind is OutcomeKind.ANSWERED
    if not answered and not (outcome.runs and outcome.arguments is not None):
        return _refuse(outcome.message, interrupt=outcome.kind is OutcomeKind.ABORTED)
    answers = outcome.result if answered else None
    yes = HookVerdict("approved", outcome.message, arguments=outcome.arguments, answers=answers)
    said = _PROMPT.answer(asked, yes).output or {}
    decision: JsonObject = said["hookSpecificOutput"]["decision"]
    return decision


def _refuse(words: str, *, interrupt: bool = False) -> JsonObject:
    return {"behavior": "deny", "message": words, **({"interrupt": True} if interrupt else {})}
