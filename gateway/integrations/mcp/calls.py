"""Turn MCP tool calls into requests, and outcomes into results. Start at `CallGate.ask`.

The module uses plain JSON, independent of the MCP transport.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gateway.client import AsyncClient, Outcome, OutcomeKind
from gateway.errors import GatewayError
from gateway.models import Action, ApprovalRequest, Context, Execution, Origin, new_id
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.integrations")

PROGRESS_SECONDS = 10.0
"""Seconds between progress notes to a client. Many clients give up after 60 without one."""

GOODBYE_SECONDS = 5.0
"""Seconds that an ending process has for its last messages to the gateway."""

ALLOWED = (Action.APPROVE, Action.EDIT, Action.DENY, Action.RESPOND, Action.ABORT)

LONGEST_CLIENT = 100
"""The longest client name that is kept, in characters."""

_LONGEST_CLAIM = 600
_LONGEST_SCHEMA = 65_536
_SHOWN_BY_ITSELF = ("name", "arguments", "_meta")
_CALL_IDS = ("claudecode/toolUseId",)
_HINTS = {
    "readOnlyHint": ("only reads", "may change things"),
    "destructiveHint": ("may destroy things", "destroys nothing"),
    "idempotentHint": ("does the same when repeated", "does more when repeated"),
    "openWorldHint": ("reaches other systems", "stays within its own"),
}

Connect = Callable[[], Awaitable[AsyncClient]]
Tell = Callable[[int, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A server's description of one of its tools. The description is not verified."""

    name: str
    schema: JsonObject | None
    claim: str
    read_only: bool

    @classmethod
    def read(cls, told: Any) -> Tool | None:
        """Return the tool in an entry of a listing, or None if the entry has no name."""
        if not isinstance(told, dict) or not isinstance(told.get("name"), str):
            return None
        schema = told.get("inputSchema")
        fits = isinstance(schema, dict) and len(json.dumps(schema)) <= _LONGEST_SCHEMA
        hints = told.get("annotations")
        hints = hints if isinstance(hints, dict) else {}
        said = [
            words[0] if hints[name] else words[1]
            for name, words in _HINTS.items()
            if isinstance(hints.get(name), bool)
        ]
        parts = [_words(told.get("title")) or _words(hints.get("title"))]
        parts += [_words(told.get("description"))]
        parts += [f"it {', '.join(said)}"] if said else []
        return cls(
            name=told["name"],
            schema=schema if fits else None,
            claim="; ".join(part for part in parts if part)[:_LONGEST_CLAIM],
            read_only=hints.get("readOnlyHint") is True,
        )


