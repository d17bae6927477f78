"""`gateway bridge dexto`: answer Dexto's approval questions through the gateway.

Dexto sends its questions to a webhook, signed with a secret of the bridge. `Listener` checks the
signature. `DextoBridge` asks the gateway, and posts the decision through `DextoApi`. Dexto keeps
webhooks and open questions only in memory. After a restart of Dexto, the bridge registers again,
and cancels the old requests.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gateway.client import AsyncClient, Outcome, OutcomeKind, session_name
from gateway.errors import GatewayError, Misconfigured
from gateway.integrations.bridges.host_http import (
    HostApi,
    HostBridge,
    Remembered,
    run_until_told,
    tell_ready,
)
from gateway.models import (
    Action,
    ApprovalRequest,
    Context,
    Execution,
    FieldKind,
    Kind,
    Option,
    Origin,
    Preview,
    Question,
    Reason,
)
from gateway.wire.canonical_json import parse
from gateway.wire.codec import JsonObject

# Turns Dexto's questions into requests, and decisions into Dexto's answers.

APPROVAL_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_ATTEMPT_SECONDS = 12  # longest duration of a failed delivery and the pause after it
_LONGEST_MARGIN = 30.0
_TOOL_MEMBERS = {"toolName": str, "toolCallId": str, "args": dict}
_COMMAND_MEMBERS = {"toolName": str, "command": str}
_FORM_MEMBERS = {"schema": dict, "prompt": str, "serverName": str}
# Members about the call, or Dexto's own offers to remember it. They do not run.
_ABOUT = {
    *("description", "displayPreview", "presentationSnapshot"),
    *("approvalKey", "suggestedPatterns"),
}
_SECRET_FORMATS = ("password",)
_KINDS = {"boolean": FieldKind.BOOLEAN, "integer": FieldKind.NUMBER, "number": FieldKind.NUMBER,
          "string": FieldKind.TEXT}  # fmt: skip
# The roles of the arguments of Dexto's own tools.
_OWN = ("", "internal", "custom")
_ROLES = {
    "bash_exec": {"command": "command", "cwd": "working_folder", "description": "remark"},
    "read_file": {"file_path": "read", "limit": "part", "offset": "part"},
    "write_file": {"file_path": "write", "content": "data", "create_dirs": "part"},
    "edit_file": {"file_path": "write", "old_string": "data", "new_string": "data"},
}
_COMMAND_TOOLS = ("bash_exec",)


class BadMessage(Exception):
    """A message of Dexto does not match its documentation. The exception's text says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An `approval:request`. `details` are keywords of `gateway.client.AsyncClient.request`.
    `integers` are the ids of form fields that accept only whole numbers."""

    approval: str
    session: str
    tool: str
    arguments: JsonObject
    call: str | None
    integers: frozenset[str] = frozenset()
    details: JsonObject = field(default_factory=dict)


def read_request(data: Any, *, attempt: int = 1) -> Asked:
    """Return the question in an event of type `approval:request`. Raises BadMessage.

    `attempt` counts deliveries from 1. The time of earlier deliveries is subtracted from the
    timeout.
    """
    members = _take(data, {"approvalId": str, "type": str, "metadata": dict})
    approval, metadata = members["approvalId"], members["metadata"]
    if not APPROVAL_ID.fullmatch(approval):
        raise BadMessage("approvalId is not a UUID")
    session = data.get("sessionId")
    if session is not None and not isinstance(session, str):
        raise BadMessage("sessionId is not a string")
    read = _READERS.get(members["type"])
    if read is None:
        raise BadMessage(f"unknown type of approval {members['type'][:40]!r}")
    tool, arguments, details = read(metadata)
    call = metadata.get("toolCallId")
    origin = Origin(framework="dexto", tool_call_id=call if isinstance(call, str) else None)
    name = session_name(session) if session else "default"
    common = {
        "session": name,
        "call_id": approval,
        "context": Context(),
        "origin": origin,
        "timeout": _time_left(data.get("timeout"), attempt),
        "allowed": (Action.APPROVE, Action.DENY),
    }
    whole = {one.id for one in details.get("questions", ()) if _of(metadata, one.id) == "integer"}
    return Asked(
        approval=approval,
        session=name,
        tool=tool,
        arguments=arguments,
        call=origin.tool_call_id,
        integers=frozenset(whole),
        details={**common, **details},
    )


def write_answer(asked: Asked, outcome: Outcome) -> JsonObject | None:
    """Return the body for `POST /api/approvals/{id}`, None if Dexto already has a decision.

    Dexto accepts neither edited arguments nor a result. A decision with one of them becomes a
    denial with an explanation.
    """
    decision = outcome.decision
    if decision is not None and decision.reason is Reason.RESOLVED_ELSEWHERE:
        return None
    if outcome.kind is OutcomeKind.APPROVED:
        return {"status": "approved"}
    if outcome.kind is OutcomeKind.ANSWERED:
        return {"status": "approved", "formData": _write_form(asked, outcome.result)}
    if outcome.kind in (OutcomeKind.EDITED, OutcomeKind.RESPONDED):
        instead = outcome.arguments if outcome.kind is OutcomeKind.EDITED else outcome.result
        what = "call it with" if outcome.kind is OutcomeKind.EDITED else "use this result"
        said = f"{outcome.message}; the call did not run: {what} {json.dumps(instead)}"
        return refuse("denied", "system_denied", said)
    if outcome.kind in (OutcomeKind.DENIED, OutcomeKind.ABORTED):
        people = decision is not None and decision.reason in (Reason.PERSON, Reason.FEEDBACK)
        return refuse("denied", "user_denied" if people else "system_denied", outcome.message)
    timeout = outcome.kind is OutcomeKind.EXPIRED
    return refuse("cancelled", "timeout" if timeout else "system_cancelled", outcome.message)


def refuse(status: str, reason: str, message: str) -> JsonObject:
    """Return the body of an answer that does not approve the call."""
    return {"status": status, "reason": reason, "message": message}


def _take(data: Any, members: Mapping[str, type]) -> JsonObject:
    if not isinstance(data, dict):
        raise BadMessage("the approval is not a JSON object")
    for name, kind in members.items():
        if not isinstance(data.get(name), kind):
            raise BadMessage(f"{name} is missing, or has the wrong type")
    return data


def _time_left(timeout: Any, attempt: int) -> float | None:
    """Return the timeout for the request in seconds, shorter than Dexto's. None means the timeout
    of the route."""
    if timeout is None:
        return None
    if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout <= 0:
        raise BadMessage("timeout is not a number of milliseconds")
    left = timeout / 1000 - _ATTEMPT_SECONDS * (attempt - 1)
    if left <= 0:
        raise BadMessage("the approval arrived after its own timeout")
    return max(left / 2, left - max(2.0, min(_LONGEST_MARGIN, left / 10)))


def _read_tool(metadata: JsonObject) -> tuple[str, JsonObject, JsonObject]:
    members = _take(metadata, _TOOL_MEMBERS)
    tool, arguments = members["toolName"], members["args"]
    rest = {
        name: value for name, value in metadata.items() if name not in _ABOUT | set(_TOOL_MEMBERS)
    }
    home, _, name = tool.rpartition("--")
    own = name if home in _OWN else ""
    roles = {one: role for one, role in _ROLES.get(own, {}).items() if one in arguments}
    details = {
        "kind": Kind.COMMAND if own in _COMMAND_TOOLS else Kind.TOOL,
        "roles": roles,
        "hint": _text(metadata.get("description")),
        "preview": _read_preview(metadata.get("displayPreview")),
        "payload": rest or None,  # such as access to a folder, which the approval includes
    }
    return tool, arguments, details


def _read_command(metadata: JsonObject) -> tuple[str, JsonObject, JsonObject]:
    members = _take(metadata, _COMMAND_MEMBERS)
    # Show both, because Dexto does not say which one runs.
    arguments = {
        name: value
        for name in ("command", "originalCommand")
        if (value := metadata.get(name)) is not None
    }
    return (
        members["toolName"],
        arguments,
        {
            "kind": Kind.COMMAND,
            "roles": dict.fromkeys(arguments, "command"),
        },
    )


def _read_custom(metadata: JsonObject) -> tuple[str, JsonObject, JsonObject]:
    return "dexto_custom", metadata, {}


def _read_form(metadata: JsonObject) -> tuple[str, JsonObject, JsonObject]:
    members = _take(metadata, _FORM_MEMBERS)
    arguments = {"question": members["prompt"], "server": members["serverName"]}
    questions = tuple(_read_fields(members["schema"]))
    if not questions:
        raise BadMessage("the form has no fields")
    allowed = (Action.ANSWER, Action.DENY)
    return (
        "elicitation",
        arguments,
        {
            "kind": Kind.QUESTION,
            "questions": questions,
            "allowed": allowed,
        },
    )


_READERS = {
    "tool_approval": _read_tool,
    "command_approval": _read_command,
    "elicitation": _read_form,
    "custom": _read_custom,
}


def _read_fields(schema: JsonObject) -> Iterator[Question]:
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise BadMessage("the form is not a JSON Schema of an object")
    for name, one in properties.items():
        if not isinstance(one, dict):
            raise BadMessage(f"the field {name[:40]!r} is not a JSON Schema")
        title, more = _text(one.get("title")) or name, _text(one.get("description"))
        kind, options = _read_kind(name, one)
        yield Question(
            id=name,
            text=f"{title}: {more}" if more else title,
            kind=kind,
            options=options,
            required=name in required,
            secret=one.get("format") in _SECRET_FORMATS,
        )


def _read_kind(name: str, one: JsonObject) -> tuple[FieldKind, tuple[Option, ...]]:
    kind = one.get("type")
    listed = one.get("items") if kind == "array" else one
    values = listed.get("enum") if isinstance(listed, dict) else None
    if values is not None and kind in ("string", "array"):
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise BadMessage(f"the choices of {name[:40]!r} are not strings")
        names = one.get("enumNames")
        labels = names if isinstance(names, list) and len(names) == len(values) else values
        options = tuple(Option(value=v, label=str(s)) for v, s in zip(values, labels, strict=True))
        return (FieldKind.CHOICES if kind == "array" else FieldKind.CHOICE), options
    if not isinstance(kind, str) or kind not in _KINDS or values is not None:
        raise BadMessage(f"cards do not support the type of the field {name[:40]!r}")
    return _KINDS[kind], ()


def _write_form(asked: Asked, answers: Any) -> JsonObject:
    """Return the answers of a form. Convert whole numbers to integers, because Dexto's schema
    demands that."""
    form = {name: value for name, value in (answers or {}).items() if value is not None}
    for name in asked.integers & form.keys():
        if not float(form[name]).is_integer():
            raise BadMessage(f"{name[:40]!r} needs a whole number, but the answer is {form[name]}")
        form[name] = int(form[name])
    return form


def _of(metadata: JsonObject, name: str) -> Any:
    return metadata["schema"]["properties"][name].get("type")


def _read_preview(display: Any) -> Preview | None:
    if isinstance(display, dict) and display.get("type") == "diff":
        text = _text(display.get("unified"))
        return Preview(format="diff", text=text) if text else None
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# HTTP in both directions: calls of Dexto's API, and deliveries to the webhook.

SIGNATURE = "X-Dexto-Signature-256"
ATTEMPT = "X-Dexto-Delivery-Attempt"

_MOST_BODY = 4 * 1024 * 1024
_CALL_SECONDS = 10.0
_DEXTO_HTTP_OK, _DEXTO_HTTP_BAD, _UNSIGNED, _TOO_LARGE = 200, 400, 401, 413

Take = Callable[..., None]


class DextoApi(HostApi):
    """The HTTP API of Dexto."""

    def __init__(self, url: str, key: str | None) -> None:
        super().__init__(url, key, prefix="/api")


def sign(body: bytes, secret: str) -> str:
    """Return the signature of a delivery, in the format of Dexto's header."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


