"""Blocking HTTP with the standard library, for `gateway ask`, hook shims and the HTTP transport."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from gateway import errors
from gateway.canonical import parse
from gateway.errors import GatewayError, InvalidRequest, NotFound, Unauthorized, Unreachable

Renew = Callable[[str], str]

_TIMEOUT_SECONDS = 10.0
_MOST_BYTES = 64 * 1024 * 1024  # an answer may list 200 requests of a megabyte's order
_BY_CODE: dict[str, type[GatewayError]] = {
    kind.code: kind
    for kind in (errors.InvalidRequest, errors.Conflict, Unauthorized, NotFound, Unreachable)
}
_BY_STATUS: dict[int, type[GatewayError]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    408: Unreachable,
    429: Unreachable,
}
_SERVER_ERROR = 500


def error_of(code: str, detail: str, status: int = 400) -> GatewayError:
    """Return the error that the gateway's code stands for."""
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status)
    if kind is None:
        kind = Unreachable if status >= _SERVER_ERROR else InvalidRequest
    return kind(detail)


class Http:
    """Calls one gateway with one bearer token. Idle connections are kept; thread-safe.

    `url` is http, https, or unix:///path of a socket. When the token is refused, `renew` is given it
    and returns a new one, once per call.
    """

    def __init__(self, url: str, token: str, renew: Renew | None = None) -> None:
        parts = urlsplit(url)
        if not (parts.path if parts.scheme == "unix" else parts.hostname) or (
            parts.scheme not in ("http", "https", "unix")
        ):
            raise InvalidRequest(f"{url!r} is no http, https or unix URL")
        self._parts = parts
        self._prefix = "" if parts.scheme == "unix" else parts.path.rstrip("/")
        self._token = token
        self._renew = renew
        self._idle: list[http.client.HTTPConnection] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()
        self._closed = False

    def call(
        self, method: str, path: str, body: Any = None, *, timeout: float = _TIMEOUT_SECONDS
    ) -> Any:
        """Return the JSON answer. Raises Unreachable, or what the gateway's problem stands for."""
        token = self._token
        try:
            return self._call(method, path, body, timeout)
        except Unauthorized:
            if self._renew is None:
                raise
        with self._lock:
            if self._token == token:  # else another thread was faster
                self._token = self._renew(token)
        return self._call(method, path, body, timeout)

    def close(self) -> None:
        """End idle connections, and cut calls that still wait."""
        with self._lock:
            self._closed = True
            for connection in (*self._idle, *self._busy):
                _cut(connection)
            self._idle.clear()

    def _call(self, method: str, path: str, body: Any, timeout: float) -> Any:
        """Exchange once; twice when a kept connection was closed meanwhile: calls are idempotent."""
        raw = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        while True:
            connection, kept = self._take(timeout)
            try:
                return self._exchange(connection, method, path, raw)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if self._closed or not kept or isinstance(error, TimeoutError):
                    raise Unreachable(
                        f"the gateway at {self._parts.netloc or self._parts.path} does not answer: "
                        f"{error or type(error).__name__}"
                    ) from error
            finally:
                with self._lock:
                    self._busy.discard(connection)

    def _take(self, timeout: float) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._closed:
                raise Unreachable("the connection to the gateway was closed")
            kept = bool(self._idle)
            connection = self._idle.pop() if kept else self._connection()
            connection.timeout = timeout
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            self._busy.add(connection)
        return connection, kept

    def _connection(self) -> http.client.HTTPConnection:
        if self._parts.scheme == "unix":
            return _UnixConnection(self._parts.path)
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port)
        return http.client.HTTPConnection(host, port)

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, path: str, raw: bytes | None
    ) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if raw is not None:
            headers["Content-Type"] = "application/json"
        try:
            if connection.sock is None:
                connection.connect()
                if self._closed:  # while connecting, when there was nothing yet to cut
                    raise ConnectionError("the connection was closed")
            connection.request(method, self._prefix + path, raw, headers)
            answer = connection.getresponse()
            content = answer.read(_MOST_BYTES + 1)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)
        return _value(answer.status, answer.reason, content)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _cut(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):  # the other side was faster
            # Closing alone would leave a thread blocked in recv.
            connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def _value(status: int, reason: str, content: bytes) -> Any:
    try:
        value = parse(content, max_bytes=_MOST_BYTES) if content else None
    except InvalidRequest as error:
        raise Unreachable(
            f"something answered (status {status}) that is not the gateway: {error}"
        ) from error
    if status < http.client.BAD_REQUEST:
        return value
    problem = value if isinstance(value, dict) else {}
    detail = problem.get("detail") or problem.get("title") or reason
    raise error_of(str(problem.get("code", "")), str(detail), status)
