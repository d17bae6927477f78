"""Which waiting requests are the same to whoever reads their card, what stands for a crowd, and
what cards say of both."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from gateway.domain.records import GROUP_MARK, Record
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import plain

_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoad:
    """What is kept of an agent's digest card. `denied` is the id of the request whose denial paused
    the agent."""

    revision: int
    paused: int | None = None
    denied: str | None = None


def crowd_of(agent: str) -> str:
    """Return what stands for the requests that wait behind an agent's digest card."""
    return GROUP_MARK + agent


def likeness(record: Record) -> str:
    """Return what equal requests of one agent share: 16 hex digits.

    It covers everything that would run and that the card shows, who may decide, and the session;
    not ids, the process, the turn, or how long to wait. It never changes over a record's life.
    """
    request = record.request
    shared: tuple[Any, ...] = (
        request.digest,
        request.session,
        record.route,
        record.owner,
        request.hint,
        request.allowed,
        plain(replace(request.origin, tool_call_id=None)),
        request.preview and plain(request.preview),
        request.schema,
        request.risk and plain(request.risk),
        # What the card offers to remember goes by them. Without them it is as it always was.
        *((request.roles, request.harmless) if request.roles or request.harmless else ()),
    )
    return sha256_hex(json.dumps(shared).encode())[:_LENGTH]


def company(record: Record) -> tuple[str, ...]:
    """Say on a card who waits behind it, or that it has none of its own in chats."""
    if record.final:
        return ()
    said = []
    if record.alike:
        one = record.alike == 1
        said.append(
            f"{record.alike} more request{' asks' if one else 's ask'} exactly this. "
            f"A denial is for {'both' if one else 'all'}, an approval for this one only."
        )
    if record.behind:
        said.append("It has no card in chats: another asks the same, or too many wait.")
    return tuple(said)