class Listener(ThreadingHTTPServer):
    """Receive deliveries, and pass those with a valid signature to the event loop."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], take: Take, secret: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(address, _Delivery)
        self._take = take
        self._secret = secret
        self._loop = loop
        self._thread = threading.Thread(
            target=self.serve_forever, args=(0.05,), name="webhooks", daemon=True
        )

    def __enter__(self) -> Listener:
        """Listen in a thread, and return this server."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    def take(self, body: bytes, signature: str, attempt: str) -> tuple[int, str]:
        """Pass on a delivery; return the status and text of the response."""
        if not hmac.compare_digest(signature.encode(), sign(body, self._secret).encode()):
            return _UNSIGNED, "the signature is missing or wrong"

        async def hand_over() -> None:
            count = int(attempt) if attempt.isascii() and attempt.isdigit() else 1
            self._take(parse(body), attempt=max(count, 1))

        try:
            asyncio.run_coroutine_threadsafe(hand_over(), self._loop).result(_CALL_SECONDS)
        except (BadMessage, GatewayError) as error:
            return _DEXTO_HTTP_BAD, str(error)
        return _DEXTO_HTTP_OK, "taken"


class _Delivery(BaseHTTPRequestHandler):
    timeout = _CALL_SECONDS
    server: Listener

    def do_POST(self) -> None:
        """Receive one delivery."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= _MOST_BODY):
            self._answer(_TOO_LARGE, "send a Content-Length of at most 4 MiB")
            return
        body = self.rfile.read(int(length))
        given = self.headers.get(SIGNATURE, ""), self.headers.get(ATTEMPT, "1")
        self._answer(*self.server.take(body, *given))

    def _answer(self, status: int, words: str) -> None:
        body = json.dumps({"message": words}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing. The bridge has its own log."""


