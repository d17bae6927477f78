"""Send and update notifications: their text, devices and buttons; start at `Notifications`.

Each update reads the current request. A notification is stored as a message of the request, with
the target `push:<device>`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from gateway.approvals.services import Core
from gateway.cards.blocks import draw, weight_of
from gateway.cards.card import Card, card_of, discreet_notification
from gateway.cards.masks import MaskProofs
from gateway.cards.summary import NOTICE_CHARS, discreet_notice, notice_of
from gateway.delivery.outbox_worker import TIMINGS, Timings
from gateway.delivery.posting_and_editing import PostedMessages
from gateway.domain.log_context import log_also
from gateway.domain.records import OVERFLOW_MARK, Identity, StoredRequest
from gateway.domain.redaction import mask, render_safe
from gateway.domain.store import Store
from gateway.domain.time_and_tasks import Clock
from gateway.errors import NotFound
from gateway.models import Action, DeciderKind, RiskLevel
from gateway.ports.devices import PUSH, PushDevice
from gateway.ports.outgoing import (
    AdapterStorage,
    Copy,
    CopyGone,
    CopyState,
    DeliveryFailed,
    DeliveryUncertain,
    RetryLater,
)
from gateway.push.sending import DEVICE_REMOVED, Push, PushSender
from gateway.stores.devices import RedisDevices
from gateway.wire.codec import JsonObject

# The text of a notification, and whether it can have an Approve button.
#
# The card decides whether approving is possible. In addition, a notification has only its text, so
# Approve requires that the text contains the whole call.

_ALL = 10**9
_ASKS = "Approval needed"
_OVER = "No longer waiting"
_NOT_YOURS = "You cannot decide this"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """The content of a notification: the gateway's title, and a text of at most NOTICE_CHARS
    characters. `approvable` says that the text is complete, so that a person may approve the
    request from it."""

    title: str
    text: str
    approvable: bool = False


def notification_of(
    record: StoredRequest, reader: str, *, discreet: bool = False, proofs: MaskProofs | None = None
) -> Notification:
    """Return the notification of a pending request for a device of this reader."""
    if discreet:
        return Notification(title=_ASKS, text=discreet_notification(record))
    request = record.request
    said = notice_of(record)
    whole = f"{said}\n{_whole_call(record) or ''}"
    # Draw the card only for a short call: it is fast, and a long one cannot be approved here.
    may = whole[-1] != "\n" and len(whole) <= NOTICE_CHARS
    may = may and _offers_approval(
        card_of(record, lines=_ALL, chars=_ALL, proofs=proofs, reader=reader), record
    )
    title = "Question" if request.questions else _ASKS
    return Notification(title=title, text=whole if may else said, approvable=may)


def end_of_notification(record: StoredRequest, *, discreet: bool = False) -> Notification:
    """Return the text that replaces a notification: the outcome, or that other people decide."""
    over = _say_end(record) if record.final else _NOT_YOURS
    agent, risk = record.request.agent, record.risk.level
    said = discreet_notice(agent, over, risk) if discreet else notice_of(record, over)
    return Notification(title=_OVER, text=said)


def _say_end(record: StoredRequest) -> str:
    """Return a sentence with the decision and the person who decided."""
    word = card_of(record, lines=0, chars=0).word
    by = record.decision.decided_by if record.decision else None
    return f"{word} by {by.name}" if by and by.kind is DeciderKind.PERSON and by.name else word


def _offers_approval(card: Card, record: StoredRequest) -> bool:
    """Return whether the reader may approve on this card, and one tap is enough."""
    offered = any(one.action is Action.APPROVE and one.confirm is None for one in card.controls)
    return offered and not card.hides and record.quorum <= 1


def _whole_call(record: StoredRequest) -> str | None:
    """Return the complete call on one line, or None if that is not possible.

    It is not possible if the request has more than a tool, arguments, a folder and a host, or if a
    character or secret in it would not be shown unchanged.
    """
    context = record.request.context
    more = (record.request.payload, context.env or None, context.files or None)
    if any(one is not None for one in more) or not context.cwd or not context.host:
        return None
    call = (record.request.tool, record.arguments, context.cwd, context.host)
    tool, arguments, folder, host = (json.dumps(one, ensure_ascii=False) for one in call)
    said = f"{tool} {arguments} in {folder} on {host}"
    seen = render_safe(said)
    plain = seen.text == said and not seen.masked and not seen.suspicious
    return said if plain and mask(record.arguments) == record.arguments else None


log = logging.getLogger("gateway.push")

_MOST, _WITHIN_SECONDS = 12, 60.0  # notifications of one device
_LONGEST_PAUSE_SECONDS = 120.0
_SENDING_SECONDS = 30.0  # by then a sender has finished, or died
_END_SECONDS = 24 * 3600  # how long the push service keeps the decision for a device that is off
_MOST_ENDINGS = 10
_AFTER_SECONDS = 1.0  # after a deadline, by when the expiry is recorded
_TEST_SECONDS = 60
_TEST, _TEST_TEXT = "Approvals", "This is a test: notifications reach this device."
_SESSION_ENDED = "the session ended"


class Notifications:
    """Processes one request at a time, for all devices. `holder` takes the hash of a browser
    session, and returns the session's identity, or None if the session ended."""

    def __init__(
        self,
        core: Core,
        store: Store,
        devices: RedisDevices,
        holder: Callable[[str], Awaitable[Identity | None]],
        sender: PushSender,
        notes: AdapterStorage,
        clock: Clock,
        timings: Timings = TIMINGS,
    ) -> None:
        self._requests = core.requests
        self._writer = core.writer
        self._outbox = core.outbox
        self._proofs = core.proofs
        self._store = store
        self._devices = devices
        self._holder = holder
        self._sender = sender
        self._notes = notes
        self._clock = clock
        self._timings = timings
        self._copies = PostedMessages(PUSH, core.outbox, clock, timings)

    async def look(self, request_id: str) -> float | None:
        """Update all notifications of a request; return after how many seconds to update again."""
        if request_id.startswith(OVERFLOW_MARK):
            return None
        try:
            record = await self._requests.get(request_id)
        except NotFound:
            return None
        log_also(agent=record.request.agent)
        copies = await self._outbox.copies(request_id)
        ours = {key: one for key, one in copies.items() if self._copies.is_ours(one.target)}
        told = {target_of(one): one for one in await self._list_told(record)}
        steps: list[Awaitable[float | None]] = [
            self._ring(record, device, ours.get(target)) for target, device in told.items()
        ]
        steps += [self._end(record, one) for one in ours.values() if one.target not in told]
        waits = await self._copies.take(steps)
        return min(waits) if waits else None

    async def tidy(self) -> None:
        """Delete the devices whose session ended, or whose person is not in the policy any more."""
        for device in await self._devices.everybody():
            if await self._holder(device.session) is None:
                await self._forget(device, _SESSION_ENDED)

    async def test(self, device: PushDevice) -> None:
        """Send a test notification to a device. Raises DeliveryFailed."""
        wait = await self._take_turn(device, "test", 0)
        if wait > 0:
            await self._leave_line(device, "test")
            raise RetryLater(wait, "this device just got many notifications; try again in a minute")
        content: JsonObject = {"id": "", "title": _TEST, "body": _TEST_TEXT, "actions": ["open"]}
        try:
            await self._sender.send(device, Push(content=content, ttl=_TEST_SECONDS, topic="test"))
        except CopyGone as gone:
            await self._forget(device, str(gone))
            raise
        except DeliveryFailed as failure:
            await self._note_failure(device, str(failure))
            raise
        await self._note_failure(device, "")

    # ---------------------------------------------------------------- who

    async def _list_told(self, record: StoredRequest) -> list[PushDevice]:
        """Return the devices of people who may decide now, and have not decided yet."""
        if record.final or record.behind:
            return []
        policy = await self._writer.policy()
        route = policy.route_for(record.request.agent, record.request.tool)
        places = route.places(record.tier)
        voted = {vote.person for vote in record.votes}
        names = record.approvers.names if record.approvers else ()
        found = []
        for name in names:
            if name in voted:
                continue
            for device in await self._devices.of_person(name):
                fresh = device.place in places and device.added <= record.created
                if fresh and await self._may_answer(record, device):
                    found.append(device)
        return found

    async def _may_answer(self, record: StoredRequest, device: PushDevice) -> bool:
        """Return whether the device's person is signed in there and may decide. If the session
        ended, delete the device."""
        identity = await self._holder(device.session)
        if identity is None:
            await self._forget(device, _SESSION_ENDED)
            return False
        return await self._requests.may_decide(identity, record) is None

    # ---------------------------------------------------------------- what

    async def _ring(
        self, record: StoredRequest, device: PushDevice, known: Copy | None
    ) -> float | None:
        """Notify a device of a request, unless the device was already notified, or must be quiet
        now."""
        if known is not None:
            if _shows(record, known):
                return self._find_end(record)
            if known.state is CopyState.FAILED and known.tried >= record.shown_since:
                return None
            if (pause := self._find_pause(known)) > 0:
                return pause
        if (quiet := await self._find_quiet_seconds(record, device)) > 0:
            return quiet
        rank = 0 if record.risk.level is RiskLevel.HIGH else 1
        if (wait := await self._take_turn(device, record.id, rank)) > 0:
            if known is None:  # so that it leaves the line if the notification is not needed later
                waits = self._copies.new(target_of(device))
                await self._outbox.put_copy(record.id, waits, before=None)
            return wait
        route = (await self._writer.policy()).route_for(record.request.agent, record.request.tool)
        said = await draw(
            lambda: notification_of(
                record,
                device.person,
                discreet=device.discreet or route.discreet,
                proofs=self._proofs,
            ),
            *weight_of(record),
        )
        life = max(1, int((record.deadline - self._writer.now()) / 1000))
        push = Push(content=_content(record, said), ttl=life, topic=record.id)
        due = replace(known or self._copies.new(target_of(device)), tried=record.shown_since)
        shown = {
            "revision": record.revision,
            "reminders": record.reminders,
            "disarmed": False,
        }
        return await self._send(record, device, push, due, known, shown)

    async def _end(self, record: StoredRequest, known: Copy) -> float | None:
        """Send the decision to a device that may show the request."""
        device = await self._devices.get(known.target.partition(":")[2])
        hidden = known.revision == 0 and known.state is not CopyState.INTENDED
        if device is not None and hidden and known.state is CopyState.DUE:
            await self._leave_line(device, record.id)
        over = known.disarmed or known.state in (CopyState.FAILED, CopyState.GONE)
        if device is None or hidden or over or known.tries > _MOST_ENDINGS:
            return None
        if (pause := self._find_pause(known)) > 0:
            return pause
        if await self._holder(device.session) is None:
            await self._forget(device, _SESSION_ENDED)
            return None
        route = (await self._writer.policy()).route_for(record.request.agent, record.request.tool)
        said = end_of_notification(record, discreet=device.discreet or route.discreet)
        push = Push(
            content=_content(record, said, ended=True),
            ttl=_END_SECONDS,
            topic=record.id,
            wakes=False,
        )
        return await self._send(record, device, push, known, known, {"disarmed": True})

    async def _send(
        self,
        record: StoredRequest,
        device: PushDevice,
        push: Push,
        due: Copy,
        known: Copy | None,
        done: JsonObject,
    ) -> float | None:
        """Send a notification once, even if several workers try, and record the result."""
        now = self._clock.now_ms()
        intent = replace(due, state=CopyState.INTENDED, at=now, tries=due.tries + 1)
        if not await self._outbox.put_copy(record.id, intent, before=known):
            return self._timings.retry
        try:
            await self._copies.ask(self._sender.send(device, push))
        except CopyGone as gone:
            await self._forget(device, str(gone))
            await self._keep(record, intent, CopyState.GONE, str(gone))
            return None
        except (RetryLater, DeliveryUncertain) as wait:
            asked = wait.seconds if isinstance(wait, RetryLater) else 0.0
            seconds = asked or self._copies.pause_after(intent.tries, _LONGEST_PAUSE_SECONDS)
            later = replace(intent, state=CopyState.DUE, at=now + int(seconds * 1000))
            await self._copies.keep(record.id, later, intent)
            await self._note_failure(device, f"{wait}; the gateway tries again")
            return seconds
        except DeliveryFailed as failure:
            await self._keep(record, intent, CopyState.FAILED, str(failure))
            await self._note_failure(device, str(failure))
            return None
        after = replace(intent, state=CopyState.POSTED, tries=0, why="", **done)
        await self._copies.keep(record.id, after, intent)
        await self._note_failure(device, "")
        return None if after.disarmed else self._find_end(record)

    async def _keep(self, record: StoredRequest, intent: Copy, state: CopyState, why: str) -> None:
        await self._copies.keep(record.id, replace(intent, state=state, why=why), intent)

    async def _forget(self, device: PushDevice, why: str) -> None:
        await forget_device(self._devices, self._store, device, why)

    async def _note_failure(self, device: PushDevice, why: str) -> None:
        """Record a device's last failure; "" records that sending succeeded."""
        if why == device.failure:
            return
        if why:
            log.warning("a push failed: %s", why, extra={"event": "push_failed"})
        at = self._clock.now_ms() if why else 0
        await self._devices.change(device.id, failure=why, failed_at=at)

    # ---------------------------------------------------------------- when

    async def _take_turn(self, device: PushDevice, name: str, rank: int) -> float:
        """Count one notification against the device's limit per minute. If the limit is reached,
        return the seconds to wait, so that no agent floods a phone."""
        return await self._notes.take_turn(
            _budget_of(device),
            name,
            rank=rank,
            most=_MOST,
            seconds=_WITHIN_SECONDS,
            leave=0,
            about=name,
        )

    async def _leave_line(self, device: PushDevice, name: str) -> None:
        budget = _budget_of(device)
        await self._notes.leave_line(budget, name, most=_MOST, seconds=_WITHIN_SECONDS)

    async def _find_quiet_seconds(self, record: StoredRequest, device: PushDevice) -> float:
        for one in record.away:
            if one.person == device.person:
                return max(1.0, (one.until - self._clock.now_ms()) / 1000)
        hours = await self._devices.quiet(device.person)
        if hours is None or (hours.high and record.risk.level is RiskLevel.HIGH):
            return 0.0
        return hours.seconds_left(self._clock.now_ms())

    def _find_pause(self, copy: Copy) -> float:
        """Return for how many seconds to leave a notification alone: until its retry, or while it
        is sent."""
        until = {CopyState.DUE: 0.0, CopyState.INTENDED: _SENDING_SECONDS}.get(copy.state)
        return 0.0 if until is None else (copy.at - self._clock.now_ms()) / 1000 + until

    def _find_end(self, record: StoredRequest) -> float:
        """Return when to update again, because a request stays queued as long as a notification
        shows it."""
        return max((record.deadline - self._writer.now()) / 1000, 0.0) + _AFTER_SECONDS


