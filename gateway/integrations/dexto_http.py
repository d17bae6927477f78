"""The two directions of HTTP between Dexto and the bridge: its API, and its webhooks."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gateway.errors import GatewayError
from gateway.integrations.dexto_messages import BadMessage
from gateway.integrations.host_http import HostApi
from gateway.wire.canonical_json import parse

SIGNATURE = "X-Dexto-Signature-256"
ATTEMPT = "X-Dexto-Delivery-Attempt"

_MOST_BODY = 4 * 1024 * 1024
_CALL_SECONDS = 10.0
_OK, _BAD, _UNSIGNED, _TOO_LARGE = 200, 400, 401, 413

Take = Callable[..., None]


class DextoApi(HostApi):
    """Calls Dexto's HTTP API."""

    def __init__(self, url: str, key: str | None) -> None:
        super().__init__(url, key, prefix="/api")


def sign(body: bytes, secret: str) -> str:
    """Return the signature of a delivery."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


class Listener(ThreadingHTTPServer):
    """Receives deliveries, and hands the signed ones to the event loop."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], take: Take, secret: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(address, _Delivery)
        self._take = take
        self._secret = secret
        self._loop = loop
        self._thread = threading.Thread(
            target=self.serve_forever, args=(0.05,), name="webhooks", daemon=True
        )

    def __enter__(self) -> Listener:
        """Listen in a thread."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop."""
        self.shutdown()
        self.server_close()

    def take(self, body: bytes, signature: str, attempt: str) -> tuple[int, str]:
        """Hand a delivery over; return the status and a sentence for the answer."""
        if not hmac.compare_digest(signature.encode(), sign(body, self._secret).encode()):
            return _UNSIGNED, "the signature is missing or wrong"

        async def hand_over() -> None:
            count = int(attempt) if attempt.isascii() and attempt.isdigit() else 1
            self._take(parse(body), attempt=max(count, 1))

        try:
            asyncio.run_coroutine_threadsafe(hand_over(), self._loop).result(_CALL_SECONDS)
        except (BadMessage, GatewayError) as error:
            return _BAD, str(error)
        return _OK, "taken"


class _Delivery(BaseHTTPRequestHandler):
    timeout = _CALL_SECONDS
    server: Listener

    def do_POST(self) -> None:
        """Take one delivery."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= _MOST_BODY):
            self._answer(_TOO_LARGE, "send a Content-Length of at most 4 MiB")
            return
        body = self.rfile.read(int(length))
        given = self.headers.get(SIGNATURE, ""), self.headers.get(ATTEMPT, "1")
        self._answer(*self.server.take(body, *given))

    def _answer(self, status: int, words: str) -> None:
        body = json.dumps({"message": words}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the bridge logs what matters."""