log = logging.getLogger("gateway.integrations")

CHECK_SECONDS = 5.0
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between the attempts to post a decision, while Dexto does not answer."""

_OK, _CREATED, _BAD, _NOT_FOUND, _BROKEN = 200, 201, 400, 404, 500

Pause = Callable[[float], Awaitable[None]]


class DextoBridge(HostBridge):
    """Ask the gateway about Dexto's questions, and post the decisions to Dexto."""

    def __init__(
        self, client: AsyncClient, dexto: DextoApi, *, pause: Pause = asyncio.sleep
    ) -> None:
        super().__init__("Dexto", client, dexto, pause)
        self._running = Remembered[tuple[str, str], ApprovalRequest]()

    def take(self, event: Any, *, attempt: int = 1) -> None:
        """Handle an event of the webhook. Raises BadMessage if it is invalid."""
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise BadMessage("the body is not an event")
        data = event.get("data")
        if event["type"] == "approval:request":
            self._take_request(data, attempt)
        elif event["type"] == "approval:response" and isinstance(data, dict):
            self._tasks.start(self._resolve_elsewhere(data))
        elif event["type"] == "llm:tool-result" and isinstance(data, dict):
            self._tasks.start(self._report(data))

    def _take_request(self, data: Any, attempt: int) -> None:
        approval = data.get("approvalId") if isinstance(data, dict) else None
        if not isinstance(approval, str) or not APPROVAL_ID.fullmatch(approval):
            raise BadMessage("approvalId is not a UUID")
        if not self._is_new(approval):  # delivered again
            return
        try:
            asked = read_request(data, attempt=attempt)
            request = self._client.request(
                asked.tool, asked.arguments, **{**asked.details, "session": asked.session}
            )
        except (BadMessage, GatewayError) as error:
            log.warning("cannot submit an approval of Dexto as a request: %s", error)
            body = refuse("cancelled", "validation_failed", f"nobody was asked: {error}")
            self._tasks.start(self._tell(approval, body))
            return
        self._waiting[approval] = request
        self._tasks.start(self._ask(asked, request))

    async def _ask(self, asked: Asked, request: ApprovalRequest) -> None:
        body: JsonObject | None = refuse("cancelled", "system_cancelled", "the bridge failed")
        try:
            body = write_answer(asked, await self._client.outcome(request))
        except BadMessage as error:
            body = refuse("cancelled", "validation_failed", str(error))
        except GatewayError as error:
            log.error("the gateway rejected a request: %s", error)
            body = refuse("cancelled", "system_cancelled", f"nobody was asked: {error}")
        finally:
            del self._waiting[asked.approval]
            if body is not None and body["status"] == "approved":
                await self._tell_approved(asked, request, body)
            elif body is not None:
                await self._tell(asked.approval, body)

    async def _tell(self, approval: str, body: JsonObject) -> int:
        """Post a decision repeatedly until Dexto accepts it. Return the last HTTP status, 0 without
        a response."""
        status = 0
        for seconds in (*PAUSES, None):
            try:
                status, _ = await self._server.call("POST", f"/approvals/{approval}", body)
            except OSError as error:
                log.warning("Dexto does not respond: %s", error)
                status = 0
            if status == _BAD and "reason" in body:
                body = {"status": "denied"}  # this version of Dexto accepts no reasons
                continue
            if 0 < status < _BROKEN:
                break
            if self._closing or seconds is None:
                break
            await self._pause(seconds)
        if status not in (_OK, _NOT_FOUND):
            log.error("Dexto did not accept a decision: status %s", status)
        return status

    async def _tell_approved(
        self, asked: Asked, request: ApprovalRequest, body: JsonObject
    ) -> None:
        """Post an approval, and report whether Dexto accepted it."""
        call = asked.session, asked.call or ""
        self._running.keep(call, request)  # before posting: the result may come at once
        status = await self._tell(asked.approval, body)
        if status == _OK:
            await self._client.report(request, Execution.STARTED)
            return
        self._running.pop(call, None)
        if status == _NOT_FOUND:
            ran, why = Execution.REFUSED_LATE, "Dexto no longer waits for this decision"
        else:
            ran, why = Execution.SKIPPED, f"Dexto did not accept the decision: status {status}"
        await self._client.report(request, ran, detail=why)

    async def _resolve_elsewhere(self, data: JsonObject) -> None:
        """Cancel a request whose question was answered, or timed out, in Dexto."""
        request = self._waiting.get(str(data.get("approvalId")))
        if request is not None:
            how = f"Dexto: {data.get('status')}, {data.get('reason') or 'answered there'}"
            await self._client.cancel(request, reason=Reason.RESOLVED_ELSEWHERE, message=how)

    async def _report(self, data: JsonObject) -> None:
        """Report the result of an approved call to the gateway."""
        named = data.get("sessionId"), data.get("callId")
        if not all(isinstance(name, str) for name in named):
            return
        request = self._running.pop((session_name(str(named[0])), str(named[1])), None)
        if request is not None:
            good = data.get("success") is True
            detail = "" if good else str(data.get("error") or "")
            ran = Execution.SUCCEEDED if good else Execution.FAILED
            await self._client.report(request, ran, detail=detail)


