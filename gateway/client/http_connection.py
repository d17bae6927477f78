"""Call the gateway with HTTP/1.1 over plain sockets. Start at HttpConnection, in threads HttpPool.

The code is small and strict, has time limits, and rejects an ambiguous response."""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from gateway.client.check_decision import error_of
from gateway.errors import InvalidRequest, Unreachable
from gateway.wire.canonical_json import sha256_hex

_MOST_HEAD = 65_536
_MOST_CONTENT = 64 * 1_048_576
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")
_TOKEN = b"!#$%&'*+.^_`|~-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEXADECIMAL = b"0123456789abcdefABCDEF"
_LONGEST_NUMBER = 12
_ONCE = frozenset({"content-length", "transfer-encoding"})
_INTERIM, _REDIRECT, _REFUSAL = 200, 300, 400
_NO_CONTENT = 204


class MalformedResponse(Exception):
    """The response is not valid, or uses HTTP features that the client does not support."""


class HttpResponse:
    """One complete response. `keep_open` says whether a later call can use the connection."""

    def __init__(
        self, status: int, reason: str, fields: dict[str, str], content: bytes, keep_open: bool
    ) -> None:
        self.status = status
        self.reason = reason
        self.fields = fields
        self.content = content
        self.keep_open = keep_open


def seconds_left(state: Any, date: str) -> float | None:
    """Return the seconds until the deadline of a request, by the server's clock in the `Date`
    header. Returns None if the request has ended or a value is malformed."""
    if not isinstance(state, dict) or state.get("status") != "pending":
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 (14 ms, only for a wait)

    try:
        return float(state["deadline"]) / 1000 - parsedate_to_datetime(date).timestamp()
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


def read_response(more: Callable[[], bytes]) -> HttpResponse:
    """Read one response. `more` returns the next bytes, or no bytes at the end of the connection.

    Raises MalformedResponse, ConnectionError if the connection ends early, and the errors of
    `more`.
    """
    pieces = _Pieces(more)
    status, reason, fields, keep_open = _head(pieces)
    while status < _INTERIM:  # such as "100 Continue"
        status, reason, fields, keep_open = _head(pieces)
    if _REDIRECT <= status < _REFUSAL:
        raise MalformedResponse(f"the response is a redirect (status {status})")
    content = b"" if status == _NO_CONTENT else _content(pieces, fields)
    return HttpResponse(status, reason, fields, content, keep_open and not pieces.buffered)


