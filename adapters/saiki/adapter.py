"""Serve Saiki's tool confirmation API, and convert its `agent.yml` to a policy; start with
SaikiAdapter."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import WSCloseCode, WSMsgType, web

from gateway.cards.blocks import draw, weight_of
from gateway.cards.card import Card, card_of
from gateway.cards.remember_options import remember_as, scopes_of
from gateway.errors import (
    Conflict,
    GatewayError,
    InvalidRequest,
    Misconfigured,
    NotFound,
    NotRemembered,
    StepUpNeeded,
    Unreachable,
)
from gateway.models import Action, Kind, RiskLevel, Status
from gateway.ports import (
    REQUEST_ID,
    Adapter,
    AdapterApi,
    AuditEvent,
    BodyTooLarge,
    BodyTooSlow,
    Click,
    Identity,
    JsonObject,
    Logins,
    Query,
    Remember,
    StoredRequest,
    WebPages,
    cancel_and_wait,
    make_visible,
    mask,
    name_device,
    parse_json,
    read_whole,
    render_safe,
    run_to_end,
)

SECTION = "toolConfirmation"
MODES = {"event-based": "ask", "auto-approve": "auto-approve", "auto-deny": "auto-deny"}
STORAGES = ("storage", "memory")
_LONGEST = 30 * 24 * 3600 * 1000
_MEMBER = re.compile(r"""([A-Za-z]+): *(?:"([^"]*)"|'([^']*)'|([^\s#"'{}\[\]&*!|>%@`]+))""")
_CAUTION = (
    "auto-approve runs every call that no rule denies, even rm -rf /. Write deny rules for calls "
    'that must never run, and set guardrails = "deny": by default guardrails only report'
)
_COMMENT = re.compile(r"(?:^|\s)#.*$")


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The section `toolConfirmation`, with Saiki's defaults. `timeout` is in milliseconds."""

    mode: str = "event-based"
    timeout: int = 30_000
    storage: str = "storage"


def read_section(text: str) -> Confirmation:
    """Parse the section of an `agent.yml`. Raises InvalidRequest for an unknown member or value,
    because misreading it could approve calls."""
    members: dict[str, str] = {}
    inside = False
    indents: set[int] = set()
    found = 0
    for line in text.splitlines():
        said = _COMMENT.sub("", line).rstrip()
        if not said:
            continue
        if not said[0].isspace():
            key, _, rest = said.partition(":")
            inside = key.strip("\"'") == SECTION
            found += inside
            if inside and rest:
                raise InvalidRequest(f"write {SECTION} as a block, one member on each line")
        elif inside:
            indents.add(len(said) - len(said.lstrip(" ")))
            match = _MEMBER.fullmatch(said.strip())
            if match is None or match[1] in members or len(indents) > 1:
                raise InvalidRequest(f"cannot read this line of {SECTION}: {said.strip()!r}")
            members[match[1]] = next(part for part in match.groups()[1:] if part is not None)
    if found > 1:
        raise InvalidRequest(f"{SECTION} occurs twice; remove one")
    return _check(members)


def _check(members: dict[str, str]) -> Confirmation:
    known = {"mode", "timeout", "allowedToolsStorage"}
    if unknown := sorted(set(members) - known):
        raise InvalidRequest(f"{SECTION} has no member {unknown[0]}")
    default = Confirmation()
    mode = members.get("mode", default.mode)
    if mode not in MODES:
        raise InvalidRequest(f"unknown mode {mode!r}; use one of {', '.join(MODES)}")
    storage = members.get("allowedToolsStorage", default.storage)
    if storage not in STORAGES:
        raise InvalidRequest(
            f"unknown allowedToolsStorage {storage!r}; use one of {', '.join(STORAGES)}"
        )
    timeout = members.get("timeout", str(default.timeout))
    if not (timeout.isascii() and timeout.isdigit() and 0 < int(timeout) <= _LONGEST):
        raise InvalidRequest(f"timeout {timeout!r} is not a number of milliseconds up to 30 days")
    return Confirmation(mode, int(timeout), storage)


def write_policy(section: Confirmation, agent: str, approvers: Sequence[str]) -> str:
    """Return the section as a route of the policy file, with the gateway's setting as a comment."""
    caution = (f"# Caution: {_CAUTION}",) if section.mode == "auto-approve" else ()
    return "\n".join(
        (
            *caution,
            f"# Start the gateway with GATEWAY_GRANTS={section.storage}",
            "[[routes]]",
            f"name = {json.dumps(f'saiki {agent}')}",
            f"agents = [{json.dumps(agent)}]",
            f"approvers = {json.dumps(list(approvers))}",
            f'mode = "{MODES[section.mode]}"',
            f"timeout = {section.timeout / 1000}",
            f"max_timeout = {section.timeout / 1000}",
            'targets = ["saiki"]',
        )
    )


