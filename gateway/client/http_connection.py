"""One HTTP/1.1 connection to the gateway over a plain socket: small, strict, bounded in time.

`http.client` imports the email package, which would cost each tool call 18 ms. A response that is
not plain HTTP/1.1 of known length is refused.
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from gateway.client.error_codes import error_of
from gateway.client.http_response import HttpResponse, MalformedResponse, read_response
from gateway.errors import InvalidRequest, Unreachable

TIMEOUT_SECONDS = 10.0
_BATCH = 65_536
_FIRST_REFUSAL = 400
_URL = re.compile(r"(https?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(/[^?#]*)?")
_NOT_OURS = "something answered that is not the gateway"


class HttpConnection:
    """Calls one gateway with one bearer token. Stays open between calls; not thread-safe."""

    def __init__(
        self, url: str, token: str, *, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """`meanwhile` is called once, after the first call is sent and before its answer."""
        found = _URL.fullmatch(url)
        if found is None or not _is_header_safe(url):
            raise InvalidRequest("the gateway's address must be http(s)://HOST[:PORT][/PATH]")
        if not _is_header_safe(token):
            raise InvalidRequest("the token holds what no token holds; was it copied whole?")
        scheme, host, port, path = found.groups()
        self._tls = scheme == "https"
        self._host, self._port = host.strip("[]"), int(port or (443 if self._tls else 80))
        self._name = f"{host}:{port}" if port else host
        self._prefix = (path or "").rstrip("/")
        self._token = token
        self._socket: socket.socket | None = None
        self._fresh = True
        self._cut = False
        self._meanwhile = meanwhile

    def call(
        self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT_SECONDS
    ) -> Any:
        """Return the JSON response. See `exchange`."""
        return self.exchange(method, path, body, timeout=timeout)[0]

    def exchange(
        self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT_SECONDS
    ) -> tuple[Any, str]:
        """Return the JSON response within `timeout` seconds, and its `Date`. Raises
        Unreachable, or the exception for the gateway's error code.

        When the gateway has closed the kept connection, the call is repeated once on a new one:
        calls are idempotent.
        """
        message = self._message(method, path, body)
        until = time.monotonic() + timeout
        try:
            try:
                response = self._exchange(message, until)
            except ConnectionError:
                if self._cut or self._fresh:
                    raise
                response = self._exchange(message, until)
        except (OSError, MalformedResponse) as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"the gateway at {self._name} does not answer: {why}") from error
        return _decode_body(response), response.fields.get("date", "")

    def close(self) -> None:
        """Disconnect; a later call connects again."""
        held, self._socket = self._socket, None
        if held is not None:
            held.close()

    def cut(self) -> None:
        """End for good, from any thread: a call under way raises Unreachable."""
        self._cut = True
        if (held := self._socket) is not None:
            # Closing alone would not wake a thread that is blocked in recv.
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # already disconnected

    def __enter__(self) -> HttpConnection:
        """Use inside `with` to have it closed."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    def _message(self, method: str, path: str, body: Any) -> bytes:
        if not _is_header_safe(path):
            raise InvalidRequest(f"{path!r} is no path")
        raw = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {self._prefix}{path} HTTP/1.1",
            f"Host: {self._name}",
            f"Authorization: Bearer {self._token}",
            "Accept: application/json",
            f"Content-Length: {len(raw)}",
        ]
        if raw:
            lines.append("Content-Type: application/json")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + raw

    def _exchange(self, message: bytes, until: float) -> HttpResponse:
        if self._socket is not None and not _is_idle(self._socket):
            self.close()
        self._fresh = self._socket is None
        held = self._socket = self._socket or self._connect(until)
        kept = False
        try:
            if self._cut:
                raise ConnectionAbortedError("the call was cut off")
            held.settimeout(_seconds_left(until))
            held.sendall(message)
            meanwhile, self._meanwhile = self._meanwhile, None
            if meanwhile is not None:
                meanwhile()

            def more() -> bytes:
                held.settimeout(_seconds_left(until))
                return held.recv(_BATCH)

            response = read_response(more)
            kept = response.keep_open
            return response
        finally:
            if not kept:
                self.close()

    def _connect(self, until: float) -> socket.socket:
        # As bytes: for text the interpreter loads its tables for names in other scripts, 2 ms.
        host: Any = self._host.encode() if self._host.isascii() else self._host
        address = (host, self._port)
        held = socket.create_connection(address, timeout=_seconds_left(until))
        if not self._tls:
            return held
        import ssl  # noqa: PLC0415 (costs 4 ms, and the gateway on this machine needs none of it)

        try:
            return ssl.create_default_context().wrap_socket(held, server_hostname=self._host)
        except BaseException:
            held.close()
            raise


def _is_header_safe(text: str) -> bool:
    """Whether a text can be put into a header without starting a new line or field."""
    return text.isascii() and text.isprintable() and " " not in text and text != ""


def _is_idle(kept: socket.socket) -> bool:
    """Whether a kept connection is usable: not closed, and without unasked data."""
    poll = select.poll()
    poll.register(kept, select.POLLIN)
    return not poll.poll(0)


def _seconds_left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _decode_body(response: HttpResponse) -> Any:
    try:
        value = json.loads(response.content) if response.content else None
    except (ValueError, RecursionError) as error:
        raise Unreachable(_NOT_OURS) from error
    if response.status >= _FIRST_REFUSAL:
        problem = value if isinstance(value, dict) else {}
        detail = problem.get("detail") or problem.get("title") or response.reason
        raise error_of(
            str(problem.get("code", "")),
            str(detail),
            response.status,
            retry_after=response.fields.get("retry-after"),
        )
    return value
