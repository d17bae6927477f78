"""Send signed messages about ended requests to the verified receivers of instances.

Start with `ProtocolNotices`. No notice may be lost. A notice is built only from an event in the
event stream, so every replica builds the same one. It is saved before the cursor moves. After a
crash in between, the notice is built again, but if it was already sent, it is not sent again.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import SystemRandom
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from gateway.approval_protocol.instances import (
    ProtocolNotice,
    ReceiverAddress,
    ReceiverUnverified,
    RedisNotices,
    UnsafeAddress,
    format_time,
    hears_of,
    notice_of,
)
from gateway.delivery.egress_guard import (
    Forbidden,
    PostAnswer,
    Resolve,
    Target,
    Unanswered,
    post,
    read_pause,
    resolve_by_system,
    target_of,
)
from gateway.delivery.webhooks import signed_headers
from gateway.domain.health_and_metrics import Tally
from gateway.domain.records import AuditEvent
from gateway.domain.time_and_tasks import Clock, cancel_and_wait, check_wanted
from gateway.errors import Unreachable
from gateway.models import ENDINGS
from gateway.ports import Feed
from gateway.stores.requests import RedisStore
from gateway.wire.canonical_json import canonical

# Signed messages to receivers of the Agent Approval Protocol. A receiver must first prove that it
# expects them. Each attempt checks the address again.

SECONDS = 10.0  # limit for one attempt
_OK = 200
_LONGEST_ANSWER = 4096
_PREFIX = "whsec_"


class ProtocolReceivers:
    """Calls receivers at the allowed `hosts`, for at most `seconds`."""

    def __init__(
        self,
        clock: Clock,
        *,
        hosts: Sequence[str],
        production: bool,
        resolve: Resolve = resolve_by_system,
        seconds: float = SECONDS,
    ) -> None:
        self._clock = clock
        self._hosts = tuple(hosts)
        self._production = production
        self._resolve = resolve
        self._seconds = seconds

    def check(self, url: str) -> None:
        """Check that an address may be called. Raises UnsafeAddress."""
        try:
            self._target(url)
        except (Forbidden, ValueError) as error:
            raise UnsafeAddress(_why(error)) from error

    async def verify(self, receiver: ReceiverAddress, instance_id: str) -> None:
        """Send a challenge once, and check that the receiver returns it. Raises UnsafeAddress,
        ReceiverUnverified."""
        message_id, challenge = str(uuid4()), secrets.token_urlsafe(32)
        body = canonical(
            {
                "id": message_id,
                "type": "webhook.verification",
                "registration_id": receiver.registration_id,
                "instance_id": str(UUID(instance_id)),
                "created_at": format_time(self._clock.now_ms()),
                "challenge": challenge,
            }
        )
        try:
            answer = await self.post(receiver, message_id, body, most=_LONGEST_ANSWER)
        except Forbidden as error:
            raise UnsafeAddress(_why(error)) from error
        except Unanswered as error:
            raise ReceiverUnverified(f"the receiver did not respond ({error})") from error
        if answer.status != _OK:
            raise ReceiverUnverified(f"the receiver returned status {answer.status} instead of 200")
        if not _holds(answer.body, challenge):
            raise ReceiverUnverified("the receiver did not return the challenge")

    async def post(
        self,
        receiver: ReceiverAddress,
        message_id: str,
        body: bytes,
        *,
        most: int = 0,
        seconds: float = SECONDS,
    ) -> PostAnswer:
        """Send a message with a signature for this attempt. Raises Forbidden, Unanswered."""
        key = base64.b64decode(receiver.secret.removeprefix(_PREFIX))
        headers = signed_headers(key, message_id, self._clock.now_ms(), body)
        try:
            async with asyncio.timeout(min(self._seconds, seconds)):
                target = self._target(receiver.url)
                return await post(target, self._resolve, body=body, headers=headers, most=most)
        except TimeoutError as error:
            raise Unanswered("too slow") from error

    def _target(self, url: str) -> Target:
        return target_of(url, allowed=self._hosts, production=self._production)


def _holds(body: bytes, challenge: str) -> bool:
    """Return whether a response contains the challenge and nothing else."""
    try:
        said = json.loads(body)
    except ValueError:
        return False
    if not isinstance(said, dict) or set(said) != {"challenge"}:
        return False
    given = said["challenge"]
    return isinstance(given, str) and hmac.compare_digest(given.encode(), challenge.encode())


def _why(error: Exception) -> str:
    if not isinstance(error, Forbidden):
        return "the address is invalid"
    return f"{error} (an operator allows hosts in GATEWAY_WEBHOOK_HOSTS)"


log = logging.getLogger("gateway.approval_protocol")

_AGAIN_SECONDS = 1.0  # before following the events again
_LOOK_SECONDS = 30.0
_GATHER_SECONDS = 0.02  # handle a burst together, but after its responses
_BATCH = 200
_AT_ONCE, _AT_ONCE_FOR_ONE = 32, 4
_FIRST_PAUSE, _LONGEST_PAUSE, _MOST_DOUBLINGS = 5.0, 3600.0, 12
_SKIPPED_SECONDS = 3.0
_CLAIM_MS = int(SECONDS * 1000) + 5000
_LATER = (429, 503)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollInterval:
    """How often, and with how much jitter, due notices are looked up."""

    nap: float = 2.0
    jitter: Callable[[], float] = SystemRandom().random


class ProtocolNotices:
    """Builds notices from events and sends them. `store_errors` are the exceptions that an
    unavailable store raises."""

    def __init__(
        self,
        notices: RedisNotices,
        past: RedisStore,
        feed: Feed,
        receivers: ProtocolReceivers,
        clock: Clock,
        tally: Tally,
        *,
        store_errors: tuple[type[Exception], ...],
        rhythm: PollInterval | None = None,
    ) -> None:
        self._notices = notices
        self._past = past
        self._feed = feed
        self._receivers = receivers
        self._clock = clock
        self._tally = tally
        self._down: tuple[type[Exception], ...] = (Unreachable, *store_errors)
        self._rhythm = rhythm or PollInterval()
        self._due = asyncio.Event()
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._busy = Counter[str]()

    async def run(self) -> None:
        """Build and send notices until cancelled, or until one of the two tasks fails. While no
        instance has a receiver, only check regularly whether one was added."""
        while not await self._is_used():
            check_wanted()
            await asyncio.sleep(self._rhythm.nap)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._send_all(), name="protocol notices")
                group.create_task(self._make_all(), name="parts of notices")
        finally:
            await cancel_and_wait(*self._sending.values())

    async def _is_used(self) -> bool:
        try:
            return await self._notices.wanted()
        except self._down as error:
            self._log_again(error)
            return False

    async def _make_all(self) -> None:
        while True:
            try:
                async with self._feed.watch(None) as wait:
                    while True:
                        await self.catch_up()
                        check_wanted()
                        await wait(_LOOK_SECONDS)
                        await asyncio.sleep(_GATHER_SECONDS)
            except self._down as error:
                self._log_again(error)
            check_wanted()
            await asyncio.sleep(_AGAIN_SECONDS)

    async def catch_up(self) -> None:
        """Build the notices of all events since the last call."""
        last = await self._notices.load_cursor()
        while events := await self._past.history(last, _BATCH):
            check_wanted()
            for event in events:
                if event.type in ENDINGS and event.request_id:
                    await self._note(event)
            last = events[-1].id
            await self._notices.save_cursor(last)

    async def _note(self, event: AuditEvent) -> None:
        instance = await self._notices.instance_of(event.agent)
        if instance is None or hears_of(instance, event.id) is None:
            return
        if not await self._notices.is_ours(event.request_id):
            return
        record = await self._past.load(event.request_id)
        if record is None or record.decision is None:
            return  # deleted meanwhile
        decided_at = record.decision.decided_at
        notice = notice_of(instance.id, record.id, event.id, decided_at)
        if self._clock.now_ms() < notice.deadline:
            await self._notices.add(notice, self._clock.now_ms())
            self._due.set()

    async def _send_all(self) -> None:
        while True:
            try:
                await self._begin_due()
            except self._down as error:
                self._log_again(error)
            with suppress(TimeoutError):
                check_wanted()
                async with asyncio.timeout(self._rhythm.nap):
                    await self._due.wait()
            self._due.clear()

    async def _begin_due(self) -> None:
        """Start an attempt for each due notice, within the limits per admin, per host and in total.
        Notices beyond the limits are tried a little later."""
        for notice_id in await self._notices.find_due(self._clock.now_ms(), _BATCH):
            if notice_id in self._sending:
                continue
            if len(self._sending) >= _AT_ONCE:
                return
            try:
                await self._begin(notice_id)
            except self._down:
                raise
            except Exception:
                # An unreadable notice must not stop the others.
                self._tally.webhooks_lost += 1
                log.exception(
                    "a notice was not delivered, and is not tried again",
                    extra={"event": "notice_lost"},
                )
                await self._notices.forget(notice_id)

    async def _begin(self, notice_id: str) -> None:
        notice = await self._notices.load(notice_id)
        if notice is None or notice.ended:
            await self._notices.forget(notice_id)
            return
        instance = await self._notices.instance(notice.instance)
        receiver = hears_of(instance, notice.event)
        if instance is None or receiver is None:
            await self._notices.end(replace(notice, ended=True))
            return
        places = (f"admin {instance.made_by}", f"host {urlsplit(receiver.url).netloc}")
        if any(self._busy[one] >= _AT_ONCE_FOR_ONE for one in places):
            later = _SKIPPED_SECONDS * (0.5 + self._rhythm.jitter())
            await self._notices.put_off(notice, self._clock.now_ms() + int(later * 1000))
            return
        self._busy.update(places)
        task = asyncio.create_task(self._try(notice_id, places), name="protocol notice")
        self._sending[notice_id] = task

    async def _try(self, notice_id: str, places: tuple[str, ...]) -> None:
        try:
            if await self._notices.claim(notice_id, _CLAIM_MS):
                await self._attempt(notice_id)
        except self._down as error:
            self._log_again(error)
        except Exception:
            # After any error, the others are sent; this one is tried again.
            log.exception("a notice failed", extra={"event": "notice_broken", "id": notice_id})
        finally:
            del self._sending[notice_id]
            self._busy.subtract(places)

    async def _attempt(self, notice_id: str) -> None:
        """Try once to send a notice as currently stored to the current receiver."""
        notice = await self._notices.load(notice_id)
        if notice is None or notice.ended:
            return  # another replica was faster
        receiver = hears_of(await self._notices.instance(notice.instance), notice.event)
        left = notice.deadline - self._clock.now_ms()
        if receiver is None or left <= 0:
            if receiver is not None:
                self._lose(notice)
            await self._notices.end(replace(notice, ended=True))
            return
        why, asked = await self._post(notice, receiver, left / 1000)
        tried = replace(notice, attempts=notice.attempts + 1)
        if not why:
            await self._notices.end(replace(tried, ended=True))
            return
        self._tally.webhook_failures += 1
        log.warning(
            "the receiver did not accept a notice (attempt %d): %s",
            tried.attempts,
            why,
            extra={"event": "notice_failed", "id": notice.id},
        )
        pause = max(self._pause(tried.attempts), asked)
        due = self._clock.now_ms() + int(pause * 1000)
        await self._notices.put_off(tried, min(due, notice.deadline))

    async def _post(
        self, notice: ProtocolNotice, receiver: ReceiverAddress, seconds: float
    ) -> tuple[str, float]:
        """Send a notice. Return why the receiver did not accept it ("" on success), and how many
        seconds the receiver asks to wait."""
        try:
            answer = await self._receivers.post(
                receiver, notice.id, notice.body.encode(), seconds=seconds
            )
        except (Forbidden, Unanswered) as error:
            return str(error), 0.0
        if 200 <= answer.status < 300:  # noqa: PLR2004 (HTTP's own figures)
            return "", 0.0
        asked = 0.0
        if answer.status in _LATER:
            asked = read_pause(answer.retry_after, self._clock.now_ms())
        return f"status {answer.status}", asked

    def _pause(self, attempts: int) -> float:
        doubled = _FIRST_PAUSE * 2.0 ** min(attempts - 1, _MOST_DOUBLINGS)
        longest: float = min(doubled, _LONGEST_PAUSE)
        return longest * (0.5 + self._rhythm.jitter() / 2)

    def _lose(self, notice: ProtocolNotice) -> None:
        self._tally.webhooks_lost += 1
        log.error(
            "a notice was not delivered, and is not tried again",
            extra={"event": "notice_lost", "id": notice.id},
        )

    def _log_again(self, error: Exception) -> None:
        log.warning("notices restart: %s", type(error).__name__, extra={"event": "notices_again"})
