"""A signed-in browser of the benchmark, without the page: it lists and decides over HTTP.

Arguments: the gateway's URL, and a login code.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import sys
from time import monotonic_ns
from urllib.parse import urlsplit

from benchmarks.children import serve
from gateway.models import new_id
from gateway.wire.codec import JsonObject


class Browser:
    """A browser's connection, kept open between calls."""

    def __init__(self, url: str, code: str) -> None:
        self._origin = url
        self._line = http.client.HTTPConnection(urlsplit(url).netloc)
        self._headers = {"Origin": url, "Content-Type": "application/json"}
        self._ask("POST", "login", {"code": code})
        self._headers["X-CSRF-Token"] = self._ask("GET", "me")["csrf"]

    async def press(self, request_id: str) -> JsonObject:
        """Open a request and approve it; return when the approval was sent."""
        shown = self._ask("GET", f"requests/{request_id}")
        body = {
            "revision": shown["revision"],
            "action": "approve",
            "nonce": new_id(),
            "seen": shown["seen"],
        }
        began = monotonic_ns()
        self._ask("POST", f"requests/{request_id}/decide", body)
        return {"began": began}

    async def list(self) -> JsonObject:
        """Fetch the first page of pending requests; return its time, rows and size."""
        began = monotonic_ns()
        answer = self._ask("GET", "queue?side=all")
        took = monotonic_ns() - began
        return {"ns": took, "rows": len(answer["items"]), "bytes": len(json.dumps(answer))}

    def _ask(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        text = None if body is None else json.dumps(body)
        self._line.request(method, f"/inbox/api/{path}", body=text, headers=self._headers)
        answer = self._line.getresponse()
        content = answer.read()
        if answer.status != http.client.OK:
            raise RuntimeError(f"{path}: {answer.status} {content!r}")
        if cookie := answer.getheader("Set-Cookie"):
            self._headers["Cookie"] = cookie.partition(";")[0]
        found: JsonObject = json.loads(content)
        return found


async def main() -> None:
    """Sign in, and run the parent's commands."""
    browser = Browser(*sys.argv[1:])
    await serve({"press": browser.press, "list": browser.list})


if __name__ == "__main__":
    asyncio.run(main())
