"""Reads one HTTP/1.1 answer, and refuses what it cannot read without guessing."""

from __future__ import annotations

from collections.abc import Callable

_MOST_HEAD = 65_536
_MOST_CONTENT = 64 * 1_048_576
_VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")
_TOKEN = b"!#$%&'*+.^_`|~-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEXADECIMAL = b"0123456789abcdefABCDEF"
_LONGEST_NUMBER = 12
_ONCE = frozenset({"content-length", "transfer-encoding"})
_INTERIM, _REDIRECT, _REFUSAL = 200, 300, 400
_NO_CONTENT = 204


class Malformed(Exception):
    """What came is no answer that we read."""


class Answer:
    """One whole answer. `keeps`: the connection can carry another call."""

    def __init__(
        self, status: int, reason: str, fields: dict[str, str], content: bytes, keeps: bool
    ) -> None:
        self.status = status
        self.reason = reason
        self.fields = fields
        self.content = content
        self.keeps = keeps


def read_answer(more: Callable[[], bytes]) -> Answer:
    """Read one answer; `more` returns the next bytes, none at the end.

    Raises Malformed, ConnectionError when the connection ends too early, and what `more` raises.
    """
    pieces = _Pieces(more)
    status, reason, fields, keeps = _head(pieces)
    while status < _INTERIM:  # "go on" and its like come before the answer
        status, reason, fields, keeps = _head(pieces)
    if _REDIRECT <= status < _REFUSAL:
        raise Malformed(f"it sends us elsewhere ({status})")
    content = b"" if status == _NO_CONTENT else _content(pieces, fields)
    return Answer(status, reason, fields, content, keeps and not pieces.buffered)


class _Pieces:
    """Cuts what arrives into lines and blocks."""

    def __init__(self, more: Callable[[], bytes]) -> None:
        self._more = more
        self.buffered = bytearray()

    def line(self) -> bytes:
        """Return the next line without its end."""
        while (end := self.buffered.find(b"\r\n")) < 0:
            if len(self.buffered) > _MOST_HEAD:
                raise Malformed("a line has no end")
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
        raise Malformed("that is not HTTP/1.1")
    fields: dict[str, str] = {}
    left = _MOST_HEAD
    while line := pieces.line():
        left -= len(line)
        name, value = _field(line)
        if left < 0 or (name in fields and name in _ONCE):
            raise Malformed("its header is ambiguous, or too long")
        fields[name] = value
    keeps = version == _VERSIONS[1] and fields.get("connection", "").lower() != "close"
    return status, reason.decode("latin-1"), fields, keeps


def _field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.partition(b":")
    stray = any(byte in value for byte in b"\r\n\0")
    if not colon or not name or name.strip(_TOKEN) or stray:
        raise Malformed("its header cannot be read")
    return name.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")


def _number(text: str) -> int | None:
    plain = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if plain else None


def _content(pieces: _Pieces, fields: dict[str, str]) -> bytes:
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if fields.get("content-encoding", "identity").lower() != "identity":
        raise Malformed("it is compressed")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise Malformed("its length is not plain")
        return _chunks(pieces)
    size = None if length is None else _number(length)
    if size is None:
        raise Malformed("its length is not told")
    if size > _MOST_CONTENT:
        raise Malformed("it is too long")
    return pieces.block(size)


def _chunks(pieces: _Pieces) -> bytes:
    content = bytearray()
    while True:
        told = pieces.line().partition(b";")[0].strip(b" \t")
        if not told or told.strip(_HEXADECIMAL) or len(told) > _LONGEST_NUMBER:
            raise Malformed("a piece of it has no length")
        size = int(told, 16)
        if len(content) + size > _MOST_CONTENT:
            raise Malformed("it is too long")
        if size == 0:
            break
        content += pieces.block(size)
        if pieces.line():
            raise Malformed("a piece of it is longer than told")
    while pieces.line():
        pass  # trailing fields say nothing to us
    return bytes(content)