async def forget_device(devices: RedisDevices, store: Store, device: PushDevice, why: str) -> None:
    """Delete a device, and record the reason in the audit log."""
    if await devices.remove(device):
        data: JsonObject = {"person": device.person, "device": device.label, "why": why}
        await store.note(DEVICE_REMOVED, data=data)


def _budget_of(device: PushDevice) -> str:
    return f"push {device.id}"


def target_of(device: PushDevice) -> str:
    """Return the target that a device has in a request's messages."""
    return f"{PUSH}:{device.id}"


def was_told(copy: Copy, record: StoredRequest) -> bool:
    """Return whether a device was notified of a request's current revision, or soon will be."""
    sent = copy.state is CopyState.POSTED and copy.revision >= record.shown_since
    sending = copy.state is CopyState.INTENDED and copy.tried >= record.shown_since
    return (sent or sending) and not copy.disarmed


def _shows(record: StoredRequest, copy: Copy) -> bool:
    """Return whether a device already shows the request's current state and every reminder that is
    due."""
    told = copy.state is CopyState.POSTED and was_told(copy, record)
    return told and copy.reminders >= record.reminders


def _content(record: StoredRequest, said: Notification, *, ended: bool = False) -> JsonObject:
    """Return the content of a notification as data for the service worker."""
    offered = ["approve", "deny"] if said.approvable else ["deny", "open"]
    return {
        "id": record.id,
        "title": said.title,
        "body": said.text,
        "ended": ended,
        "actions": [] if ended else offered,
        "revision": record.revision,
        "digest": record.digest,
    }
