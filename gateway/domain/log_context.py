"""Add the ids of the work at hand to log lines; start at `log_about`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gateway.domain.records import StoredRequest
from gateway.models import DeciderKind

_ABOUT: ContextVar[dict[str, str] | None] = ContextVar("log_about", default=None)


@contextmanager
def log_about(**ids: str) -> Iterator[None]:
    """Add these ids (`request`, `agent`, `grant`, …) to each log line within the block.

    Lines of tasks that the block starts have them too. An inner block adds to the outer one.
    """
    token = _ABOUT.set({**(_ABOUT.get() or {}), **_known(ids)})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def log_also(**ids: str) -> None:
    """Add ids that became known only within the innermost block. Does nothing outside a block."""
    about = _ABOUT.get()
    if about is not None:
        about.update(_known(ids))


def log_also_of(record: StoredRequest) -> None:
    """Like `log_also`, with the ids of a request, its agent, and the grant that decided it."""
    by = record.decision.decided_by if record.decision else None
    grant = by.name if by and by.kind is DeciderKind.GRANT else ""
    log_also(request=record.id, agent=record.request.agent, grant=grant)


def add_ids(record: logging.LogRecord) -> bool:
    """Filter of a log handler: give a record the ids. A member of the record itself wins."""
    for name, value in (_ABOUT.get() or {}).items():
        record.__dict__.setdefault(name, value)
    return True


def _known(ids: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in ids.items() if value}
