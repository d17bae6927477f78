"""An operation of the API: the function that handles a call, with what it takes and answers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from gateway.api.call import ApiCall
from gateway.wire.codec import Wire

Handle = Callable[[ApiCall], Awaitable[web.StreamResponse]]
Answers = Mapping[int, type | tuple[type, ...] | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing(Wire):
    """No body, no query string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A handler and its messages. `id` is the operationId of the OpenAPI document.

    `answers` maps a status to what comes back: a message's class, several of them, or a media type.
    `refusals` are the statuses of problems beside those that every route of its kind has.
    """

    id: str
    handle: Handle
    answers: Answers
    query: type
    body: type | None
    refusals: tuple[int, ...]

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (inspect.getdoc(self.handle) or "").partition("\n")[0]


def operation(
    operation_id: str,
    answers: Answers,
    *refusals: int,
    query: type = Nothing,
    body: type | None = None,
) -> Callable[[Handle], Operation]:
    """Return the decorator that makes a handler an operation."""

    def declare(handle: Handle) -> Operation:
        return Operation(
            id=operation_id,
            handle=handle,
            answers=answers,
            query=query,
            body=body,
            refusals=refusals,
        )

    return declare
