"""The session that this thread or task belongs to. Each thread and task has its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

DEFAULT_SESSION = "default"

session_name: ContextVar[str] = ContextVar("gateway_session", default=DEFAULT_SESSION)


@contextmanager
def session(name: str) -> Iterator[None]:
    """Ask as session `name` inside the block, in this thread or task and those that it starts."""
    token = session_name.set(name)
    try:
        yield
    finally:
        session_name.reset(token)
