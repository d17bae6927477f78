"""Set the session, turn and origin of requests for a block of code. Start at `session`.

Each thread and task has its own values. A task passes them on to the tasks that it starts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, replace

from gateway.models import Origin
from gateway.wire.schema import SESSION_NAME

DEFAULT_SESSION = "default"
PARENT_ARROW = " > "
"""Separates the agents of a chain, the outermost first."""

_HASH_CHARS = 32
_READABLE_CHARS = 48
_DERIVED = re.compile(r".*=[0-9a-f]{32}")
_NO_SESSION_CHARACTERS = re.compile(r"[^A-Za-z0-9_.:@/+-]+")

current_session: ContextVar[str] = ContextVar("gateway_session", default=DEFAULT_SESSION)
current_turn: ContextVar[str | None] = ContextVar("gateway_turn", default=None)
current_origin: ContextVar[Origin] = ContextVar("gateway_origin", default=Origin())  # noqa: B039 (it is frozen)


@contextmanager
def session(name: str) -> Iterator[None]:
    """Make requests inside the block as part of the session `name`.

    The session is set for this thread or task, and for the tasks that it starts. See `session_name`
    for valid names.
    """
    token = current_session.set(name)
    try:
        yield
    finally:
        current_session.reset(token)


@contextmanager
def turn(name: str) -> Iterator[None]:
    """Make requests inside the block as part of the turn `name`. A turn is one step of the
    model."""
    token = current_turn.set(name)
    try:
        yield
    finally:
        current_turn.reset(token)


@contextmanager
def origin(**members: str) -> Iterator[None]:
    """Set the origin of requests inside the block: members of `Origin`, such as `channel`, `chat`
    and `sender`. Members that only an outer block sets are kept."""
    token = current_origin.set(replace(current_origin.get(), **members))
    try:
        yield
    finally:
        current_origin.reset(token)


@contextmanager
def sub_agent(parent: str) -> Iterator[None]:
    """Mark requests inside the block as made by a sub-agent of `parent`. Nested blocks record the
    whole chain of parents."""
    above = current_origin.get().parent_agent
    with origin(parent_agent=parent if above is None else above + PARENT_ARROW + parent):
        yield


def origin_of(said: Origin | None) -> Origin:
    """Return the context's origin. Members that are set in `said` replace those of the context."""
    around = current_origin.get()
    if said is None:
        return around
    given = {one.name: getattr(said, one.name) for one in fields(said)}
    return replace(around, **{name: text for name, text in given.items() if text is not None})


def session_name(text: str) -> str:
    """Return a valid session name for any string, such as a framework's id of a conversation.

    A valid name is returned unchanged, unless it looks like a result of this function. Otherwise
    the name consists of the valid characters and a hash, so that two strings never have one name.
    """
    if SESSION_NAME.fullmatch(text) and not _DERIVED.fullmatch(text):
        return text
    readable = _NO_SESSION_CHARACTERS.sub("-", text)[:_READABLE_CHARS]
    raw = text.encode("utf-8", "surrogatepass")
    return f"{readable}={hashlib.sha256(raw).hexdigest()[:_HASH_CHARS]}"
