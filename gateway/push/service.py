"""Manage people's push devices for web pages, and check decisions made from notifications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.approvals.services import Core
from gateway.delivery.egress_guard import Forbidden
from gateway.domain.records import Identity, StoredRequest
from gateway.domain.store import Store
from gateway.domain.time_and_tasks import Clock
from gateway.errors import Conflict, InvalidRequest, NotFound
from gateway.models import Action
from gateway.ports.devices import MOST_DEVICES, PushDevice, QuietHours, Subscription
from gateway.push.notifications import (
    Notifications,
    forget_device,
    notification_of,
    target_of,
    was_told,
)
from gateway.push.sending import DEVICE_ADDED, QUIET_CHANGED, PushSender, read_keys
from gateway.stores.devices import RedisDevices
from gateway.wire.canonical_json import sha256_hex

_MOST_ADDRESS = 2000  # characters; addresses of real push services have at most about 700
_MOST_LABEL = 60
_ID_CHARS = 32
_STALE = "the request has changed or was decided after the notification; open the request"


class PushService:
    """A `gateway.ports.devices.DeviceCalls` of one adapter. Without a sender, `missing` says why
    push is off; devices can still be listed and removed."""

    def __init__(
        self,
        place: str,
        core: Core,
        store: Store,
        devices: RedisDevices,
        clock: Clock,
        *,
        sender: PushSender | None,
        telling: Notifications | None,
        missing: str = "",
    ) -> None:
        self._place = place
        self._core = core
        self._store = store
        self._devices = devices
        self._clock = clock
        self._sender = sender
        self._telling = telling
        self.missing = missing

    def server_key(self) -> str:
        """Return the public key with which browsers subscribe."""
        return self._require_sender()[0].key.public

    async def subscribe(self, identity: Identity, session: str, wish: Subscription) -> PushDevice:
        """Register a browser for notifications as long as this session lives."""
        sender, _ = self._require_sender()
        person = await self._find_person(identity)
        if len(wish.endpoint) > _MOST_ADDRESS:
            raise InvalidRequest(f"the endpoint can have at most {_MOST_ADDRESS} characters")
        try:
            read_keys(wish.key, wish.auth)
            await sender.check(wish.endpoint)
        except Forbidden as refused:
            raise InvalidRequest(f"this endpoint is not allowed: {refused}") from refused
        except ValueError as error:
            raise InvalidRequest("the keys are not valid keys of a push subscription") from error
        device = PushDevice(
            id=sha256_hex(wish.endpoint.encode())[:_ID_CHARS],
            person=person,
            place=self._place,
            label=wish.label[:_MOST_LABEL],
            endpoint=wish.endpoint,
            key=wish.key,
            auth=wish.auth,
            server_key=sender.key.public,
            session=_hash(session),
            added=self._core.writer.now(),
        )
        known = await self._devices.get(device.id)
        if known is not None and known.person == person:
            device = replace(device, added=known.added, discreet=known.discreet)
        if device == known:
            return device
        if not await self._devices.add(device):
            raise Conflict(f"you already have {MOST_DEVICES} devices; remove one first")
        if known is None or known.person != person:
            await self._store.note(DEVICE_ADDED, data={"person": person, "device": device.label})
        return device

    async def devices(self, identity: Identity) -> Sequence[PushDevice]:
        """Return the person's devices, with the oldest first."""
        return await self._devices.of_person(await self._find_person(identity))

    def is_of(self, device: PushDevice, session: str) -> bool:
        """Return whether a device was registered in this session."""
        return device.session == _hash(session)

    async def set_discreet(self, identity: Identity, device_id: str, *, on: bool) -> None:
        """Set whether a device's notifications leave out the call."""
        device = await self._find_own(identity, device_id)
        await self._devices.change(device.id, discreet=on)

    async def remove(self, identity: Identity, device_id: str) -> None:
        """Delete a device of the person."""
        await self._forget(await self._find_own(identity, device_id), "removed on the page")

    async def test(self, identity: Identity, device_id: str) -> None:
        """Send a test notification to a device of the person."""
        _, telling = self._require_sender()
        await telling.test(await self._find_own(identity, device_id))

    async def quiet(self, identity: Identity) -> QuietHours | None:
        """Return the person's quiet hours."""
        return await self._devices.quiet(await self._find_person(identity))

    async def set_quiet(self, identity: Identity, hours: QuietHours | None) -> None:
        """Set the person's quiet hours; None removes them."""
        if hours is not None and (problem := hours.problem()):
            raise InvalidRequest(problem)
        person = await self._find_person(identity)
        await self._devices.set_quiet(person, hours)
        # Makes the worker check notifications that were held back until the old hours ended.
        await self._store.note(QUIET_CHANGED, data={"person": person})

    async def check_answer(
        self,
        identity: Identity,
        session: str,
        *,
        request_id: str,
        revision: int,
        digest: str,
        action: Action,
    ) -> None:
        """Check that a notification allows this decision. See `gateway.ports.devices`."""
        record = await self._core.requests.get(request_id)
        if record.digest != digest or revision < record.shown_since:
            raise Conflict(_STALE)
        if action is not Action.DENY and not await self._offers(identity, session, record):
            raise Conflict("this request cannot be approved from a notification; open the request")

    async def _offers(self, identity: Identity, session: str, record: StoredRequest) -> bool:
        """Return whether a device of this session got a notification with an Approve button."""
        copies = await self._core.outbox.copies(record.id)
        policy = await self._core.writer.policy()
        route = policy.route_for(record.request.agent, record.request.tool)
        for device in await self.devices(identity):
            copy = copies.get(target_of(device))
            if not self.is_of(device, session) or copy is None or not was_told(copy, record):
                continue
            discreet = device.discreet or route.discreet
            if notification_of(record, device.person, discreet=discreet).approvable:
                return True
        return False

    def _require_sender(self) -> tuple[PushSender, Notifications]:
        if self._sender is None or self._telling is None:
            raise Conflict(self.missing)
        return self._sender, self._telling

    async def _find_person(self, identity: Identity) -> str:
        person = await self._core.requests.person(identity)
        return person.name if person else identity.written  # a route may admit an identity itself

    async def _find_own(self, identity: Identity, device_id: str) -> PushDevice:
        for device in await self.devices(identity):
            if device.id == device_id:
                return device
        raise NotFound("you have no such device")

    async def _forget(self, device: PushDevice, why: str) -> None:
        await forget_device(self._devices, self._store, device, why)


def _hash(session: str) -> str:
    return sha256_hex(session.encode())