def add_command(verbs: Any) -> None:
    """Add the parser of `gateway saiki convert`."""
    words = "convert the toolConfirmation section of an agent.yml to a route for the policy file"
    convert = verbs.add_parser("convert", help=words, description=words)
    convert.add_argument("file", type=Path, help="path of the agent.yml")
    convert.add_argument("--agent", required=True, help="name of the agent in the gateway")
    convert.add_argument(
        "--approver",
        action="append",
        default=[],
        help="name of a person who may decide; repeat the option for more people",
    )
    convert.set_defaults(run=_convert)


async def _convert(options: argparse.Namespace) -> int:
    try:
        text = options.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"cannot read {options.file}: {error}") from None
    section = read_section(text)
    print(write_policy(section, options.agent, options.approver))  # noqa: T201 (a command)
    if section.mode == "auto-approve":  # stderr: visible even if the policy goes to a file
        print(f"gateway convert: caution: {_CAUTION}", file=sys.stderr)  # noqa: T201 (a command)
    return 0


# The adapter: Saiki's addresses on the gateway's web server.

# Authentication: a signed-in session, as a cookie or a bearer token, and the caller's origin.
#
# A page of another site can make a browser send a cookie. So a call with a cookie, and every
# WebSocket of a browser, needs an `Origin` that is the gateway's or listed by the operator. A
# bearer token cannot be sent this way. If a browser adds an `Origin` to it, it must fit, too.

ORIGINS = "GATEWAY_SAIKI_ORIGINS"
_LONGEST_TOKEN = 512


class CallRefused(Exception):
    """The adapter refuses the call, with an HTTP status and a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass(frozen=True, slots=True)
class SaikiVisitor:
    """The signed-in person and their session."""

    identity: Identity
    session: str


def read_origins() -> frozenset[str]:
    """Return the origins of `GATEWAY_SAIKI_ORIGINS`, a JSON list. Raises Misconfigured."""
    try:
        found = json.loads(os.environ.get(ORIGINS) or "[]")
        if not isinstance(found, list) or not all(map(_is_origin, found)):
            raise ValueError
    except ValueError:
        raise Misconfigured(
            f'{ORIGINS} must be a JSON list of origins, for example ["https://ui.example"]'
        ) from None
    return frozenset(found)


def _is_origin(text: object) -> bool:
    if not isinstance(text, str):
        return False
    parts = urlsplit(text)
    whole = f"{parts.scheme}://{parts.netloc}" == text and "@" not in text
    return whole and parts.scheme in ("http", "https") and bool(parts.hostname)


class Access:
    """Authenticates callers, and knows the origins whose pages may read responses."""

    def __init__(self, logins: Logins, origins: frozenset[str], *, secure: bool) -> None:
        self.logins = logins
        self._origins = origins
        self._secure = secure

    @property
    def cookie(self) -> str:
        """The session cookie's name; browsers accept `__Host-` over TLS only."""
        return "__Host-saiki" if self._secure else "saiki"

    async def find_visitor(self, request: web.Request) -> SaikiVisitor:
        """Return the caller. Raises CallRefused: 403 for a foreign origin, 401 if not signed in."""
        self.check_origin(request)
        session = _bearer(request)
        if not session:
            if "Origin" not in request.headers:
                raise CallRefused(
                    401, "send a bearer token, or the session cookie with an Origin header"
                )
            session = request.cookies.get(self.cookie, "")
        identity = await self.logins.who(session) if session else None
        if identity is None:
            raise CallRefused(401, "you are not signed in")
        return SaikiVisitor(identity, session)

    async def is_signed_in(self, visitor: SaikiVisitor) -> bool:
        """Whether a visitor is still signed in."""
        return await self.logins.who(visitor.session, prolong=False) is not None

    def check_origin(self, request: web.Request) -> None:
        """Raise CallRefused for a page whose origin is neither the gateway's nor listed."""
        given = request.headers.getall("Origin", [])
        ours = f"{'https' if self._secure else 'http'}://{request.host}"
        if any(one != ours and one not in self._origins for one in given):
            raise CallRefused(403, f"pages of this origin have no access; list it in {ORIGINS}")

    def headers(self, request: web.Request) -> dict[str, str]:
        """Return the headers that let a page of a listed origin read the response."""
        origin = request.headers.get("Origin", "")
        allowed = {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Credentials": "true",
            "Access-Control-Allow-Headers": "authorization, content-type",
            "Access-Control-Allow-Methods": "POST, DELETE",
        }
        return {"Vary": "Origin", **(allowed if origin in self._origins else {})}

    def sign_in(self, response: web.Response, session: str) -> None:
        """Set the session cookie. It expires with the browser or with the session."""
        # Without TLS, browsers refuse `__Host-`, and programs on this host name can plant cookies.
        response.set_cookie(
            self.cookie, session, httponly=True, samesite="Strict", secure=self._secure
        )

    def sign_out(self, response: web.Response) -> None:
        """Delete the session cookie."""
        response.del_cookie(self.cookie, httponly=True, samesite="Strict", secure=self._secure)


