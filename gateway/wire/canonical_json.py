"""Strict JSON parsing (`parse`), canonical JSON (`canonical`), digests, and IDs of repeated calls.

`parse` rejects values that JSON parsers read differently. `canonical` writes RFC 8785 bytes, so
that a value has the same digest in every language. The functions work on plain JSON values and do
not import the wire types, because `gateway ask` must start fast.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from gateway.wire.schema import InvalidRequest

try:  # Python's own; `hashlib` loads OpenSSL, see `sha256_hex`
    from _sha2 import sha256 as _small_sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    try:
        from _sha256 import sha256 as _small_sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256 as _small_sha256  # type: ignore[no-redef,unused-ignore]

MAX_BYTES = 1_048_576
MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1
"""JSON libraries read larger integers differently."""
_MOST_BITS, _MOST_DIGITS = 256, 40
_MOST_SMALL = 16_384  # bytes; OpenSSL is faster above this

_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:"|(?>(?:\\.[^"\\]*+)*)"?)|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_NUL = re.compile(rb"\\u0000|\x00")
_SCALARS = frozenset({str, bool, type(None)})
_sorted_json = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
).encode


def parse(raw: bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """Return the value of `raw`, UTF-8 JSON.

    Raises InvalidRequest for more than `max_bytes`, nesting deeper than MAX_DEPTH, duplicate keys,
    NUL characters, lone surrogates or invalid JSON. It also rejects numbers that libraries read
    differently: NaN, infinities, overflows and integers beyond 2**53 - 1.
    """
    if len(raw) > max_bytes:
        raise InvalidRequest(f"the message has {len(raw)} bytes, more than {max_bytes}")
    _check_depth(raw)
    if _NUL.search(raw):
        raise InvalidRequest("the message contains a NUL character")
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_safe,
        )
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the message is not strict JSON: {error}") from error
    if _SURROGATE_ESCAPE.search(raw):
        canonical(value)
    return value


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value.

    Raises InvalidRequest for values that RFC 8785 cannot represent: NaN, lone surrogates, and keys
    or values that are not JSON. Send integers beyond 2**53 - 1 as strings.
    """
    try:
        # For simple values the fast C encoder writes the same bytes as RFC 8785.
        if _is_simple(value):
            return _sorted_json(value).encode()
        import rfc8785  # noqa: PLC0415 (few agents need it)

        return rfc8785.dumps(value)
    except (RecursionError, ValueError) as error:  # the library raises ValueErrors
        if (large := _find_large(value)) is not None:
            raise InvalidRequest(_refuse_large(large)) from error
        raise InvalidRequest(f"the value has no canonical JSON form: {error}") from error


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hex digits."""
    if len(data) <= _MOST_SMALL:
        digest: str = _small_sha256(data).hexdigest()
        return digest
    import hashlib  # noqa: PLC0415 (loading OpenSSL takes longer than the rest of `gateway ask`)

    return hashlib.sha256(data).hexdigest()


def _is_simple(value: Any) -> bool:
    """Return whether the fast encoder writes RFC 8785 bytes for a value. It does if the value has
    no float, no large integer, and only ASCII keys, because UTF-16 may sort other keys
    differently."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                return False
            if type(item) not in _SCALARS and not _is_simple(item):
                return False
        return True
    if kind is list or kind is tuple:
        return all(map(_is_simple, value))
    return kind is int and -MAX_INTEGER <= value <= MAX_INTEGER


def _check_depth(raw: bytes) -> None:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(raw):
        opening = raw[token.start()]
        if opening in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise InvalidRequest(f"the message is nested deeper than {MAX_DEPTH} levels")
        elif opening in b"]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError("an object has the same key twice")
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _safe(text: str) -> int:
    # Check the length first, because converting thousands of digits is slow.
    if len(text) > len(str(-MAX_INTEGER)) or abs(int(text)) > MAX_INTEGER:
        raise ValueError(_refuse_large(text))
    return int(text)


def _find_large(value: Any) -> str | None:
    """Return an integer that is too large for a message, or None."""
    left = [value]
    seen = 0
    while left and (seen := seen + 1) < MAX_BYTES:  # a value may contain itself
        one = left.pop()
        if isinstance(one, int) and abs(one) > MAX_INTEGER:
            return str(one) if one.bit_length() < _MOST_BITS else f"of {one.bit_length()} bits"
        if isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
    return None


def _refuse_large(integer: str) -> str:
    shown = integer if len(integer) <= _MOST_DIGITS else f"{integer[:_MOST_DIGITS]}…"
    return (
        f"the integer {shown} is beyond 2^53 - 1, where programs read numbers differently: "
        "send the number as a string"
    )


WIRE_VERSION = 1


def action_digest(
    *,
    agent: str,
    kind: str,
    tool: str,
    arguments: dict[str, Any],
    payload: dict[str, Any] | None = None,
    context: dict[str, Any],
    questions: Sequence[Any] = (),
) -> str:
    """Return the SHA-256 (hex) of the action and the agent that requests it.

    Leave out absent and default members of `context` and `questions`, like `plain` does.
    """
    covered = {
        "v": WIRE_VERSION,
        "agent": agent,
        "kind": kind,
        "tool": tool,
        "arguments": arguments,
        "payload": payload,
        "context": context,
        "questions": list(questions),
    }
    return sha256_hex(canonical(covered))


# Request IDs for tool calls of coding agents: the same call with the same content gets the same ID.

_ID_CHARS = 32
_WORD = re.compile(r"[A-Za-z0-9]+")
_COUNTED = re.compile(r"[A-Za-z]{0,19}[0-9]{0,9}")
_RANDOM_CHARS = 8


def is_unique(call_id: str, tool: str) -> bool:
    """Return whether a coding agent's call ID looks random, and so identifies one call.

    Some model providers use counters, or repeat `functions.TOOL:0`. So an ID that is a name with a
    number does not identify a call.
    """
    words = _WORD.findall(call_id.replace(tool, " "))
    random = [one for one in words if not _COUNTED.fullmatch(one)]
    return sum(map(len, random)) >= _RANDOM_CHARS


def call_key(agent: str, session: str, call_id: str, part: str) -> str:
    """Return the key that all requests of one part of a call share, as 64 hex digits."""
    return sha256_hex(canonical([agent, session, call_id, part]))


def call_request_id(agent: str, session: str, call_id: str, part: str, digest: str) -> str:
    """Return the request ID of a call. Repeating a call with equal content gives the same ID."""
    text = canonical([agent, session, call_id, part, digest])
    return sha256_hex(text)[:_ID_CHARS]
