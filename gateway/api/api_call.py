"""Define an API call and its operation, and how to read and reply; start at `operation`."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from aiohttp import web
from pydantic import ValidationError

from gateway.api.authentication import TokenAccess
from gateway.api.metrics import Metrics
from gateway.api.problems import BadCall, Stopping, TooLarge, TooManyWaits, TooSlow, WrongMediaType
from gateway.approvals.services import Core
from gateway.cards.blocks import draw
from gateway.domain.health_and_metrics import Readiness
from gateway.domain.parsing import adapter_of, parse_message, parse_off_loop, sentence
from gateway.domain.records import Identity
from gateway.domain.redaction import hide_in
from gateway.domain.store import MessageContext, Store
from gateway.domain.time_and_tasks import run_to_end
from gateway.domain.web_limits import SECONDS, BodyTooLarge, BodyTooSlow, read_whole
from gateway.errors import InvalidRequest, NotFound
from gateway.ports import Credential
from gateway.wire.codec import JsonObject, Wire, plain
from gateway.wire.schema import REQUEST_ID

AGENT, APPROVER = "agent", "approver"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of the API: bytes of a body, seconds for it to arrive, seconds between heartbeats.

    `waits` is the number of long polls of one credential at once, `all_waits` that of all together.
    """

    body_bytes: int = 1_048_576
    body_seconds: float = SECONDS
    heartbeat_seconds: float = 15.0
    event_streams: int = 100
    waits: int = 256
    all_waits: int = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """Gives credentials to agents of the same operating-system user, by a secret that they can
    read.

    `enroll` creates or renews the credential of a name and returns the members of `Enrolled`.
    """

    secret: str = field(repr=False)
    enroll: Callable[[str], Awaitable[JsonObject]]