class Registration:
    """The bridge's webhook in Dexto. Dexto loses the registration when it restarts."""

    def __init__(self, dexto: DextoApi, bridge: DextoBridge, url: str, secret: str) -> None:
        self._dexto = dexto
        self._bridge = bridge
        self._body = {"url": url, "secret": secret, "description": "approval gateway"}
        self._id = ""

    async def register(self) -> None:
        """Register the webhook. Raises OSError, or Misconfigured if Dexto rejects the
        registration."""
        status, found = await self._dexto.call("POST", "/webhooks", self._body)
        try:
            self._id = str(found["webhook"]["id"])
        except (LookupError, TypeError):
            self._id = ""
        if status != _CREATED or not self._id:
            raise Misconfigured(f"Dexto refused the webhook with status {status}")

    async def check(self) -> None:
        """Register again if Dexto was restarted, and cancel its requests."""
        status, _ = await self._dexto.call("GET", f"/webhooks/{self._id}")
        if status == _NOT_FOUND:
            log.warning("Dexto was restarted: its pending requests are cancelled")
            await self._bridge.abandon()
            await self.register()

    async def follow(self, pause: Pause = asyncio.sleep) -> None:
        """Check the registration every few seconds, until this task is cancelled."""
        while True:
            await pause(CHECK_SECONDS)
            try:
                await self.check()
            except (OSError, GatewayError) as error:
                log.warning("Dexto does not respond: %s", error)

    async def remove(self) -> None:
        """Remove the webhook. A failure is logged."""
        try:
            await self._dexto.call("DELETE", f"/webhooks/{self._id}")
        except OSError as error:
            log.warning("cannot remove the webhook at Dexto: %s", error)


