"""One strict way into JSON and one canonical way out.

`parse` refuses what JSON parsers disagree about; `canonical` writes RFC 8785 bytes, so that the
same
value has the same digest in every language. Size and depth are bounded before anything is built.
"""

import hashlib
import json
import re
from typing import Any, NoReturn

import rfc8785

from gateway.errors import InvalidRequest

MAX_BYTES = 1_048_576
MAX_DEPTH = 64

_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_NUL = re.compile(rb"\\u0000|\x00")


def parse(raw: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """Return the value of `raw`, UTF-8 JSON.

    Raises InvalidRequest for more than `max_bytes`, deeper nesting than `max_depth`, duplicate
    keys, NaN and infinities, NUL characters, lone surrogates, and anything that is not JSON.
    """
    if len(raw) > max_bytes:
        raise InvalidRequest(f"the message has {len(raw)} bytes, more than {max_bytes}")
    _check_depth(raw, max_depth)
    if _NUL.search(raw):
        raise InvalidRequest("the message holds a NUL character")
    try:
        value = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the message is not strict JSON: {error}") from error
    if _SURROGATE_ESCAPE.search(raw):
        canonical(value)
    return value


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value.

    Raises InvalidRequest for what RFC 8785 cannot carry: integers beyond 2**53 - 1 (send them as
    strings), NaN, lone surrogates, keys that are not strings, and values that are not JSON.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError, ValueError) as error:
        raise InvalidRequest(f"the value has no canonical JSON form: {error}") from error


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def _check_depth(raw: bytes, max_depth: int) -> None:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(raw):
        opening = raw[token.start()]
        if opening in b"[{":
            depth += 1
            if depth > max_depth:
                raise InvalidRequest(f"the message nests deeper than {max_depth}")
        elif opening in b"]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice in one object")
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
