"""A session's passes as a card offers them: after every other offer, and never in their place."""

from __future__ import annotations

from gateway.domain.records import Record
from gateway.policy.grants.coverage import covers
from gateway.policy.grants.grant import (
    ANY_TOOL,
    LONGEST_PASS_MS,
    PASSES,
    Effect,
    Grant,
    Match,
    MatchResult,
    Shape,
)
from gateway.policy.grants.remember_offers import LIFETIMES, Offer
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import plain

_ID_LENGTH = 16
# How long a pass may last: no longer than a working day, and never until it is revoked.
PASS_LIFETIMES = tuple(
    name for name, _, length in LIFETIMES if length is not None and length <= LONGEST_PASS_MS
)


def passes_for(record: Record) -> tuple[Offer, ...]:
    """Return the passes that would let this very request through, narrow first.

    None for a canary, nor for what shows signs of danger, which a pass never lets through.
    """
    if record.canary or record.findings:
        return ()
    context = record.request.context
    return tuple(
        _offer(shape, pass_words(shape, context.cwd, context.host), context.host)
        for shape in PASSES
        if _covers(shape, record)
    )


def find_pass(record: Record, offer_id: str) -> Offer | None:
    """Return the pass with this id, if it is still offered for the request as it stands."""
    return next((one for one in passes_for(record) if one.id == offer_id), None)


def pass_words(shape: Shape, folder: str | None = None, host: str | None = None) -> str:
    """Say what a pass lets through. `folder` and `host` are where the agent works now."""
    place = f" (now {folder}{f' on {host}' if host else ''})" if folder else ""
    below = f"below where the agent works{place}"
    ends = "secrets and files that run later require approval"
    if shape is Shape.EDITS:
        return f"creating, changing and moving files {below}, not deleting; {ends}"
    if shape is Shape.WORK:
        return (
            f"reading, searching, creating, changing and moving files {below}, by tools and "
            f"commands known to do no more; {ends}"
        )
    return (
        "running the project's tests, builds and scripts, which can do whatever the agent's user "
        f"can, and reading, searching and changing files {below}; {ends}"
    )


def _offer(shape: Shape, words: str, host: str | None) -> Offer:
    match = Match(shape=shape, tool=ANY_TOOL, host=host)
    offer_id = sha256_hex(canonical(plain(match)))[:_ID_LENGTH]
    return Offer(id=offer_id, words=words, match=match)


def _covers(shape: Shape, record: Record) -> bool:
    grant = Grant(
        id="0" * 32,
        effect=Effect.ALLOW,
        agent=record.request.agent,
        session=record.request.session,
        match=Match(shape=shape, tool=ANY_TOOL),
        made_by="",
        made_at=0,
        expires_at=LONGEST_PASS_MS,
    )
    return covers(grant, record) is MatchResult.YES