def _bearer(request: web.Request) -> str:
    given = request.headers.getall("Authorization", [])
    if not given:
        return ""
    scheme, _, token = given[0].partition(" ")
    if len(given) > 1 or scheme.lower() != "bearer" or not 0 < len(token) <= _LONGEST_TOKEN:
        raise CallRefused(401, "send one header: Authorization: Bearer <token>")
    return token


# Saiki's two events: the request for a confirmation, and the response.

REQUEST, RESPONSE, ERROR = "toolConfirmationRequest", "toolConfirmationResponse", "error"

_WHOLE = 10**9
_MOST_DIGITS = 9
# The blocks of a card that an approval covers but `args` does not contain.
_BESIDE = ("payload", "changed environment", "files and their SHA-256")
_BESIDE_NAMES = "name of the "
_HIGH = "High risk: you can deny it here. Approve it in the inbox, with a confirmation."


def is_offered(record: StoredRequest) -> bool:
    """Return whether Saiki's protocol can express a request: the request must be pending, and not a
    form."""
    asks = record.request.kind is not Kind.QUESTION and Action.APPROVE in record.request.allowed
    return asks and not record.final and not record.behind


def execution_id(record: StoredRequest) -> str:
    """Return the `executionId`: the request's id and the shown revision."""
    return f"{record.id}.{record.shown_since}"


def read_execution_id(text: str) -> tuple[str, int] | None:
    """Return the request id and revision in an `executionId`, or None if it is invalid."""
    request_id, _, revision = text.partition(".")
    number = revision.isascii() and revision.isdigit() and len(revision) <= _MOST_DIGITS
    return (request_id, int(revision)) if REQUEST_ID.fullmatch(request_id) and number else None


def build_request(record: StoredRequest) -> JsonObject:
    """Build the event that requests a confirmation. The event's arguments are only for display:
    secrets are masked, and deceptive characters are escaped."""
    request = record.request
    return {
        "toolName": render_safe(request.tool).text,
        "args": mask(record.arguments, lambda text: make_visible(text).text),
        "description": "\n".join(_describe(card_of(record, lines=_WHOLE, chars=_WHOLE))),
        "executionId": execution_id(record),
        "timestamp": _write_time(record.created),
        "sessionId": request.session,
    }


def build_response(execution: str, record: StoredRequest) -> JsonObject:
    """Build the event with the outcome of a confirmation. `approved` is true if the call may run,
    even with edited arguments; it is false if the call expired, was cancelled or changed."""
    action = record.decision.action if record.decision else None
    runs = record.status is Status.APPROVED and action is not Action.RESPOND
    return {"executionId": execution, "approved": runs, "sessionId": record.request.session}


def _describe(card: Card) -> Iterator[str]:
    """Yield lines with the parts of the card that `args` does not contain: facts, risk, findings,
    other blocks."""
    yield card.notification
    yield f"{card.word}, {card.risk.value} risk"
    yield from (f"{fact.label}: {fact.text.text}" for fact in card.facts)
    if card.risk is RiskLevel.HIGH:
        yield _HIGH
    yield from (f"Risk: {reason.text}" for reason in card.reasons)
    yield from (f"{card.sign} {finding.text}" for finding in card.findings)
    yield from card.notices
    yield f"Expires {_write_time(card.deadline)}"
    if card.progress:
        yield card.progress
    if card.says:
        yield f"The agent says (unverified): “{_indent(card.says.text)}”"
    for block in card.blocks:
        if block.label in _BESIDE or block.label.startswith(_BESIDE_NAMES):
            yield f"{block.label}: {_indent(block.text.text)}"


