"""Blocking HTTP for many threads: a pool of connections to one gateway."""

from __future__ import annotations

import threading
from typing import Any

from gateway.client.http_connection import TIMEOUT_SECONDS, HttpConnection
from gateway.errors import Unreachable


class HttpPool:
    """Calls one gateway with one bearer token. Keeps idle connections; thread-safe."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url, token
        self._idle = [HttpConnection(url, token)]
        self._busy: set[HttpConnection] = set()
        self._lock = threading.Lock()
        self._closed = False

    def call(
        self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT_SECONDS
    ) -> Any:
        """Return the JSON response. Raises as `HttpConnection.exchange`."""
        return self.exchange(method, path, body, timeout=timeout)[0]

    def exchange(
        self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT_SECONDS
    ) -> tuple[Any, str]:
        """Return the JSON response and its `Date`. Raises as `HttpConnection.exchange`."""
        connection = self._take()
        try:
            return connection.exchange(method, path, body, timeout=timeout)
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Close idle connections, and cut off calls under way."""
        with self._lock:
            self._closed = True
            for connection in self._busy:
                connection.cut()
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def __enter__(self) -> HttpPool:
        """Use inside `with` to have its connections closed."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close."""
        self.close()

    def _take(self) -> HttpConnection:
        with self._lock:
            if self._closed:
                raise Unreachable("this client is closed")
            connection = self._idle.pop() if self._idle else HttpConnection(self._url, self._token)
            self._busy.add(connection)
        return connection

    def _give_back(self, connection: HttpConnection) -> None:
        with self._lock:
            self._busy.discard(connection)
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)
