"""The request of a host's call: the same call with the same content is the same request."""

from __future__ import annotations

import re

from gateway.wire.canonical_json import canonical, sha256_hex

_ID_CHARS = 32
_WORD = re.compile(r"[A-Za-z0-9]+")
_COUNTED = re.compile(r"[A-Za-z]{0,19}[0-9]{0,9}")
_RANDOM_CHARS = 8


def is_unique(call_id: str, tool: str) -> bool:
    """Whether a host's id of a call looks random, so that no other call has the same one.

    Some model providers count, or repeat `functions.TOOL:0`: a name and a number tell no two calls
    apart.
    """
    words = _WORD.findall(call_id.replace(tool, " "))
    random = [one for one in words if not _COUNTED.fullmatch(one)]
    return sum(map(len, random)) >= _RANDOM_CHARS


def call_key(agent: str, session: str, call_id: str, part: str) -> str:
    """Return what all requests of one part of a host's call have in common, as 64 hex digits."""
    return sha256_hex(canonical([agent, session, call_id, part]))


def call_request_id(agent: str, session: str, call_id: str, part: str, digest: str) -> str:
    """Return the id of the request of a call: the same for the same call with the same content."""
    text = canonical([agent, session, call_id, part, digest])
    return sha256_hex(text)[:_ID_CHARS]
