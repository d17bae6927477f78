"""`gateway bridge opencode`: answer the questions of OpenCode's server through the gateway.

OpenCode has no blocking hook. Its server publishes each question as an event, lists open questions,
and accepts an answer over HTTP, without a time limit. The bridge submits one request per question,
with an id from OpenCode's id. So a restarted bridge finds its pending requests.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import logging
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import quote

from gateway.client import AsyncClient, Outcome, OutcomeKind, session_name
from gateway.errors import GatewayError
from gateway.integrations.bridges.host_http import FollowingBridge, HostApi, run_follower
from gateway.models import Action, ApprovalRequest, Context, Kind, Origin, Reason
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.integrations")

SILENCE_SECONDS = 60.0
"""The stream ends after this silence. OpenCode sends a keepalive every 10 seconds."""
_AGAIN_SECONDS = 1.0
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_KINDS = {"bash": Kind.COMMAND, "edit": Kind.FILE_CHANGE}
_OK = 200

Pause = Callable[[float], Awaitable[None]]


class OpenCodeApi(HostApi):
    """The HTTP API of OpenCode's server."""

    def __init__(self, url: str, password: str | None, user: str = "opencode") -> None:
        super().__init__(url, None, prefix="")
        if password:
            known = base64.b64encode(f"{user}:{password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {known}"

    async def pending(self) -> list[JsonObject]:
        """Return the open questions. Raises OSError."""
        status, found = await self.call("GET", "/permission")
        if status != _OK or not isinstance(found, list):
            raise ConnectionError(f"OpenCode did not list its open questions: status {status}")
        return [one for one in found if isinstance(one, dict)]

    async def folder(self, session: str) -> str | None:
        """Return the folder of a session, None if it is unknown. Raises OSError."""
        _, found = await self.call("GET", f"/session/{quote(session, safe='')}")
        told = found.get("directory") if isinstance(found, dict) else None
        return told if isinstance(told, str) else None


class OpenCodeBridge(FollowingBridge):
    """Ask the gateway about OpenCode's questions, and post the decisions to OpenCode."""

    def __init__(
        self, client: AsyncClient, api: OpenCodeApi, *, pause: Pause = asyncio.sleep
    ) -> None:
        super().__init__("OpenCode", client, api, pause)
        self._api = api

    async def follow(self) -> None:
        """Follow the events until this task is cancelled."""
        while True:
            try:
                await self._api.stream("/event", self.take, silence=SILENCE_SECONDS)
            except OSError as error:
                log.warning("the events of OpenCode ended: %s", error)
            await self._pause(_AGAIN_SECONDS)

    async def look(self) -> None:
        """Handle the open questions, and cancel the requests of closed questions. Raises
        OSError."""
        pending = await self._api.pending()
        there = {one.get("id") for one in pending}
        for name in [name for name in self._waiting if name not in there]:
            await self._withdraw(name)
        for one in pending:
            self._take_asked(one)

    def take(self, event: Any) -> None:
        """Handle one event. An invalid event is skipped."""
        kind = event.get("type") if isinstance(event, dict) else None
        told = event.get("properties") if isinstance(event, dict) else None
        if kind == "server.connected":  # no event announces the earlier questions
            self._tasks.start(self._look_again())
        elif kind == "permission.asked" and isinstance(told, dict):
            self._take_asked(told)
        elif kind == "permission.replied" and isinstance(told, dict):
            name = told.get("requestID", told.get("permissionID"))
            if isinstance(name, str):
                self._tasks.start(self._withdraw(name))

    async def _look_again(self) -> None:
        try:
            await self.look()
        except OSError as error:
            log.warning("OpenCode did not list its open questions: %s", error)

    def _take_asked(self, asked: JsonObject) -> None:
        name = asked.get("id")
        if not isinstance(name, str) or not _ID.fullmatch(name):
            log.warning("skipped a question of OpenCode without an id")
        elif self._is_new(name):
            self._tasks.start(self._deal_with(name, asked))

    async def _deal_with(self, name: str, asked: JsonObject) -> None:
        """Ask about one question, and answer OpenCode. Without an approval, the answer is a
        rejection."""
        try:
            request = await self._make_request(name, asked)
        except (ValueError, OSError, GatewayError) as error:
            await self._reply(name, {"reply": "reject", "message": f"nobody was asked: {error}"})
            return
        self._waiting[name] = request
        try:
            outcome = await self._client.outcome(request)
        except GatewayError as error:
            outcome = Outcome(kind=OutcomeKind.UNREACHABLE, message=f"nobody was asked: {error}")
        still_asked = self._waiting.pop(name, None) is not None
        if outcome.kind is OutcomeKind.APPROVED:
            await self._reply(name, {"reply": "once"})
        elif still_asked:
            await self._reply(name, {"reply": "reject", "message": outcome.message})
            if outcome.abort:
                await self._post(
                    f"/session/{quote(str(asked.get('sessionID')), safe='')}/abort", {}
                )

    async def _make_request(self, name: str, asked: JsonObject) -> ApprovalRequest:
        tool, session = asked.get("permission"), asked.get("sessionID")
        if not isinstance(tool, str) or not isinstance(session, str):
            raise ValueError("OpenCode's question has no permission or no session")
        called = asked.get("tool")
        call = called.get("callID") if isinstance(called, dict) else None
        known = asked.get("metadata")
        arguments: JsonObject = dict(known) if isinstance(known, dict) else {}
        arguments["patterns"] = asked.get("patterns", [])
        return self._client.request(
            tool,
            arguments,
            kind=_KINDS.get(tool, Kind.TOOL),
            call_id=name,
            context=Context(cwd=await self._api.folder(session)),
            origin=Origin(
                framework="opencode", tool_call_id=call if isinstance(call, str) else None
            ),
            session=session_name(session),
            allowed=(Action.APPROVE, Action.DENY, Action.ABORT),
        )

    async def _withdraw(self, name: str) -> None:
        """Cancel the request of a question that was answered in OpenCode."""
        request = self._waiting.pop(name, None)
        if request is not None:
            words = "the question was answered in OpenCode"
            await self._client.cancel(request, reason=Reason.RESOLVED_ELSEWHERE, message=words)

    async def _reply(self, name: str, body: JsonObject) -> None:
        await self._post(f"/permission/{name}/reply", body)


def main(argv: Sequence[str]) -> int:
    """Run `gateway bridge opencode`; return the exit code."""
    parser = argparse.ArgumentParser(prog="gateway bridge opencode", description=__doc__)
    parser.add_argument(
        "--url", default="http://127.0.0.1:4096", help="URL at which OpenCode's server listens"
    )
    options = parser.parse_args(argv)
    key = os.environ.get("OPENCODE_SERVER_PASSWORD")
    return run_follower(
        lambda client: OpenCodeBridge(client, OpenCodeApi(options.url, key)), options.url
    )
