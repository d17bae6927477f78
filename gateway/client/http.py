"""Blocking HTTP with the standard library, for `gateway ask`, hook shims and the HTTP transport."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

from gateway.client.problems import error_of
from gateway.errors import InvalidRequest, Unreachable

_TIMEOUT_SECONDS = 10.0


class Http:
    """Calls one gateway with one bearer token. Idle connections are kept; thread-safe."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidRequest(f"{url!r} is no http or https URL")
        self._parts = parts
        self._token = token
        self._idle: list[http.client.HTTPConnection] = []
        self._busy: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()
        self._closed = False

    def call(
        self, method: str, path: str, body: Any = None, *, timeout: float = _TIMEOUT_SECONDS
    ) -> Any:
        """Return the JSON answer. Raises Unreachable, or what the gateway's problem stands for.

        A kept connection that the gateway has closed meanwhile is replaced once: calls are
        idempotent.
        """
        raw = None if body is None else json.dumps(body).encode()
        while True:
            connection, kept = self._take(timeout)
            try:
                return self._exchange(connection, method, path, raw)
            except (OSError, http.client.HTTPException) as error:
                if self._closed or not kept:
                    raise Unreachable(
                        f"the gateway at {self._parts.netloc} does not answer: "
                        f"{error or type(error).__name__}"
                    ) from error
            finally:
                with self._lock:
                    self._busy.discard(connection)

    def close(self) -> None:
        """End idle connections, and cut calls that still wait."""
        with self._lock:
            self._closed = True
            for connection in (*self._idle, *self._busy):
                if connection.sock is not None:
                    # Closing alone would leave a thread blocked in recv.
                    with _ignored_when_gone():
                        connection.sock.shutdown(socket.SHUT_RDWR)
                connection.close()
            self._idle.clear()

    def __enter__(self) -> Http:
        """Use inside `with` to have its connections closed."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    def _take(self, timeout: float) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            kept = bool(self._idle)
            connection = self._idle.pop() if kept else self._connection()
            connection.timeout = timeout
            if connection.sock is not None:
                connection.sock.settimeout(timeout)
            self._busy.add(connection)
        return connection, kept

    def _connection(self) -> http.client.HTTPConnection:
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
            connection.request(method, self._parts.path.rstrip("/") + path, raw, headers)
            answer = connection.getresponse()
            content = answer.read()
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        value = _json(content)
        if answer.status >= http.client.BAD_REQUEST:
            problem = value if isinstance(value, dict) else {}
            detail = problem.get("detail") or problem.get("title") or answer.reason
            raise error_of(str(problem.get("code", "")), str(detail), answer.status)
        return value


def _json(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError as error:
        raise Unreachable("something answered that is not the gateway") from error


class _ignored_when_gone:
    def __enter__(self) -> None:
        """Enter."""

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        """Swallow only what says that the peer is gone already."""
        return isinstance(error, OSError)
