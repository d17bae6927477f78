"""Who is asking, carried by the context: threads and tasks do not see each other's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.client.blocking import Client

DEFAULT_SESSION = "default"


@dataclass(frozen=True, slots=True)
class Running:
    """The gated tool that runs in this context, so that it can ask again from inside."""

    tool: str
    client: Client


session_name: ContextVar[str] = ContextVar("gateway_session", default=DEFAULT_SESSION)
running_tool: ContextVar[Running | None] = ContextVar("gateway_tool", default=None)


@contextmanager
def session(name: str) -> Iterator[None]:
    """Ask as session `name` inside the block, in this thread or task and what it starts."""
    token = session_name.set(name)
    try:
        yield
    finally:
        session_name.reset(token)


@contextmanager
def running(tool: str, client: Client) -> Iterator[None]:
    """Remember which gated tool runs inside the block, and which client asked for it."""
    token = running_tool.set(Running(tool, client))
    try:
        yield
    finally:
        running_tool.reset(token)
