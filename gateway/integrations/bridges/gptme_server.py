"""`gateway bridge gptme-server`: answer the questions of gptme's server through the gateway.

The bridge follows the events of each conversation that has a session. The bridge submits one
request per pending tool, and posts the decision. The request's id comes from gptme's id of the
tool. So a restarted bridge finds its pending requests, and a plugin in that server finds their
decisions.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from gateway.client import AsyncClient, Outcome, OutcomeKind, session_name
from gateway.errors import GatewayError
from gateway.integrations.bridges.host_http import (
    FollowingBridge,
    HostApi,
    HostTasks,
    Remembered,
    run_follower,
)
from gateway.integrations.coding_agents.gptme import arguments_of, details_of, text_of
from gateway.models import ApprovalRequest, Context, Execution, Origin, Reason
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.integrations")

LOOK_SECONDS = 2.0
SILENCE_SECONDS = 45.0
"""The stream ends after this silence. gptme sends a keepalive every 15 seconds."""

_TOOL_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FAILED = "Error during execution:"
_OK, _NOT_FOUND = 200, 404

Pause = Callable[[float], Awaitable[None]]


class BadEvent(ValueError):
    """An event does not match gptme's documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTool:
    """A pending tool in an event of gptme. Without `content` the arguments are unknown."""

    conversation: str
    session: str
    id: str
    tool: str
    args: list[str]
    content: str | None
    kwargs: None = None