def _indent(text: str) -> str:
    """Mark an agent's lines, so that none looks like a line of the gateway."""
    return text.replace("\n", "\n  | ")


def _write_time(milliseconds: int) -> str:
    """Return a time in JavaScript's JSON format of a Date."""
    at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# A person's response: parsed, checked and decided.

GONE = "Confirmation not found or expired"
_LIFETIME = "revoked"  # as the document says: until manually cleared
_MEMBERS = {"executionId": str, "approved": bool, "rememberChoice": bool, "sessionId": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class SaikiAnswer:
    """The content of a `saiki:toolConfirmationResponse` event."""

    execution: str
    approved: bool
    remember: bool = False
    session: str | None = None


def read_answer(data: Any) -> SaikiAnswer:
    """Parse an event's data. Raises CallRefused for unknown members and values of a wrong type."""
    if not isinstance(data, dict):
        raise CallRefused(422, "the member data must be a JSON object")
    for name, value in data.items():
        if not isinstance(value, _MEMBERS.get(name, ())):
            raise CallRefused(
                422, f"{name[:40]} is not a known member, or its value has the wrong type"
            )
    for name in ("executionId", "approved"):
        if name not in data:
            raise CallRefused(422, f"the member {name} is missing")
    return SaikiAnswer(
        execution=data["executionId"],
        approved=data["approved"],
        remember=data.get("rememberChoice", False),
        session=data.get("sessionId"),
    )


async def decide(api: AdapterApi, visitor: SaikiVisitor, answer: SaikiAnswer) -> JsonObject:
    """Decide the request, and return the content of the response. Raises CallRefused."""
    named = read_execution_id(answer.execution)
    if named is None:
        raise CallRefused(404, GONE)
    request_id, revision = named
    try:
        record = await api.requests.get(request_id)
        wish = _choose(record, answer)
        click = Click(
            request_id=request_id,
            revision=revision,
            identity=visitor.identity,
            action=Action.APPROVE if answer.approved else Action.DENY,
            nonce=f"saiki {answer.execution} {answer.approved} {wish}",
            remember=wish,
        )
        try:
            after, kept = await api.requests.decide(click), True
        except NotRemembered as failed:  # the decision itself is made
            after, kept = failed.record, False
    except NotFound:
        raise CallRefused(404, GONE) from None
    except Conflict as late:
        now = await api.requests.get(request_id)
        raise (CallRefused(404, GONE) if now.final else CallRefused(409, str(late))) from None
    except StepUpNeeded as needed:
        where = api.address_of(request_id) or "the inbox"
        raise CallRefused(
            needed.status, f"extra verification needed ({needed}): approve at {where}"
        ) from None
    except GatewayError as refusal:
        raise CallRefused(refusal.status, str(refusal)) from None
    told: JsonObject = {"success": True}
    if not after.final:
        told["status"] = after.status.value
    if answer.approved and answer.remember:
        told["remembered"] = wish is not None and after.final and kept
    return told


def _choose(record: StoredRequest, answer: SaikiAnswer) -> Remember | None:
    """Choose the scope of the grant to create, or None. If an operator declared the tool harmless,
    that is the whole tool, otherwise the narrowest offered scope. A denial creates no grant."""
    if not record.final and not is_offered(record):
        raise CallRefused(404, GONE)
    if answer.session is not None and answer.session != record.request.session:
        raise CallRefused(422, "sessionId is not the session of this confirmation")
    if not (answer.approved and answer.remember):
        return None
    offered = scopes_of(record, Action.APPROVE)
    whole = [one for one in offered if one.whole_tool]
    chosen = next(iter((*whole, *offered)), None)
    if chosen is None:
        return None
    return remember_as(chosen.id, _LIFETIME, everywhere=answer.session is None)


# The WebSocket: sends events and receives responses as frames.
#
# A frame is `{"type": …, "data": …}`. A new connection gets all pending requests. If a connection
# missed an event, it is closed; the client gets the state when it reconnects.

BEAT_SECONDS = 10.0
MOST_OF_SESSION, MOST_OF_ALL = 4, 1000
_MOST_FRAME = 16 * 1024
_GONE = (Unreachable, StopAsyncIteration, TimeoutError, ConnectionError)


class Sockets:
    """The open connections by session."""

    def __init__(self, api: AdapterApi, access: Access) -> None:
        self._api = api
        self._access = access
        self._open: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._stopping = False

    def end_all(self) -> None:
        """End all connections and refuse new ones. Call it when the gateway stops."""
        self._stopping = True
        for session in list(self._open):
            self.end(session)

    def end(self, session: str) -> None:
        """End the connections of a session that was signed out."""
        for ending in self._open.get(session, ()):
            ending.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve a WebSocket until the page leaves, its session ends, or the gateway stops."""
        visitor = await self._access.find_visitor(request)
        if self._stopping:
            raise CallRefused(503, "the gateway is stopping; connect again")
        total = sum(map(len, self._open.values()))
        if len(self._open.get(visitor.session, ())) >= MOST_OF_SESSION or total >= MOST_OF_ALL:
            raise CallRefused(429, "too many connections are open")
        mine, ending = self._open[visitor.session], asyncio.Event()
        mine.add(ending)
        try:
            return await self._converse(request, visitor, ending)
        finally:
            mine.discard(ending)
            if not mine:
                self._open.pop(visitor.session, None)

    async def _converse(
        self, request: web.Request, visitor: SaikiVisitor, ending: asyncio.Event
    ) -> web.StreamResponse:
        socket = web.WebSocketResponse(heartbeat=BEAT_SECONDS, max_msg_size=_MOST_FRAME)
        if not socket.can_prepare(request):
            raise CallRefused(426, "this address is a WebSocket; use POST to send one response")
        async with self._api.feed.changes() as events:
            await socket.prepare(request)
            screen = Screen(socket, self._api, self._access, visitor)
            parts = [
                asyncio.create_task(screen.relay(events)),
                asyncio.create_task(screen.listen()),
                asyncio.create_task(ending.wait()),
            ]
            try:
                await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for part in parts:
                    part.cancel()
                ends = await asyncio.gather(*parts, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, _GONE):
                raise end
        with suppress(*_GONE):
            async with asyncio.timeout(BEAT_SECONDS):
                await socket.close(code=WSCloseCode.SERVICE_RESTART, message=b"connect again")
        return socket


class Screen:
    """One connection: sends events, receives responses, and tracks the shown `executionId`s."""

    def __init__(
        self, socket: web.WebSocketResponse, api: AdapterApi, access: Access, visitor: SaikiVisitor
    ) -> None:
        self._socket = socket
        self._api = api
        self._access = access
        self._visitor = visitor
        self._shown: dict[str, str] = {}

    async def relay(self, events: AsyncIterator[AuditEvent]) -> None:
        """Send the pending requests, then all changes, until the person is signed out."""
        coming = asyncio.ensure_future(anext(events))
        try:
            await self._show_pending()
            while await self._access.is_signed_in(self._visitor):
                # `wait`, not `timeout`: cancelling would end the iterator.
                await asyncio.wait({coming}, timeout=BEAT_SECONDS)
                if coming.done():
                    event = coming.result()
                    coming = asyncio.ensure_future(anext(events))
                    if event.request_id:
                        await self._look(event.request_id)
        finally:
            await cancel_and_wait(coming)

    async def listen(self) -> None:
        """Receive responses until the connection closes."""
        async for frame in self._socket:
            try:
                if frame.type is not WSMsgType.TEXT:
                    raise CallRefused(422, "send a text frame, not a binary one")
                await self._answer(frame.data)
            except CallRefused as refusal:
                await self._send(ERROR, {"error": refusal.why, **_name(frame.data)})

    async def _answer(self, text: str) -> None:
        try:
            frame = parse_json(text.encode())
        except GatewayError as error:
            raise CallRefused(422, str(error)) from None
        if not isinstance(frame, dict) or frame.get("type") != RESPONSE:
            raise CallRefused(422, f"send a JSON frame {{type: '{RESPONSE}', data}}")
        answer = read_answer(frame.get("data"))
        if not await self._access.is_signed_in(self._visitor):
            raise CallRefused(401, "you are no longer signed in")
        await run_to_end(decide(self._api, self._visitor, answer))

    async def _show_pending(self) -> None:
        query = Query(followers=False)
        while True:
            page = await self._api.requests.page(query)
            for record in page.items:
                await self._show(record)
            if page.next is None:
                return
            query = Query(followers=False, after=page.next)

    async def _look(self, request_id: str) -> None:
        """Send the current state of a request, if the request still exists."""
        with suppress(NotFound):
            await self._show(await self._api.requests.get(request_id))

    async def _show(self, record: StoredRequest) -> None:
        known = self._shown.get(record.id)
        now = execution_id(record)
        if known is not None and (record.final or known != now):
            del self._shown[record.id]
            await self._send(RESPONSE, build_response(known, record))
            known = None
        if known is not None or not is_offered(record):
            return
        if await self._api.requests.may_decide(self._visitor.identity, record) is None:
            self._shown[record.id] = now
            await self._send(REQUEST, await draw(lambda: build_request(record), *weight_of(record)))

    async def _send(self, kind: str, data: JsonObject) -> None:
        async with asyncio.timeout(BEAT_SECONDS):
            await self._socket.send_str(json.dumps({"type": kind, "data": data}))


def _name(text: Any) -> JsonObject:
    """Return the `executionId` of a refused frame, if it is readable, for the error frame."""
    try:
        named = parse_json(text.encode())["data"]["executionId"]
    except (AttributeError, GatewayError, LookupError, TypeError):
        return {}
    return {"executionId": named} if isinstance(named, str) else {}


PATH, LOGIN = "/api/tool-confirmation", "/api/tool-confirmation-login"
_MOST_BODY = 16 * 1024

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class SaikiAdapter(Adapter):
    """Serves a WebSocket and POST for custom user interfaces."""

    name = "saiki"
    posts = False

    @asynccontextmanager
    async def run(self, api: AdapterApi) -> AsyncIterator[WebPages]:
        """Check the settings, and yield the routes for the gateway's web server."""
        calls = ConfirmationCalls(api, Access(api.logins, read_origins(), secure=api.secure))
        yield WebPages(calls.routes(), calls.sockets.end_all)

    def commands(self, verbs: Any) -> None:
        """Add `gateway saiki convert`."""
        add_command(verbs)


class ConfirmationCalls:
    """Handles the HTTP routes."""

    def __init__(self, api: AdapterApi, access: Access) -> None:
        self._api = api
        self._access = access
        self.sockets = Sockets(api, access)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes. Each route returns an error as JSON."""
        one = f"{PATH}/{{executionId}}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", PATH, self.sockets.serve),
            ("POST", one, self._decide),
            ("POST", LOGIN, self._login),
            ("DELETE", LOGIN, self._logout),
            ("OPTIONS", one, self._preflight),
            ("OPTIONS", LOGIN, self._preflight),
        ]
        return [web.route(method, path, self._guard(call)) for method, path, call in table]

    def _guard(self, call: Handler) -> Handler:
        async def serve(request: web.Request) -> web.StreamResponse:
            try:
                response = await call(request)
            except CallRefused as refusal:
                response = web.json_response({"error": refusal.why}, status=refusal.status)
            except GatewayError as error:
                response = web.json_response({"error": str(error)}, status=error.status)
            if not response.prepared:
                response.headers.update(self._access.headers(request))
            return response

        return serve

    async def _decide(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._access.find_visitor(request)
        body = await _read_body(request)
        named = request.match_info["executionId"]
        if body.setdefault("executionId", named) != named:
            raise CallRefused(422, "executionId differs from the one in the address")
        return web.json_response(await run_to_end(decide(self._api, visitor, read_answer(body))))

    async def _login(self, request: web.Request) -> web.StreamResponse:
        self._access.check_origin(request)
        code = (await _read_body(request)).get("code")
        if not isinstance(code, str):
            raise CallRefused(422, "the member code is missing")
        session = await run_to_end(
            self._access.logins.redeem(
                code,
                address=request.remote or "",
                device=name_device(request.headers.get("User-Agent", "")),
            )
        )
        response = web.json_response({"token": session})
        self._access.sign_in(response, session)
        return response

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        visitor = await self._access.find_visitor(request)
        await run_to_end(self._access.logins.end(visitor.session))
        self.sockets.end(visitor.session)
        response = web.json_response({"success": True})
        self._access.sign_out(response)
        return response

    async def _preflight(self, request: web.Request) -> web.StreamResponse:
        self._access.check_origin(request)
        return web.Response(status=204)


async def _read_body(request: web.Request) -> dict[str, Any]:
    if request.content_type != "application/json":
        raise CallRefused(415, "send application/json")
    try:
        body = parse_json(await read_whole(request.content.iter_any(), most=_MOST_BODY))
    except BodyTooLarge:
        raise CallRefused(413, f"the body has more than {_MOST_BODY} bytes") from None
    except BodyTooSlow:
        raise CallRefused(408, "the body did not arrive in time") from None
    if not isinstance(body, dict):
        raise CallRefused(422, "send one JSON object")
    return body
