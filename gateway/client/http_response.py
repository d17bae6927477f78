"""Reads one HTTP/1.1 response; refuses what is ambiguous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    """The response cannot be read."""


class HttpResponse:
    """One complete response. `keep_open`: the connection can carry another call."""

    def __init__(
        self, status: int, reason: str, fields: dict[str, str], content: bytes, keep_open: bool
    ) -> None:
        self.status = status
        self.reason = reason
        self.fields = fields
        self.content = content
        self.keep_open = keep_open


def seconds_left(state: Any, date: str) -> float | None:
    """Return how long a request still has, by the server's own clock in the `Date` of its answer;
    None where that cannot be read, or where it has ended."""
    if not isinstance(state, dict) or state.get("status") != "pending":
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 (only for who waits: 14 ms)

    try:
        return float(state["deadline"]) / 1000 - parsedate_to_datetime(date).timestamp()
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


def read_response(more: Callable[[], bytes]) -> HttpResponse:
    """Read one response; `more` returns the next bytes, none at the end.

    Raises MalformedResponse, ConnectionError when the connection ends early, and what `more`
    raises.
    """
    pieces = _Pieces(more)
    status, reason, fields, keep_open = _head(pieces)
    while status < _INTERIM:  # such as "100 Continue"
        status, reason, fields, keep_open = _head(pieces)
    if _REDIRECT <= status < _REFUSAL:
        raise MalformedResponse(f"it redirects ({status})")
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
                raise MalformedResponse("a line has no end")
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
        raise MalformedResponse("that is not HTTP/1.1")
    fields: dict[str, str] = {}
    left = _MOST_HEAD
    while line := pieces.line():
        left -= len(line)
        name, value = _field(line)
        if left < 0 or (name in fields and name in _ONCE):
            raise MalformedResponse("its header is ambiguous, or too long")
        fields[name] = value
    keep_open = version == _VERSIONS[1] and fields.get("connection", "").lower() != "close"
    return status, reason.decode("latin-1"), fields, keep_open


def _field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.partition(b":")
    stray = any(byte in value for byte in b"\r\n\0")
    if not colon or not name or name.strip(_TOKEN) or stray:
        raise MalformedResponse("its header cannot be read")
    return name.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")


def _number(text: str) -> int | None:
    plain = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if plain else None


def _content(pieces: _Pieces, fields: dict[str, str]) -> bytes:
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if fields.get("content-encoding", "identity").lower() != "identity":
        raise MalformedResponse("it is compressed")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise MalformedResponse("its length is not plain")
        return _chunks(pieces)
    size = None if length is None else _number(length)
    if size is None:
        raise MalformedResponse("its length is not given")
    if size > _MOST_CONTENT:
        raise MalformedResponse("it is too long")
    return pieces.block(size)


def _chunks(pieces: _Pieces) -> bytes:
    content = bytearray()
    while True:
        size_text = pieces.line().partition(b";")[0].strip(b" \t")
        if not size_text or size_text.strip(_HEXADECIMAL) or len(size_text) > _LONGEST_NUMBER:
            raise MalformedResponse("a chunk has no length")
        size = int(size_text, 16)
        if len(content) + size > _MOST_CONTENT:
            raise MalformedResponse("it is too long")
        if size == 0:
            break
        content += pieces.block(size)
        if pieces.line():
            raise MalformedResponse("a chunk is longer than announced")
    while pieces.line():
        pass  # trailer fields are ignored
    return bytes(content)