def _words(told: Any) -> str:
    return " ".join(told.split()) if isinstance(told, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCall:
    """One `tools/call`. During the wait, `tell` is called with 1, 2, 3… and the line with the
    verification code, if there is one. These notes reach only a client that `takes_notes`."""

    params: JsonObject
    tool: Tool | None
    client: str = ""
    tell: Tell

    @property
    def arguments(self) -> JsonObject:
        """The arguments of the call; an empty object if the message has no arguments."""
        found = self.params.get("arguments")
        return dict(found) if isinstance(found, dict) else {}

    @property
    def beside(self) -> JsonObject | None:
        """All other members of the call for the server, except the protocol's `_meta`."""
        found = {name: value for name, value in self.params.items() if name not in _SHOWN_BY_ITSELF}
        return found or None

    @property
    def takes_notes(self) -> bool:
        """Whether the client wants progress notes."""
        meta = self.params.get("_meta")
        return isinstance(meta, dict) and "progressToken" in meta

    @property
    def call_id(self) -> str | None:
        """The client's id of the call, or None if the message contains no id."""
        meta = self.params.get("_meta")
        said = [meta.get(name) for name in _CALL_IDS] if isinstance(meta, dict) else []
        return next((one for one in said if isinstance(one, str)), None)


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of a call. Call `report` with the result of an approved call."""

    outcome: Outcome
    report: Callable[..., None]


class CallGate:
    """Ask for approvals of the calls of one session with one server.

    `connect` returns the client, and may raise GatewayError at each call.
    """

    def __init__(
        self,
        connect: Connect,
        server: str,
        *,
        where: Context | None = None,
        timeout: float | None = None,
        progress_seconds: float = PROGRESS_SECONDS,
    ) -> None:
        self._connect = connect
        self._server = server
        self._where = where
        self._timeout = timeout
        self._progress_seconds = progress_seconds
        self._session = f"mcp-{server}-{new_id()[:12]}"
        self._stopped: str | None = None
        self._asking: set[asyncio.Task[_Asked]] = set()
        self._reports: set[asyncio.Task[None]] = set()

    async def ask(self, call: McpCall) -> Answered:
        """Ask for an approval of a call, wait, and return the outcome. Cancelling the wait cancels
        the request. An approval that arrives later is reported as unused."""
        if self._is_stopped():
            return Answered(self._after_the_stop(), self._reporter(None))
        lines: list[Callable[[], str]] = []
        asking = asyncio.ensure_future(self._ask(call, lines))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            request, outcome = await self._wait(asking, call.tell, lines)
        except BaseException:
            asking.add_done_callback(self._skip)
            asking.cancel()
            raise
        if self._is_stopped():
            self._skip(asking)
            outcome = self._after_the_stop()
        elif outcome.kind is OutcomeKind.ABORTED:
            self._stopped = outcome.message
            for other in self._asking:
                other.cancel()
        return Answered(outcome, self._reporter(request))

    async def close(self) -> None:
        """Cancel pending requests, and send the last reports."""
        for asking in self._asking:
            asking.cancel()
        await end(self._asking)
        await end(self._reports)

    async def _wait(
        self, asking: asyncio.Task[_Asked], tell: Tell, lines: list[Callable[[], str]]
    ) -> _Asked:
        told = 0
        while True:
            done, _ = await asyncio.wait({asking}, timeout=self._progress_seconds)
            if asking.cancelled():  # by an abort of another call
                return None, self._after_the_stop()
            if done:
                return asking.result()
            told += 1
            await tell(told, "".join(line() for line in lines))

    async def _ask(self, call: McpCall, lines: list[Callable[[], str]]) -> _Asked:
        """Ask about a call, and return its request and outcome. Append to `lines` a function that
        returns the line with the request's verification code."""
        try:
            client = await self._connect()
            request = self._make_request(client, call)
            lines.append(partial(client.words_of_number, request))
            return request, await client.outcome(request)
        except GatewayError as error:
            words = f"nobody could be asked: {error}"
        except Exception as error:  # after any error nothing runs
            log.exception("cannot ask about a call")
            words = f"nobody could be asked: {type(error).__name__}"
        return None, Outcome(kind=OutcomeKind.UNREACHABLE, message=words)

    def _is_stopped(self) -> bool:
        return self._stopped is not None

    def _after_the_stop(self) -> Outcome:
        words = f"the session was stopped: {self._stopped or 'the proxy ends'}"
        return Outcome(kind=OutcomeKind.ABORTED, message=words)

    def _make_request(self, client: AsyncClient, call: McpCall) -> ApprovalRequest:
        tool = call.tool
        claim = f"{self._server} says: {tool.claim}" if tool and tool.claim else ""
        request = client.request(
            f"mcp__{self._server}__{call.params['name']}",
            call.arguments,
            hint=claim,
            schema=tool.schema if tool else None,
            read_only=tool.read_only if tool else False,
            payload=call.beside,
            context=self._where,
            origin=Origin(
                framework="mcp",
                tool_call_id=call.call_id,
                channel=call.client[:LONGEST_CLIENT] or None,
            ),
            session=self._session,
            allowed=ALLOWED,
            timeout=self._timeout,
        )
        return replace(request, shows_number=call.takes_notes)

    def _reporter(self, request: ApprovalRequest | None) -> Callable[..., None]:
        def report(execution: Execution, **how: Any) -> None:
            if request is None:
                return
            task = asyncio.ensure_future(self._report(request, execution, how))
            self._reports.add(task)
            task.add_done_callback(self._reports.discard)

        return report

    async def _report(
        self, request: ApprovalRequest, execution: Execution, how: dict[str, Any]
    ) -> None:
        client = await self._connect()
        await client.report(request, execution, **how)

    def _skip(self, asking: asyncio.Task[_Asked]) -> None:
        """Report an approval that came after the wait as skipped."""
        if not asking.cancelled() and asking.exception() is None:
            request, outcome = asking.result()
            if outcome.runs:
                self._reporter(request)(Execution.SKIPPED)


_Asked = tuple[ApprovalRequest | None, Outcome]


async def end(tasks: set[asyncio.Task[Any]]) -> None:
    """Wait a few seconds for tasks, then cancel them, because a gateway may not answer."""
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=GOODBYE_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


def result_of(outcome: Outcome) -> JsonObject:
    """Return the MCP result for a call that does not run."""
    if outcome.kind is OutcomeKind.RESPONDED:
        said = outcome.result
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}], "isError": False}
    return refusal(f"not run: {outcome.message}")


def refusal(words: str) -> JsonObject:
    """Return an MCP error result that says why nothing ran."""
    return {"content": [{"type": "text", "text": words}], "isError": True}
