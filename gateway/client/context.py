"""What this thread or task asks as: its session, its turn, and where its calls come from.

Each thread and task has its own; a task hands it on to those that it starts, such as sub-agents."""

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
"""Stands between the agents of a chain, the outermost first."""

_HASH_CHARS = 32
_READABLE_CHARS = 48
_DERIVED = re.compile(r".*=[0-9a-f]{32}")
_NO_SESSION_CHARACTERS = re.compile(r"[^A-Za-z0-9_.:@/+-]+")

current_session: ContextVar[str] = ContextVar("gateway_session", default=DEFAULT_SESSION)
current_turn: ContextVar[str | None] = ContextVar("gateway_turn", default=None)
current_origin: ContextVar[Origin] = ContextVar("gateway_origin", default=Origin())  # noqa: B039 (it is frozen)


@contextmanager
def session(name: str) -> Iterator[None]:
    """Ask as session `name` inside the block, in this thread or task and those that it starts."""
    token = current_session.set(name)
    try:
        yield
    finally:
        current_session.reset(token)


@contextmanager
def turn(name: str) -> Iterator[None]:
    """Ask as part of this turn inside the block."""
    token = current_turn.set(name)
    try:
        yield
    finally:
        current_turn.reset(token)


@contextmanager
def origin(**members: str) -> Iterator[None]:
    """Say inside the block where requests come from: members of `Origin`, such as `channel`, `chat`
    and `sender`, added to those of the block around it."""
    token = current_origin.set(replace(current_origin.get(), **members))
    try:
        yield
    finally:
        current_origin.reset(token)


@contextmanager
def sub_agent(parent: str) -> Iterator[None]:
    """Ask inside the block on behalf of the agent `parent`, whose own parents stay named before
    it."""
    above = current_origin.get().parent_agent
    with origin(parent_agent=parent if above is None else above + PARENT_ARROW + parent):
        yield


def origin_of(said: Origin | None) -> Origin:
    """Return where a request comes from: the context's origin, with what is said of this one."""
    around = current_origin.get()
    if said is None:
        return around
    given = {one.name: getattr(said, one.name) for one in fields(said)}
    return replace(around, **{name: text for name, text in given.items() if text is not None})


def session_name(text: str) -> str:
    """Return a valid name of a session for any text, such as a host's own key of a conversation.

    It is the text itself where that is a valid name; otherwise what can be read of it and a hash,
    so that two texts never share a name.
    """
    if SESSION_NAME.fullmatch(text) and not _DERIVED.fullmatch(text):
        return text
    readable = _NO_SESSION_CHARACTERS.sub("-", text)[:_READABLE_CHARS]
    raw = text.encode("utf-8", "surrogatepass")
    return f"{readable}={hashlib.sha256(raw).hexdigest()[:_HASH_CHARS]}"