def main(argv: Sequence[str]) -> int:
    """Run `gateway bridge dexto`; return the exit code."""
    parser = argparse.ArgumentParser(prog="gateway bridge dexto", description=__doc__)
    parser.add_argument(
        "--url", default="http://127.0.0.1:3000", help="URL at which Dexto's server listens"
    )
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT",
                        help="address for Dexto's webhook; port 0 uses a free port")  # fmt: skip
    parser.add_argument("--webhook-url", help="URL at which Dexto reaches that address")
    options = parser.parse_args(argv)
    return run_until_told(partial(_run, options))


async def _run(options: argparse.Namespace, stop: asyncio.Event) -> None:
    host, _, port = options.listen.rpartition(":")
    if not host or not port.isdigit():
        raise Misconfigured("--listen must be HOST:PORT")
    dexto = DextoApi(options.url, os.environ.get("DEXTO_SERVER_API_KEY"))
    secret = secrets.token_hex(32)
    async with AsyncClient.from_env() as client:
        bridge = DextoBridge(client, dexto)
        with Listener(
            (host, int(port)), bridge.take, secret, asyncio.get_running_loop()
        ) as listener:
            own = f"http://{host}:{listener.server_address[1]}/"
            webhook = Registration(dexto, bridge, options.webhook_url or own, secret)
            await webhook.register()
            try:
                await tell_ready(client, options.url)
                following = asyncio.create_task(webhook.follow())
                await stop.wait()
                following.cancel()
            finally:
                await webhook.remove()
                await bridge.close()
