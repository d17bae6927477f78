"""Keeps what people's devices show of a request true: tells those who may answer it now, and tells
the end in its place to whoever was told before.

It looks at the request as it is now. A notification is a copy of its card, at `push:<device>`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import replace
from typing import Protocol

from gateway.approvals.core import Core
from gateway.delivery.outbox_worker import TIMINGS, Timings
from gateway.delivery.posting_and_editing import Copies
from gateway.delivery.push_queue import DEVICE_REMOVED
from gateway.delivery.push_sending import Push, PushSender
from gateway.domain.clock import Clock
from gateway.domain.devices import PUSH, DeviceStore, PushDevice
from gateway.domain.records import GROUP_MARK, Identity, Record
from gateway.domain.store import Store
from gateway.errors import NotFound
from gateway.models import RiskLevel
from gateway.ports.blocks import draw, weight_of
from gateway.ports.notifications import Notification, end_of_notification, notification_of
from gateway.ports.outgoing import (
    Copy,
    CopyGone,
    CopyState,
    DeliveryFailed,
    DeliveryUncertain,
    Notes,
    RetryLater,
)
from gateway.wire.codec import JsonObject

log = logging.getLogger("gateway.push")

_MOST, _WITHIN_SECONDS = 12, 60.0  # notifications of one device
_LONGEST_PAUSE_SECONDS = 120.0
_SENDING_SECONDS = 30.0  # by then a sending has ended, or whoever did it
_END_SECONDS = 24 * 3600  # for how long a device that is off is still told the end
_MOST_ENDINGS = 10
_AFTER_SECONDS = 1.0  # behind a deadline, by when it was written down
_TEST_SECONDS = 60
_TEST, _TEST_TEXT = "Approvals", "This is a test: notifications reach this device."
_SESSION_ENDED = "its session ended"


class SessionHolders(Protocol):
    """Tells whose a browser session is, by its hash."""

    async def holder(self, reference: str) -> Identity | None:
        """Return whom the session belongs to; None when it ended."""


class Notifications:
    """Looks at one request at a time, for all devices."""

    def __init__(
        self,
        core: Core,
        store: Store,
        devices: DeviceStore,
        sessions: SessionHolders,
        sender: PushSender,
        notes: Notes,
        clock: Clock,
        timings: Timings = TIMINGS,
    ) -> None:
        self._requests = core.requests
        self._writer = core.writer
        self._outbox = core.outbox
        self._proofs = core.proofs
        self._store = store
        self._devices = devices
        self._sessions = sessions
        self._sender = sender
        self._notes = notes
        self._clock = clock
        self._timings = timings
        self._copies = Copies(PUSH, core.outbox, clock, repeatable=True, timings=timings)

    async def look(self, request_id: str) -> float | None:
        """Make notifications of a request true; return in how many seconds to look again."""
        if request_id.startswith(GROUP_MARK):
            return None
        try:
            record = await self._requests.get(request_id)
        except NotFound:
            return None
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
        """Forget the devices whose session ended, or whose person is gone."""
        for device in await self._devices.everybody():
            if await self._sessions.holder(device.session) is None:
                await self._forget(device, _SESSION_ENDED)

    async def test(self, device: PushDevice) -> None:
        """Send a device a notification that says that it is a test. Raises DeliveryFailed."""
        wait = await self._take_turn(device, "test", 0)
        if wait > 0:
            await self._leave_line(device, "test")
            raise RetryLater(wait, "this device was told of much just now: try again in a minute")
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

    async def _list_told(self, record: Record) -> list[PushDevice]:
        """Return the devices of those who may answer now, and have not."""
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

    async def _may_answer(self, record: Record, device: PushDevice) -> bool:
        """Whether the device's person is signed in on it, and may decide. Who is not signed in any
        more is forgotten with it."""
        identity = await self._sessions.holder(device.session)
        if identity is None:
            await self._forget(device, _SESSION_ENDED)
            return False
        return await self._requests.may_decide(identity, record) is None

    # ---------------------------------------------------------------- what

    async def _ring(self, record: Record, device: PushDevice, known: Copy | None) -> float | None:
        """Tell a device of a request, unless it was told, or must not be rung now."""
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
            if known is None:  # by which it leaves the line when nobody is to be told any more
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

    async def _end(self, record: Record, known: Copy) -> float | None:
        """Tell the end to a device that may show the request."""
        device = await self._devices.get(known.target.partition(":")[2])
        hidden = known.revision == 0 and known.state is not CopyState.INTENDED
        if device is not None and hidden and known.state is CopyState.DUE:
            await self._leave_line(device, record.id)
        over = known.disarmed or known.state in (CopyState.FAILED, CopyState.GONE)
        if device is None or hidden or over or known.tries > _MOST_ENDINGS:
            return None
        if (pause := self._find_pause(known)) > 0:
            return pause
        if await self._sessions.holder(device.session) is None:
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
        record: Record,
        device: PushDevice,
        push: Push,
        due: Copy,
        known: Copy | None,
        done: JsonObject,
    ) -> float | None:
        """Send once, whoever else looks, and write down what became of it."""
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
            await self._note_failure(device, f"{wait}; it is tried again")
            return seconds
        except DeliveryFailed as failure:
            await self._keep(record, intent, CopyState.FAILED, str(failure))
            await self._note_failure(device, str(failure))
            return None
        after = replace(intent, state=CopyState.POSTED, tries=0, why="", **done)
        await self._copies.keep(record.id, after, intent)
        await self._note_failure(device, "")
        return None if after.disarmed else self._find_end(record)

    async def _keep(self, record: Record, intent: Copy, state: CopyState, why: str) -> None:
        await self._copies.keep(record.id, replace(intent, state=state, why=why), intent)

    async def _forget(self, device: PushDevice, why: str) -> None:
        await forget_device(self._devices, self._store, device, why)

    async def _note_failure(self, device: PushDevice, why: str) -> None:
        """Write down what went wrong with a device, or with "" that all went well."""
        if why == device.failure:
            return
        if why:
            log.warning("a push was not taken: %s", why, extra={"event": "push_failed"})
        at = self._clock.now_ms() if why else 0
        await self._devices.change(device.id, failure=why, failed_at=at)

    # ---------------------------------------------------------------- when

    async def _take_turn(self, device: PushDevice, name: str, rank: int) -> float:
        """Take one of the notifications that a device gets in a minute, or return the seconds to
        wait first: no agent floods a phone."""
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

    async def _find_quiet_seconds(self, record: Record, device: PushDevice) -> float:
        hours = await self._devices.quiet(device.person)
        if hours is None or (hours.high and record.risk.level is RiskLevel.HIGH):
            return 0.0
        return hours.seconds_left(self._clock.now_ms())

    def _find_pause(self, copy: Copy) -> float:
        """Return for how many seconds to let a copy be: it is to be tried later, or is being sent
        by somebody else."""
        until = {CopyState.DUE: 0.0, CopyState.INTENDED: _SENDING_SECONDS}.get(copy.state)
        return 0.0 if until is None else (copy.at - self._clock.now_ms()) / 1000 + until

    def _find_end(self, record: Record) -> float:
        """Return when to look again: a notification stands, and its request must stay queued."""
        return max((record.deadline - self._writer.now()) / 1000, 0.0) + _AFTER_SECONDS


async def forget_device(devices: DeviceStore, store: Store, device: PushDevice, why: str) -> None:
    """Forget a device, and write down why."""
    if await devices.remove(device):
        data: JsonObject = {"person": device.person, "device": device.label, "why": why}
        await store.note(DEVICE_REMOVED, data=data)


def _budget_of(device: PushDevice) -> str:
    return f"push {device.id}"


def target_of(device: PushDevice) -> str:
    """Return what a request's copies call this device."""
    return f"{PUSH}:{device.id}"


def was_told(copy: Copy, record: Record) -> bool:
    """Whether a device was told of a request as it would run now, or is being told."""
    sent = copy.state is CopyState.POSTED and copy.revision >= record.shown_since
    sending = copy.state is CopyState.INTENDED and copy.tried >= record.shown_since
    return (sent or sending) and not copy.disarmed


def _shows(record: Record, copy: Copy) -> bool:
    """Whether a device shows the request as it stands, and was reminded as often as was due."""
    told = copy.state is CopyState.POSTED and was_told(copy, record)
    return told and copy.reminders >= record.reminders


def _content(record: Record, said: Notification, *, ended: bool = False) -> JsonObject:
    """Return what the service worker gets."""
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