class _Pieces:
    """Splits the received bytes into lines and blocks."""

    def __init__(self, more: Callable[[], bytes]) -> None:
        self._more = more
        self.buffered = bytearray()

    def line(self) -> bytes:
        """Return the next line without its end."""
        while (end := self.buffered.find(b"\r\n")) < 0:
            if len(self.buffered) > _MOST_HEAD:
                raise MalformedResponse("a header line is too long")
            self._grow()
        return self._cut(end, 2)

    def block(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        while len(self.buffered) < size:
            self._grow()
        return self._cut(size, 0)

    def _grow(self) -> None:
        data = self._more()
        if not data:
            raise ConnectionResetError("the connection was closed")
        self.buffered += data

    def _cut(self, size: int, end: int) -> bytes:
        data = bytes(self.buffered[:size])
        del self.buffered[: size + end]
        return data


def _head(pieces: _Pieces) -> tuple[int, str, dict[str, str], bool]:
    version, _, rest = pieces.line().partition(b" ")
    code, _, reason = rest.partition(b" ")
    status = _number(code.decode("latin-1"))
    if version not in _VERSIONS or status is None:
        raise MalformedResponse("the response is not HTTP/1.1")
    fields: dict[str, str] = {}
    left = _MOST_HEAD
    while line := pieces.line():
        left -= len(line)
        name, value = _field(line)
        if left < 0 or (name in fields and name in _ONCE):
            raise MalformedResponse("the header is ambiguous, or too long")
        fields[name] = value
    keep_open = version == _VERSIONS[1] and fields.get("connection", "").lower() != "close"
    return status, reason.decode("latin-1"), fields, keep_open


def _field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.partition(b":")
    stray = any(byte in value for byte in b"\r\n\0")
    if not colon or not name or name.strip(_TOKEN) or stray:
        raise MalformedResponse("a header field is malformed")
    return name.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")


def _number(text: str) -> int | None:
    plain = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if plain else None


def _content(pieces: _Pieces, fields: dict[str, str]) -> bytes:
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if fields.get("content-encoding", "identity").lower() != "identity":
        raise MalformedResponse("the response is compressed")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise MalformedResponse("the length of the response is ambiguous")
        return _chunks(pieces)
    size = None if length is None else _number(length)
    if size is None:
        raise MalformedResponse("the response does not state its length")
    if size > _MOST_CONTENT:
        raise MalformedResponse("the response is too long")
    return pieces.block(size)


def _chunks(pieces: _Pieces) -> bytes:
    content = bytearray()
    while True:
        size_text = pieces.line().partition(b";")[0].strip(b" \t")
        if not size_text or size_text.strip(_HEXADECIMAL) or len(size_text) > _LONGEST_NUMBER:
            raise MalformedResponse("a chunk has no length")
        size = int(size_text, 16)
        if len(content) + size > _MOST_CONTENT:
            raise MalformedResponse("the response is too long")
        if size == 0:
            break
        content += pieces.block(size)
        if pieces.line():
            raise MalformedResponse("a chunk is longer than announced")
    while pieces.line():
        pass  # trailer fields are ignored
    return bytes(content)


# One HTTP/1.1 connection to the gateway over a plain socket.
#
# `http.client` imports the email package, which would cost each tool call 18 ms. The client rejects
# a response that is not plain HTTP/1.1 of known length.

TIMEOUT_SECONDS = 10.0
_BATCH = 65_536
_FIRST_REFUSAL = 400
_URL = re.compile(r"(https?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(/[^?#]*)?")
_NOT_OURS = "the reply did not come from a gateway: check GATEWAY_URL"


class HttpConnection:
    """Call one gateway with one bearer token. Stays open between calls. Not thread-safe."""

    def __init__(
        self, url: str, token: str, *, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """Prepare a connection; the first call opens it. Raises InvalidRequest for a bad URL or
        token. `meanwhile` is called once, after the first call was sent and before its response is
        read."""
        found = _URL.fullmatch(url)
        if found is None or not _is_header_safe(url):
            raise InvalidRequest("the gateway's address must be http(s)://HOST[:PORT][/PATH]")
        if not _is_header_safe(token):
            raise InvalidRequest(
                "the token contains characters that no token contains: copy the token again"
            )
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
        """Return the JSON response within `timeout` seconds, and its `Date` header. Raises
        Unreachable, or the exception for the gateway's error code.

        If the gateway has closed an open connection, the idempotent call is repeated once on a new
        one.
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
            raise Unreachable(f"the gateway at {self._name} does not respond: {why}") from error
        return _decode_body(response), response.fields.get("date", "")

    def close(self) -> None:
        """Disconnect. A later call connects again."""
        held, self._socket = self._socket, None
        if held is not None:
            held.close()

    def cut(self) -> None:
        """Close the connection permanently, from any thread. A running call raises Unreachable."""
        self._cut = True
        if (held := self._socket) is not None:
            # Closing alone would not wake a thread that is blocked in recv.
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # already disconnected

    def __enter__(self) -> HttpConnection:
        """Return this connection, so that `with` closes it."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Disconnect."""
        self.close()

    def _message(self, method: str, path: str, body: Any) -> bytes:
        if not _is_header_safe(path):
            raise InvalidRequest(f"{path!r} is not a valid path")
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
        # Pass bytes: for text the interpreter loads tables for names in other scripts, 2 ms.
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
    """Return whether a string can be put into a header without starting a new line or field."""
    return text.isascii() and text.isprintable() and " " not in text and text != ""


def _is_idle(kept: socket.socket) -> bool:
    """Return whether an open connection is usable: not closed, and without unexpected data."""
    poll = select.poll()
    poll.register(kept, select.POLLIN)
    return not poll.poll(0)


def _seconds_left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("the call timed out")
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


# Blocking HTTP for many threads: a pool of connections to one gateway.


class HttpPool:
    """Call one gateway with one bearer token from several threads. Keeps idle connections."""

    def __init__(self, url: str, token: str) -> None:
        from threading import Lock  # noqa: PLC0415 (a single connection needs none of it)

        self._url, self._token = url, token
        self._idle = [HttpConnection(url, token)]
        self._busy: set[HttpConnection] = set()
        self._lock = Lock()
        self._closed = False

    def fingerprint(self) -> str:
        """Return a hash that identifies this gateway and token without revealing them."""
        return sha256_hex(f"{self._url}\n{self._token}".encode())

    def call(
        self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT_SECONDS
    ) -> Any:
        """Return the JSON response. Raises as `HttpConnection.exchange` does."""
        return self.exchange(method, path, body, timeout=timeout)[0]

    def exchange(
        self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT_SECONDS
    ) -> tuple[Any, str]:
        """Return the JSON response and its `Date`. Raises as `HttpConnection.exchange` does."""
        connection = self._take()
        try:
            return connection.exchange(method, path, body, timeout=timeout)
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Close idle connections, and abort running calls."""
        with self._lock:
            self._closed = True
            for connection in self._busy:
                connection.cut()
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def __enter__(self) -> HttpPool:
        """Return this pool, so that `with` closes its connections."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close all connections."""
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