class GptmeApi(HostApi):
    """The HTTP API of gptme's server."""

    def __init__(self, url: str, key: str | None) -> None:
        super().__init__(url, key, prefix="/api/v2")

    async def sessions(self) -> set[tuple[str, str]]:
        """Return each session with its conversation. Raises OSError if the call fails."""
        status, found = await self.call("GET", "/sessions")
        if status != _OK or not isinstance(found, list):
            raise ConnectionError(f"gptme did not list its sessions: status {status}")
        pairs = {(one.get("conversation_id"), one.get("id")) for one in found if type(one) is dict}
        return {(str(place), str(name)) for place, name in pairs if place and name}

    async def pending(self, conversation: str) -> set[str]:
        """Return the ids of the pending tools of a conversation. Raises OSError."""
        names: set[str] = set()
        for place, session in await self.sessions():
            if place == conversation:
                names.update(await self._pending_of(place, session))
        return names

    async def last_message(self, conversation: str) -> str:
        """Return the last message of the model. Raises OSError."""
        status, found = await self.call("GET", at(conversation))
        messages = found.get("log") if status == _OK and isinstance(found, dict) else None
        for one in reversed(messages if isinstance(messages, list) else []):
            if isinstance(one, dict) and one.get("role") == "assistant":
                return str(one.get("content"))
        raise ConnectionError("gptme did not return the last message of the model")

    async def _pending_of(self, conversation: str, session: str) -> set[str]:
        first: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def take(event: Any) -> None:
            if not first.done():
                first.set_result(event)

        path = events_of(conversation, session)
        following = asyncio.ensure_future(self.stream(path, take, silence=SILENCE_SECONDS))
        try:
            await asyncio.wait({first, following}, return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                following.result()
                raise ConnectionError("the stream of events ended without an event")
            return {str(one.get("tool_id")) for one in _pending_in(first.result())}
        finally:
            following.cancel()


class GptmeBridge(FollowingBridge):
    """Ask the gateway about gptme's pending tools, and post the decisions to gptme."""

    def __init__(self, client: AsyncClient, api: GptmeApi, *, pause: Pause = asyncio.sleep) -> None:
        super().__init__("gptme", client, api, pause)
        self._api = api
        self._followed: set[tuple[str, str]] = set()
        self._places: dict[str, str] = {}  # the conversation of each pending tool
        self._running = Remembered[str, ApprovalRequest]()
        self._failed: set[str] = set()
        self._streams = HostTasks("gptme")

    async def follow(self) -> None:
        """Follow every conversation that has a session, until this task is cancelled."""
        while True:
            try:
                await self.look()
            except OSError as error:
                log.warning("gptme's server does not respond: %s", error)
            await self._pause(LOOK_SECONDS)

    async def look(self) -> None:
        """Follow new sessions, and cancel the requests of conversations that have ended."""
        before = list(self._places.items())
        sessions = await self._api.sessions()
        there = {conversation for conversation, _ in sessions}
        for tool_id, conversation in before:
            if conversation not in there:
                await self._withdraw(tool_id)
        for one in sessions - self._followed:
            self._followed.add(one)
            self._streams.start(self._stream(*one))

    def take(self, conversation: str, session: str, event: Any) -> None:
        """Handle an event of a conversation. An invalid event is logged and skipped."""
        try:
            self._take(conversation, session, event)
        except BadEvent as error:
            log.warning("skipped an invalid event of gptme: %s", error)

    async def close(self) -> None:
        """Stop following events, cancel pending requests, and answer gptme."""
        self._closing = True
        self._streams.cancel()
        await super().close()

    # ------------------------------------------------------------ events

    def _take(self, conversation: str, session: str, event: Any) -> None:
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise BadEvent("the event has no type")
        kind, tool = event["type"], event.get("tool_id")
        if kind == "connected":
            for one in _pending_in(event):
                self._take_pending(conversation, session, one)
        elif kind == "tool_pending":
            self._take_pending(conversation, session, event)
        elif kind == "tool_output" and str(event.get("output")).startswith(_FAILED):
            self._failed.add(str(tool))
        elif kind == "tool_complete":
            self._take_end(str(tool), event)
        elif kind in ("tool_executing", "interrupted", "generation_started"):
            self._tasks.start(self._compare(conversation))

    def _take_pending(self, conversation: str, session: str, event: JsonObject) -> None:
        tool_id = event.get("tool_id")
        if not isinstance(tool_id, str) or not _TOOL_ID.fullmatch(tool_id):
            raise BadEvent("the tool has no valid id")
        # Another session of the conversation may have reported it, or gptme runs it without asking.
        if event.get("auto_confirm") is not True and self._is_new(tool_id):
            self._tasks.start(self._deal_with(conversation, session, tool_id, event))

    def _take_end(self, tool_id: str, event: JsonObject) -> None:
        request = self._running.pop(tool_id, None)
        failed = tool_id in self._failed or event.get("success") is not True
        self._failed.discard(tool_id)
        if request is not None:
            ran = Execution.FAILED if failed else Execution.SUCCEEDED
            self._tasks.start(self._client.report(request, ran))

    # ------------------------------------------------------------ one call

    async def _deal_with(
        self, conversation: str, session: str, tool_id: str, event: JsonObject
    ) -> None:
        where = at(conversation)
        skip: JsonObject = {"tool_id": tool_id, "action": "skip"}
        try:
            call = _read(conversation, session, tool_id, event.get("tooluse"))
            request = await self._make_request(call)
        except (BadEvent, OSError, GatewayError) as error:
            log.warning("skipped a tool, because nobody could be asked: %s", error)
            await self._post(f"{where}/tool/confirm", skip)
            return
        self._waiting[tool_id], self._places[tool_id] = request, conversation
        try:
            outcome = await self._client.outcome(request)
        except GatewayError as error:
            log.error("the gateway rejected a request: %s", error)
            outcome = Outcome(kind=OutcomeKind.UNREACHABLE, message=str(error))
        finally:
            del self._waiting[tool_id], self._places[tool_id]
        if outcome.arguments is not None:
            await self._tell_approved(call, request, outcome)
        elif outcome.abort:
            await self._post(f"{where}/interrupt", {"session_id": session})
        else:
            await self._post(f"{where}/tool/confirm", skip)

    async def _make_request(self, call: PendingTool) -> ApprovalRequest:
        arguments = arguments_of(call)
        if call.content is None:
            # In this format gptme does not send the arguments. People see the model's message.
            said = await self._api.last_message(call.conversation)
            if f"@{call.tool}(" not in said:
                raise BadEvent(f"the last message of the model has no call of {call.tool!r}")
            arguments = {"message": said, **({"args": call.args} if call.args else {})}
        return self._client.request(
            call.tool,
            arguments,
            id=call.id.replace("-", ""),
            context=Context(),
            origin=Origin(framework="gptme", tool_call_id=call.id),
            session=session_name(call.conversation),
            **details_of(call.tool, arguments),
        )

    async def _tell_approved(
        self, call: PendingTool, request: ApprovalRequest, outcome: Outcome
    ) -> None:
        body: JsonObject = {"tool_id": call.id, "action": "confirm"}
        if outcome.kind is OutcomeKind.EDITED and outcome.arguments is not None:
            content = outcome.arguments[text_of(call.tool)]
            body = {**body, "action": "edit", "content": content}
        self._running.keep(call.id, request)  # before posting: the result may come at once
        status = await self._post(f"{at(call.conversation)}/tool/confirm", body)
        if status == _OK:
            if call.id in self._running:
                await self._client.report(request, Execution.STARTED)
            return
        self._running.pop(call.id, None)
        if status == _NOT_FOUND:
            ran, why = Execution.REFUSED_LATE, "gptme no longer waits for this decision"
        else:
            ran, why = Execution.SKIPPED, f"gptme did not accept the decision: status {status}"
        await self._client.report(request, ran, detail=why)

    # ------------------------------------------------------------ answered elsewhere

    async def _stream(self, conversation: str, session: str) -> None:
        def take(event: Any) -> None:
            self.take(conversation, session, event)

        try:
            path = events_of(conversation, session)
            await self._api.stream(path, take, silence=SILENCE_SECONDS)
        except OSError as error:
            log.warning("the events of a conversation ended: %s", error)
        finally:
            self._followed.discard((conversation, session))  # so that `look` follows it again
        await self._compare(conversation)

    async def _compare(self, conversation: str) -> None:
        """Cancel the requests that gptme does not wait for any more, because a person decided in
        gptme."""
        before = [tool_id for tool_id, place in self._places.items() if place == conversation]
        if not before:
            return
        try:
            pending = await self._api.pending(conversation)
        except OSError as error:
            log.warning("gptme did not list its pending tools: %s", error)
            return
        for tool_id in before:
            if tool_id not in pending:
                await self._withdraw(tool_id)

    async def _withdraw(self, tool_id: str) -> None:
        if request := self._waiting.get(tool_id):
            words = "gptme's server no longer waits for this decision"
            await self._client.cancel(request, reason=Reason.RESOLVED_ELSEWHERE, message=words)


def at(conversation: str) -> str:
    """Return the URL path of a conversation."""
    return f"/conversations/{quote(conversation, safe='')}"


def events_of(conversation: str, session: str) -> str:
    """Return the URL path of a session's events."""
    return f"{at(conversation)}/events?session_id={quote(session, safe='')}"


def _pending_in(event: Any) -> list[JsonObject]:
    if not isinstance(event, dict) or event.get("type") != "connected":
        raise ConnectionError("the stream does not start with the event `connected`")
    pending = event.get("pending_tools")
    return [one for one in pending if isinstance(one, dict)] if isinstance(pending, list) else []


def _read(conversation: str, session: str, tool_id: str, told: Any) -> PendingTool:
    tool = told.get("tool") if isinstance(told, dict) else None
    if not isinstance(tool, str) or not tool:
        raise BadEvent("the tool has no name")
    args, content = told.get("args") or [], told.get("content")
    if not isinstance(args, list) or not all(isinstance(one, str) for one in args):
        raise BadEvent("`args` is not a list of strings")
    if content is not None and not isinstance(content, str):
        raise BadEvent("`content` is not a string")
    return PendingTool(
        conversation=conversation, session=session, id=tool_id, tool=tool, args=args,
        content=content,
    )  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run `gateway bridge gptme-server`; return the exit code."""
    parser = argparse.ArgumentParser(prog="gateway bridge gptme-server", description=__doc__)
    parser.add_argument(
        "--url", default="http://127.0.0.1:5700", help="URL at which gptme's server listens"
    )
    options = parser.parse_args(argv)
    key = os.environ.get("GPTME_SERVER_TOKEN")
    return run_follower(lambda client: GptmeBridge(client, GptmeApi(options.url, key)), options.url)
