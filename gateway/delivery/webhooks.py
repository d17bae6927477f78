"""Send signed webhooks about requests to other systems. Off unless an operator sets an address.

Start with `Webhooks`. Events of requests are sent in order and at least once, because the cursor
moves only after the receiver accepted the event or all attempts failed. At the first start, sending
begins with the next event. Bodies contain names but no arguments, answers or messages. Signatures
follow Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from gateway.delivery.egress_guard import (
    Forbidden,
    Resolve,
    Unanswered,
    post,
    resolve_by_system,
    target_of,
)
from gateway.domain.health_and_metrics import Tally
from gateway.domain.log_context import log_about
from gateway.domain.records import AuditEvent
from gateway.domain.time_and_tasks import Clock, check_wanted
from gateway.errors import Unreachable
from gateway.models import ENDINGS
from gateway.ports import Feed, address_of
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.delivery")

_AGAIN_SECONDS = 1.0  # before following the events again
_OTHERS_SECONDS = 5.0  # before checking whether the sending replica is still active
_CLAIM_MARGIN = 5.0  # seconds
_SECRET_PREFIX = "whsec_"
_LEAST_SECRET_BYTES = 24
_STATUSES = {"submitted": "pending"}


class WebhookCursor(Protocol):
    """Stores the position in the events and which replica sends. All replicas share it."""

    async def claim(self, seconds: float) -> bool:
        """Become the only replica that sends, for `seconds`. Return False if another replica is."""

    async def load_cursor(self) -> str | None:
        """Return the ID of the last processed event, or None at the start."""

    async def save_cursor(self, event_id: str) -> None:
        """Save the ID of the last processed event. If the write is lost, some events are sent
        again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One receiver. `secret` is `whsec_` plus base64 of at least 24 bytes. `hosts` are the allowed
    hosts.

    An attempt may take `timeout` seconds. Pauses between attempts grow from `first_pause` to
    `longest_pause`. After `attempts` failed attempts, an event is not sent any more. `inbox` is the
    inbox's address, or "".
    """

    url: str
    secret: str = field(repr=False)
    hosts: tuple[str, ...]
    production: bool
    timeout: float = 10.0
    attempts: int = 12
    first_pause: float = 1.0
    longest_pause: float = 300.0
    inbox: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEnvironment:
    """The DNS resolver and the clock, which tests can replace."""

    resolve: Resolve = resolve_by_system
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


_REAL = WebhookEnvironment()


class Webhooks:
    """Sends events to one receiver. `history` returns up to N events after an ID. `store_errors`
    are the exceptions that an unavailable store raises.

    Raises Forbidden or ValueError if the webhook's settings are invalid.
    """

    def __init__(
        self,
        hook: Webhook,
        feed: Feed,
        history: Callable[[str | None, int], Awaitable[list[AuditEvent]]],
        cursor: WebhookCursor,
        clock: Clock,
        *,
        tally: Tally,
        store_errors: tuple[type[Exception], ...],
        outside: WebhookEnvironment = _REAL,
    ) -> None:
        self._hook = hook
        self._key = _key(hook.secret)
        self._target = target_of(hook.url, allowed=hook.hosts, production=hook.production)
        self._feed = feed
        self._history = history
        self._cursor = cursor
        self._clock = clock
        self._tally = tally
        self._down: tuple[type[Exception], ...] = (Unreachable, *store_errors)
        self._resolve, self._pause = outside.resolve, outside.pause

    async def run(self) -> None:
        """Send unsent events, then every new event, until cancelled."""
        while True:
            try:
                async with self._feed.changes() as changes:
                    await self._catch_up(None)
                    async for event in changes:
                        await self._catch_up(event)
            except self._down as error:
                log.warning(
                    "webhooks restart: %s",
                    type(error).__name__,
                    extra={"event": "webhooks_again"},
                )
            await self._pause(_AGAIN_SECONDS)

    async def _catch_up(self, first: AuditEvent | None) -> None:
        while (event := await self._due(first)) is not None:
            check_wanted()
            with log_about(request=event.request_id, agent=event.agent):
                sent = not event.request_id or await self._send(event)
            if sent:
                await self._cursor.save_cursor(event.id)
            else:
                await self._pause(_OTHERS_SECONDS)
        check_wanted()

    async def _due(self, first: AuditEvent | None) -> AuditEvent | None:
        last = await self._cursor.load_cursor()
        if last is None:
            return first
        return next(iter(await self._history(last, 1)), None)

    async def _send(self, event: AuditEvent) -> bool:
        """Send an event, or stop after too many attempts. Return False if another replica sends
        it."""
        hook, pause = self._hook, self._hook.first_pause
        for attempt in range(1, hook.attempts + 1):
            if not await self._cursor.claim(hook.timeout + pause + _CLAIM_MARGIN):
                return False
            if await self._attempt(event, attempt):
                return True
            if attempt < hook.attempts:
                await self._pause(pause)
                pause = min(2 * pause, hook.longest_pause)
        self._tally.webhooks_lost += 1
        log.error(
            "a webhook was not delivered, and is not tried again",
            extra={"event": "webhook_lost", "id": event.id},
        )
        return True

    async def _attempt(self, event: AuditEvent, attempt: int) -> bool:
        body = body_of(event, address_of(self._hook.inbox, event.request_id))
        try:
            async with asyncio.timeout(self._hook.timeout):
                headers = signed_headers(self._key, event.id, self._clock.now_ms(), body)
                answer = await post(self._target, self._resolve, body=body, headers=headers)
        except (Forbidden, Unanswered) as error:
            why = str(error)
        except TimeoutError as error:
            why = type(error).__name__
        else:
            if 200 <= answer.status < 300:  # noqa: PLR2004 (HTTP's own figures)
                return True
            why = f"status {answer.status}"
        self._tally.webhook_failures += 1
        log.warning(
            "the receiver did not accept a webhook (attempt %d): %s",
            attempt,
            why,
            extra={"event": "webhook_failed", "id": event.id},
        )
        return False


def body_of(event: AuditEvent, address: str = "") -> bytes:
    """Return the webhook's body for an event: names, status, digest, reason, but no messages. For a
    pending request, it also has the `address` where people decide it."""
    status = event.type if event.type in ENDINGS else _STATUSES.get(event.type)
    data: JsonObject = {
        "id": event.request_id,
        "agent": event.agent,
        "revision": event.revision,
        "status": status,
        "digest": event.data.get("digest"),
        "reason": event.data.get("reason") if event.type in ENDINGS else None,
        "stepped": event.data.get("stepped") if event.type in ENDINGS else None,
        "answer_at": address if status == "pending" and address else None,
    }
    told = {name: value for name, value in data.items() if value is not None}
    message = {"type": f"request.{event.type}", "timestamp": event.at, "data": told}
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode()


def signed_headers(key: bytes, message_id: str, now_ms: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message sent now, signed with a receiver's key."""
    seconds = now_ms // 1000
    return {
        "Content-Type": "application/json",
        "User-Agent": "approval-gateway",
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": signature(key, message_id, seconds, body),
    }


def signature(key: bytes, event_id: str, seconds: int, body: bytes) -> str:
    """Return the Standard Webhooks signature (version 1) of a body."""
    signed = f"{event_id}.{seconds}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(_SECRET_PREFIX) or len(key) < _LEAST_SECRET_BYTES:
        raise ValueError(
            f"a webhook's secret must be whsec_ plus base64 of at least {_LEAST_SECRET_BYTES} bytes"
        )
    return key
