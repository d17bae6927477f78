"""The request of a host's call: the same call with the same content is the same request."""

from __future__ import annotations

from gateway.wire.canonical_json import canonical, sha256_hex

_ID_CHARS = 32


def call_key(agent: str, session: str, call_id: str, part: str) -> str:
    """Return what all requests of one part of a host's call have in common, as 64 hex digits."""
    return sha256_hex(canonical([agent, session, call_id, part]))


def call_request_id(agent: str, session: str, call_id: str, part: str, digest: str) -> str:
    """Return the id of the request of a call: the same for the same call with the same content."""
    text = canonical([agent, session, call_id, part, digest])
    return sha256_hex(text)[:_ID_CHARS]
