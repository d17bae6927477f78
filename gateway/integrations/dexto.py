"""`gateway bridge dexto`: Dexto's approvals are answered through the gateway.

Dexto tells its webhooks what it asks, signed with a secret that the bridge made; `Listener` checks
that and hands it to `DextoBridge`, which asks the gateway and posts the answer to `DextoApi`. Dexto
keeps webhooks and waiting approvals in memory: when it was restarted, the bridge registers again
and withdraws what nobody waits for any more.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from gateway.client import AsyncClient, session_name
from gateway.errors import GatewayError, Misconfigured
from gateway.integrations.dexto_http import DextoApi, Listener
from gateway.integrations.dexto_messages import (
    APPROVAL_ID,
    Asked,
    BadMessage,
    read_request,
    refuse,
    write_answer,
)
from gateway.integrations.host_http import HostTasks, run_until_told, tell_ready
from gateway.models import ApprovalRequest, Execution, Reason
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.integrations")

CHECK_SECONDS = 5.0
PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between the tries to tell Dexto, while it does not answer."""

_MOST_REMEMBERED = 10_000
_OK, _CREATED, _BAD, _NOT_FOUND, _BROKEN = 200, 201, 400, 404, 500

Pause = Callable[[float], Awaitable[None]]


class DextoBridge:
    """Asks the gateway what Dexto asks, and tells Dexto the answer. Lives in one event loop."""

    def __init__(
        self, client: AsyncClient, dexto: DextoApi, *, pause: Pause = asyncio.sleep
    ) -> None:
        self._client = client
        self._dexto = dexto
        self._pause = pause
        self._waiting: dict[str, ApprovalRequest] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._running: OrderedDict[tuple[str, str], ApprovalRequest] = OrderedDict()
        self._tasks = HostTasks("Dexto")
        self._closing = False

    def take(self, event: Any, *, attempt: int = 1) -> None:
        """Take an event of a webhook. Raises BadMessage for what does not fit the contract."""
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise BadMessage("this is no event")
        data = event.get("data")
        if event["type"] == "approval:request":
            self._take_request(data, attempt)
        elif event["type"] == "approval:response" and isinstance(data, dict):
            self._tasks.start(self._resolve_elsewhere(data))
        elif event["type"] == "llm:tool-result" and isinstance(data, dict):
            self._tasks.start(self._report(data))

    @property
    def waits(self) -> bool:
        """Whether anything waits for an answer."""
        return bool(self._waiting)

    async def abandon(self) -> None:
        """Withdraw what waits: Dexto does not wait for it any more."""
        for request in list(self._waiting.values()):
            await self._client.cancel(request, reason=Reason.ABANDONED)

    async def close(self) -> None:
        """Withdraw what waits, and tell Dexto: it must not wait for a bridge that is gone."""
        self._closing = True
        await self.abandon()
        await self._tasks.finish()

    def _take_request(self, data: Any, attempt: int) -> None:
        approval = data.get("approvalId") if isinstance(data, dict) else None
        if not isinstance(approval, str) or not APPROVAL_ID.fullmatch(approval):
            raise BadMessage("approvalId is no UUID")
        if approval in self._seen:  # delivered again
            return
        self._seen[approval] = None
        if len(self._seen) > _MOST_REMEMBERED:
            self._seen.popitem(last=False)
        try:
            asked = read_request(data, attempt=attempt)
            request = self._client.request(
                asked.tool, asked.arguments, **{**asked.details, "session": asked.session}
            )
        except (BadMessage, GatewayError) as error:
            log.warning("an approval that cannot be asked: %s", error)
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
            log.error("the gateway refused a request: %s", error)
            body = refuse("cancelled", "system_cancelled", f"nobody was asked: {error}")
        finally:
            del self._waiting[asked.approval]
            if body is not None and body["status"] == "approved":
                await self._tell_approved(asked, request, body)
            elif body is not None:
                await self._tell(asked.approval, body)

    async def _tell(self, approval: str, body: JsonObject) -> int:
        """Post an answer until Dexto has it; return the last status, 0 where it never answered."""
        status = 0
        for seconds in (*PAUSES, None):
            try:
                status, _ = await self._dexto.call("POST", f"/approvals/{approval}", body)
            except OSError as error:
                log.warning("Dexto does not answer: %s", error)
                status = 0
            if status == _BAD and "reason" in body:
                body = {"status": "denied"}  # a server that takes no reasons
                continue
            if 0 < status < _BROKEN:
                break
            if self._closing or seconds is None:
                break
            await self._pause(seconds)
        if status not in (_OK, _NOT_FOUND):
            log.error("Dexto did not take an answer: status %s", status)
        return status

    async def _tell_approved(
        self, asked: Asked, request: ApprovalRequest, body: JsonObject
    ) -> None:
        """Post an approval, and report what is known of the run: that Dexto took it, or not."""
        call = asked.session, asked.call or ""
        self._running[call] = request  # before it is told: the result may be there at once
        if len(self._running) > _MOST_REMEMBERED:
            self._running.popitem(last=False)
        status = await self._tell(asked.approval, body)
        if status == _OK:
            await self._client.report(request, Execution.STARTED)
            return
        self._running.pop(call, None)
        if status == _NOT_FOUND:
            ran, why = Execution.REFUSED_LATE, "Dexto waits no more"
        else:
            ran, why = Execution.SKIPPED, f"Dexto did not take the answer: status {status}"
        await self._client.report(request, ran, detail=why)

    async def _resolve_elsewhere(self, data: JsonObject) -> None:
        """Withdraw what Dexto says has ended there: somebody answered, or its time ran out."""
        request = self._waiting.get(str(data.get("approvalId")))
        if request is not None:
            how = f"Dexto: {data.get('status')}, {data.get('reason') or 'answered there'}"
            await self._client.cancel(request, reason=Reason.RESOLVED_ELSEWHERE, message=how)

    async def _report(self, data: JsonObject) -> None:
        """Report how an approved call ran."""
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
    """Our webhook at Dexto, which forgets it when it is restarted."""

    def __init__(self, dexto: DextoApi, bridge: DextoBridge, url: str, secret: str) -> None:
        self._dexto = dexto
        self._bridge = bridge
        self._body = {"url": url, "secret": secret, "description": "approval gateway"}
        self._id = ""

    async def register(self) -> None:
        """Register the webhook. Raises OSError, and Misconfigured where Dexto refuses."""
        status, found = await self._dexto.call("POST", "/webhooks", self._body)
        try:
            self._id = str(found["webhook"]["id"])
        except (LookupError, TypeError):
            self._id = ""
        if status != _CREATED or not self._id:
            raise Misconfigured(f"Dexto refused the webhook with status {status}")

    async def check(self) -> None:
        """Register again where Dexto has forgotten us, and withdraw what it waited for."""
        status, _ = await self._dexto.call("GET", f"/webhooks/{self._id}")
        if status == _NOT_FOUND:
            log.warning("Dexto was restarted: what it waited for is withdrawn")
            await self._bridge.abandon()
            await self.register()

    async def follow(self, pause: Pause = asyncio.sleep) -> None:
        """Check for ever."""
        while True:
            await pause(CHECK_SECONDS)
            try:
                await self.check()
            except (OSError, GatewayError) as error:
                log.warning("Dexto does not answer: %s", error)

    async def remove(self) -> None:
        """Take the webhook back, as far as Dexto answers."""
        try:
            await self._dexto.call("DELETE", f"/webhooks/{self._id}")
        except OSError as error:
            log.warning("the webhook stays registered: %s", error)


def main(argv: Sequence[str]) -> int:
    """Run `gateway bridge dexto`; return the exit code."""
    parser = argparse.ArgumentParser(prog="gateway bridge dexto", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:3000", help="the Dexto server")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT",
                        help="where its webhook comes to; port 0 takes a free one")  # fmt: skip
    parser.add_argument("--webhook-url", help="the address of that as Dexto reaches it")
    options = parser.parse_args(argv)
    return run_until_told(partial(_run, options))


async def _run(options: argparse.Namespace, stop: asyncio.Event) -> None:
    host, _, port = options.listen.rpartition(":")
    if not host or not port.isdigit():
        raise Misconfigured("--listen takes HOST:PORT")
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
