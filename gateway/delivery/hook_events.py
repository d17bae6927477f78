"""Send events and tool results to the operator's hooks (`HookEvents`)."""

from __future__ import annotations

import asyncio
import logging

from gateway.domain.records import AuditEvent, StoredRequest
from gateway.domain.store import Store
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.errors import Unreachable
from gateway.models import Execution
from gateway.policy.hooks import HookHost, about_request, meta_of
from gateway.ports import Feed

log = logging.getLogger("gateway.delivery")

_MOST_RETURNED = 1000  # results that hooks have not seen yet
_KINDS = {
    Execution.STARTED: "tool_exec_start",
    Execution.SUCCEEDED: "tool_exec_end",
    Execution.FAILED: "tool_exec_end",
    Execution.SKIPPED: "tool_exec_skipped",
    Execution.REFUSED_LATE: "tool_exec_skipped",
    Execution.NEVER_FETCHED: "tool_exec_skipped",
}


class HookEvents:
    """Sends the events of requests and the results of tools to the hooks."""

    def __init__(self, host: HookHost, store: Store, feed: Feed) -> None:
        self._host = host
        self._store = store
        self._feed = feed
        # Only IDs, because the results may be large.
        self._returned: asyncio.Queue[str] = asyncio.Queue(_MOST_RETURNED)

    async def run(self) -> None:
        """Follow the event stream until cancelled. A hook that handles a tool result slowly does
        not delay events."""
        asking = asyncio.create_task(self._ask(), name="hooks after tools")
        try:
            while True:
                await self._follow()
        finally:
            await cancel_and_wait(asking)

    async def _follow(self) -> None:
        try:
            async with self._feed.changes() as events:
                async for event in events:
                    await self._handle(event)
        except Unreachable as behind:
            log.warning("policy hooks missed events: %s", behind, extra={"event": "hooks_missed"})

    async def _handle(self, event: AuditEvent) -> None:
        record = await self._record(event.request_id)
        if record is None:
            return
        report = record.report if event.type in ("reported", "never_fetched") else None
        kind = _KINDS[report.execution] if report else event.type
        request = record.request
        payload = {"Tool": request.tool, "Arguments": record.arguments}
        self._host.tell(kind, {"Kind": kind, "Meta": meta_of(request), "Payload": payload})
        if kind != "tool_exec_end" or not self._host.list_interceptors("after_tool"):
            return
        try:
            self._returned.put_nowait(request.id)
        except asyncio.QueueFull:
            log.warning(
                "policy hooks are too slow to get the result of %s",
                request.id,
                extra={"event": "hooks_missed", "request": request.id, "agent": request.agent},
            )

    async def _ask(self) -> None:
        """Show tool results to hooks one after the other. Hooks cannot change a result, because the
        tool has run and the agent has the result."""
        while True:
            request_id = await self._returned.get()
            try:
                await self._after_tool(request_id)
            except Exception:
                # After any error, continue with the next result.
                log.exception(
                    "policy hooks did not get the result of %s",
                    request_id,
                    extra={"event": "hooks_missed", "request": request_id},
                )

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
                "for_user": "",
                "silent": False,
                "is_error": report.execution is Execution.FAILED,
                "async": False,
                "media": [],
                "artifact_tags": [],
                "response_handled": False,
            },
            "duration": (report.duration_ms or 0) * 1_000_000,
        }
        await self._host.intercept("after_tool", params)

    async def _record(self, request_id: str) -> StoredRequest | None:
        """Return the request of an event, or None if it does not exist any more."""
        return await self._store.load(request_id) if request_id else None
