"""A Dexto server as strict as its documented contract: webhooks out, approvals in.

The published package cannot be installed, so this stands for it. It keeps webhooks and waiting
approvals in memory, signs deliveries, tries each three times, refuses what the body's schema does
not allow, and emits a response event however an approval ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web

KEY = "server-key"
REASONS = {
    *("user_denied", "system_denied", "timeout", "user_cancelled", "system_cancelled"),
    *("validation_failed", "elicitation_disabled"),
}


@dataclass
class Waiting:
    """An approval that Dexto waits for; `ended` becomes its response."""

    request: dict[str, Any]
    ended: asyncio.Future[dict[str, Any]]

    @property
    def id(self) -> str:
        """The `approvalId`."""
        return str(self.request["approvalId"])

    async def response(self) -> dict[str, Any]:
        """Return how it ended."""
        async with asyncio.timeout(20):
            return await self.ended


@dataclass
class DextoHost:
    """The server; tests tell it what its agent does."""

    http: aiohttp.ClientSession
    url: str = ""
    webhooks: dict[str, dict[str, Any]] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    refused: list[dict[str, Any]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    takes_reasons: bool = True
    answers: int = 0

    async def ask(self, type: str = "tool_approval", **members: Any) -> Waiting:
        """Wait for an approval, and deliver the event that says so."""
        request = {
            "approvalId": str(uuid.uuid4()),
            "type": type,
            "sessionId": "session-1",
            "timeout": 60_000,
            "timestamp": datetime.now(UTC).isoformat(),  # noqa: TID251 (a host's own clock)
            **members,
        }
        kept = {name: value for name, value in request.items() if value is not None}
        one = Waiting(kept, asyncio.get_running_loop().create_future())
        self.waiting[one.id] = one
        await self.emit("approval:request", kept)
        return one

    async def call(self, tool: str, call: str = "call_1", /, **args: Any) -> Waiting:
        """Wait for leave to call a tool."""
        return await self.ask(metadata={"toolName": tool, "toolCallId": call, "args": args})

    async def end(self, one: Waiting, status: str, reason: str) -> None:
        """End an approval here: a person answered in Dexto's own page, or its time ran out."""
        del self.waiting[one.id]
        await self._respond(one, {"status": status, "reason": reason})

    async def emit(self, kind: str, data: dict[str, Any]) -> list[int]:
        """Deliver an event to every webhook; return the last status of each."""
        event = {"id": f"evt_{uuid.uuid4()}", "type": kind, "data": data, "created": "now",
                 "apiVersion": "2025-07-03"}  # fmt: skip
        body = json.dumps(event).encode()
        return [await self._deliver(hook, body) for hook in list(self.webhooks.values())]

    def restart(self) -> None:
        """Forget everything that is kept in memory."""
        self.webhooks.clear()
        self.waiting.clear()

    async def _deliver(self, hook: dict[str, Any], body: bytes) -> int:
        signed = hmac.new(hook["secret"].encode(), body, hashlib.sha256).hexdigest()
        status = 0
        for attempt in range(1, 4):
            headers = {
                "Content-Type": "application/json",
                "X-Dexto-Signature-256": f"sha256={signed}",
                "X-Dexto-Delivery-Attempt": str(attempt),
            }
            async with self.http.post(hook["url"], data=body, headers=headers) as answer:
                status = answer.status
                if answer.ok:
                    break
        return status

    async def _respond(self, one: Waiting, response: dict[str, Any]) -> None:
        one.ended.set_result(response)
        ids = {"approvalId": one.id, "sessionId": one.request.get("sessionId")}
        await self.emit("approval:response", {**ids, **response})

    # ---------------------------------------------------------------- its HTTP API

    async def register(self, request: web.Request) -> web.Response:
        """Register a webhook."""
        body = await request.json()
        assert set(body) <= {"url", "secret", "description"}
        one = {**body, "id": f"wh_{uuid.uuid4()}"}
        self.webhooks[one["id"]] = one
        told = {"id": one["id"], "url": one["url"], "createdAt": "now"}
        return web.json_response({"webhook": told}, status=201)

    async def show(self, request: web.Request) -> web.Response:
        """Show or remove a webhook."""
        found = self.webhooks.get(request.match_info["id"])
        if found is None:
            return web.json_response({"error": "Webhook not found"}, status=404)
        if request.method == "DELETE":
            del self.webhooks[found["id"]]
        return web.json_response({"status": "removed"})

    async def decide(self, request: web.Request) -> web.Response:
        """Take an answer, as strictly as the schema says."""
        body = await request.json()
        self.answers += 1
        if self.failures:
            return web.json_response({}, status=self.failures.pop(0))
        if not self._fits(body):
            self.refused.append(body)
            return web.json_response({"error": "validation"}, status=400)
        one = self.waiting.pop(request.match_info["id"], None)
        if one is None:
            return web.json_response({"code": "approval_not_found"}, status=404)
        await self._respond(one, body)
        return web.json_response({"ok": True, "approvalId": one.id, "status": body["status"]})

    def _fits(self, body: dict[str, Any]) -> bool:
        approved = body.get("status") == "approved"
        takes = {"rememberChoice": bool, "formData": dict}
        if not approved:
            takes = {"reason": str, "message": str} if self.takes_reasons else {}
        return (
            body.get("status") in ("approved", "denied", "cancelled")
            and body.get("reason", "timeout") in REASONS
            and all(
                name == "status" or isinstance(value, takes.get(name, ()))
                for name, value in body.items()
            )
        )


@web.middleware
async def _authenticated(request: web.Request, handler: Any) -> web.StreamResponse:
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return web.json_response({"error": "unauthorized"}, status=401)
    answer: web.StreamResponse = await handler(request)
    return answer


@asynccontextmanager
async def dexto_host() -> AsyncIterator[DextoHost]:
    """Run a Dexto server that requires its key."""
    async with aiohttp.ClientSession() as http:
        host = DextoHost(http)
        app = web.Application(middlewares=[_authenticated])
        app.add_routes(
            [
                web.post("/api/webhooks", host.register),
                web.get("/api/webhooks/{id}", host.show),
                web.delete("/api/webhooks/{id}", host.show),
                web.post("/api/approvals/{id}", host.decide),
            ]
        )
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield host
        finally:
            await runner.cleanup()
