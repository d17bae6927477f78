"""Computes the digest of an action, over plain JSON values.

Used by the wire types, and by `gateway ask`, which does not import them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.wire.canonical_json import canonical, sha256_hex

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
    """Return the SHA-256 (hex) over the action and the agent that it runs for.

    Absent and default members of `context` and `questions` must be left out, as `plain` does.
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
