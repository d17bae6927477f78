"""Someone who is signed in and speaks HTTP without a page, as a script in a stolen tab would."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from gateway.domain.records import StoredRequest
from gateway.models import new_id
from gateway.wire.codec import JsonObject
from tests.web.inbox import Inbox


@dataclass
class Visitor:
    """A session over HTTP."""

    http: aiohttp.ClientSession
    url: str
    token: str = ""

    async def get(self, path: str) -> JsonObject:
        """Return what a call answers."""
        async with self.http.get(f"{self.url}/inbox/api/{path}") as answer:
            assert answer.status == 200, await answer.text()
            found: JsonObject = await answer.json()
            return found

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, JsonObject]:
        """Send a write as our own page does; return status and answer."""
        sent = {"X-CSRF-Token": self.token, **headers}
        async with self.http.post(
            f"{self.url}/inbox/api/{path}", json=body, headers=sent
        ) as answer:
            return answer.status, await answer.json()

    async def shown(self, record: StoredRequest, *, whole: bool = True) -> JsonObject:
        """Return a request as the page gets it."""
        return await self.get(f"requests/{record.id}{'?whole=1' if whole else ''}")

    async def decide(
        self, record: StoredRequest, action: str = "approve", **more: Any
    ) -> tuple[int, Any]:
        """Look at the whole request, and decide."""
        shown = await self.shown(record)
        body = {"revision": shown["revision"], "action": action, "nonce": new_id(), **more}
        if shown["seen"] and "seen" not in body:
            body["seen"] = shown["seen"]
        return await self.post(f"requests/{record.id}/decide", body)


@asynccontextmanager
async def visitor(box: Inbox, person: str = "ann") -> AsyncIterator[Visitor]:
    """Yield someone signed in."""
    url = box.gateway.url
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.CookieJar(unsafe=True), headers={"Origin": url}
    ) as http:
        made = Visitor(http, url)
        code = await box.gateway.backend.logins.invite(person)
        status, _ = await made.post("login", {"code": code})
        assert status == 200
        made.token = (await made.get("me"))["csrf"]
        yield made