# Passes a method's parameters to the hooks; returns action, reason and changed members.
Intercept = Callable[[str, JsonObject], Awaitable[tuple[str, str, JsonObject | None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of the gateway that handlers use.

    `ready` returns the current problems. `open_calls` are waiting calls, cancelled when the server
    stops; then `stopping` is set, and no more may wait. `waits` counts long polls by credential.
    """

    core: Core
    reads: Store
    access: TokenAccess
    metrics: Metrics
    ready: Callable[[], Awaitable[Readiness]]
    enrolment: Enrolment | None
    intercept: Intercept
    limits: Limits
    streams: asyncio.Semaphore
    document: Callable[[], bytes]
    open_calls: set[asyncio.Task[Any]] = field(default_factory=set)
    waits: Counter[str] = field(default_factory=Counter)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def stop_waits(self) -> None:
        """Cancel the calls that wait, and let no more begin."""
        self.stopping.set()
        for task in self.open_calls:
            task.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One authenticated call. `body` and `query` are the validated messages of its operation."""

    request: web.Request
    services: Services
    who: Credential | None
    body: Any
    query: Any

    @property
    def core(self) -> Core:
        """The services behind the API."""
        return self.services.core

    @property
    def caller(self) -> Credential:
        """The credential of the call; only for operations that need one."""
        if self.who is None:
            raise RuntimeError("an operation that needs no credential tried to read its caller")
        return self.who

    @property
    def is_agent(self) -> bool:
        """Whether an agent calls; agents see only their own requests."""
        return self.caller.kind == AGENT

    @property
    def id(self) -> str:
        """The request id of the path. A malformed one raises NotFound, as an unknown one does."""
        text = self.request.match_info["id"]
        if not REQUEST_ID.fullmatch(text):
            raise NotFound("there is no such request, or this credential may not read it")
        return text

    @property
    def identity(self) -> Identity:
        """The identity for decisions: the holder of the call's token."""
        return Identity(platform="token", id=self.caller.name)

    def origin(self, verb: str, process: str | None = None) -> MessageContext:
        """Return the message context of a verb: the token's agent and the given process."""
        caller = self.caller
        return MessageContext(
            agent=caller.name, owner=caller.owner, since=caller.since, process=process, verb=verb
        )


@contextmanager
def end_on_shutdown(call: ApiCall) -> Iterator[None]:
    """Cancel this call as soon as the server stops.

    Raises Stopping if it is already stopping, so that no late call is missed.
    """
    if call.services.stopping.is_set():
        raise Stopping("this gateway is stopping; try again, or use another gateway")
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("the call does not run in an asyncio task")
    call.services.open_calls.add(task)
    try:
        yield
    finally:
        call.services.open_calls.discard(task)


@contextmanager
def long_poll(call: ApiCall) -> Iterator[None]:
    """Count this call as a long poll, and cancel it when the server stops.

    Raises TooManyWaits if there are too many, and Stopping if the server is stopping.
    """
    services, who = call.services, f"{call.caller.kind} {call.caller.name}"
    if services.waits[who] >= services.limits.waits:
        raise TooManyWaits("too many calls with this credential are waiting; call without `wait`")
    if services.waits.total() >= services.limits.all_waits:
        raise TooManyWaits("too many calls are waiting on this gateway; call without `wait`")
    services.waits[who] += 1
    try:
        with end_on_shutdown(call):
            yield
    finally:
        services.waits[who] -= 1
        if not services.waits[who]:
            del services.waits[who]


def reply(value: Any, status: int = 200) -> web.Response:
    """Return a response with a message, or JSON values."""
    return web.json_response(plain(value), status=status)


async def masked_reply(value: Any, status: int = 200, *, known: Sequence[str] = ()) -> web.Response:
    """Return a response for approvers, with secrets masked as on cards. `known` are the secrets of
    the request that it is about."""
    values = plain(value)
    return reply(await draw(lambda: hide_in(values, known), values), status)


async def answer_call(
    handle: Callable[[ApiCall], Awaitable[web.StreamResponse]],
    request: web.Request,
    services: Services,
    who: Credential | None,
    *,
    query: type,
    body: type | None,
) -> web.StreamResponse:
    """Read an authenticated caller's messages and return the response; a write completes even if
    the caller leaves. Raises the errors of `read_query`, `read_body` and `handle`."""
    asked: Any = read_query(query, request.query)
    sent: Any = None if body is None else await read_body(body, request, services.limits)
    call = ApiCall(request=request, services=services, who=who, body=sent, query=asked)
    return await handle(call) if request.method == "GET" else await run_to_end(handle(call))


async def read_body(cls: type[T], request: web.Request, limits: Limits) -> T:
    """Return the body as a `cls`. Raises InvalidRequest, and the errors of `read_json`."""
    return await parse_off_loop(partial(parse_message, cls), await read_json(request, limits))


async def read_json(request: web.Request, limits: Limits) -> bytes:
    """Return the body; an empty or missing one counts as an empty object.

    Raises TooLarge (before reading if the length is given), TooSlow and WrongMediaType.
    """
    if (request.content_length or 0) > limits.body_bytes:
        raise TooLarge(f"the body is larger than {limits.body_bytes} bytes")
    if not request.can_read_body:
        return b"{}"
    if request.headers.get("Content-Encoding") or _media_type(request) != "application/json":
        raise WrongMediaType("send the body as Content-Type: application/json, not compressed")
    most, seconds = limits.body_bytes, limits.body_seconds
    try:
        raw = await read_whole(request.content.iter_any(), most=most, seconds=seconds)
    except BodyTooLarge:
        raise TooLarge(f"the body is larger than {most} bytes") from None
    except BodyTooSlow:
        raise TooSlow(f"the body took longer than {seconds:g} s") from None
    return raw or b"{}"


def read_query(cls: type[T], query: Mapping[str, str]) -> T:
    """Return the query string as a `cls`. Raises InvalidRequest."""
    values = dict(query)
    if len(values) != len(query):
        raise InvalidRequest("the query string has the same parameter twice")
    kind: Any = cls  # to the type checker a class is not hashable
    try:
        read: T = adapter_of(kind).validate_python(values)
    except ValidationError as error:
        raise InvalidRequest(sentence(error)) from None
    return read


def _media_type(request: web.Request) -> str:
    charset = request.charset
    if charset not in (None, "utf-8", "UTF-8"):
        raise BadCall("the body is not UTF-8; send JSON as UTF-8")
    return request.content_type


# Operations of the API: a handler with its messages.

Handle = Callable[[ApiCall], Awaitable[web.StreamResponse]]
Answers = Mapping[int, type | tuple[type, ...] | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing(Wire):
    """No body and no query string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A handler and its messages. `id` is the operationId of the OpenAPI document.

    `answers` maps a status to the response: a message class, several of them, or a media type.
    `refusals` are statuses of problems, beyond those that every route of its kind has.
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
    """Return a decorator that turns a handler into an operation."""

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
