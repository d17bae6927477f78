"""Let an admin's token create instances, each with a credential and a receiver.

Start with `Provisioning`. The credential is derived from the instance's ID, so it is not stored,
and a repeated call returns the same one. Deleting an instance revokes the agent and marks the ID as
deleted, so that no call restores it. A change is written only if the instance is unchanged since it
was read.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit
from uuid import UUID

from aiohttp import web

from gateway.api.api_call import ApiCall, reply
from gateway.approval_protocol.instances import (
    Instance,
    ReceiverAddress,
    ReceiverUnverified,
    RedisInstances,
    TooManyRegistrations,
    UnsafeAddress,
)
from gateway.approval_protocol.requests import ProtocolRefusal, idempotency_key
from gateway.domain.time_and_tasks import Clock
from gateway.errors import InvalidRequest, NotFound, Unauthorized
from gateway.wire.canonical_json import canonical, sha256_hex
from gateway.wire.codec import JsonObject, Wire, build, plain

# The receiver of an instance's decisions: submitted and returned forms.

CheckAddress = Callable[[str], None]
"""Raises UnsafeAddress if the address must not be called."""
VerifyReceiver = Callable[[ReceiverAddress, str], Awaitable[None]]
"""Verifies that a receiver expects an instance. Raises UnsafeAddress, ReceiverUnverified."""

_BAD_REQUEST, _UNPROCESSABLE = 400, 422
_LONGEST_URL = 2048
_PREFIX = "whsec_"
_SECRET_BYTES = 32
_MEMBERS = {"type", "url", "registration_id", "signing_secret"}
UNCHANGED: JsonObject = {}
"""Marks a delivery that the call leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceUpdate(Wire):
    """A change of an instance. If `delivery` is null, the receiver is removed."""

    instance_name: str | None = None
    delivery: JsonObject | None = field(default_factory=lambda: UNCHANGED, repr=False)


def receiver_of(delivery: JsonObject, check: CheckAddress) -> ReceiverAddress:
    """Return the receiver from a submitted message. Raises ProtocolRefusal, InvalidRequest."""
    if delivery.get("type") != "webhook":
        words = "unsupported delivery type; use webhook"
        raise ProtocolRefusal(_BAD_REQUEST, "unsupported_delivery_type", words)
    if set(delivery) != _MEMBERS or not all(isinstance(one, str) for one in delivery.values()):
        raise InvalidRequest(
            f"delivery must have exactly the strings {', '.join(sorted(_MEMBERS))}"
        )
    try:
        registration = str(UUID(delivery["registration_id"]))
    except ValueError:
        raise InvalidRequest("registration_id must be a UUID") from None
    if registration != delivery["registration_id"].lower():
        raise InvalidRequest("registration_id must be a UUID")
    secret = delivery["signing_secret"]
    key = secret.removeprefix(_PREFIX)
    try:
        made = base64.b64decode(key, validate=True)
    except ValueError:
        made = b""
    if not secret.startswith(_PREFIX) or len(made) != _SECRET_BYTES:
        raise InvalidRequest(
            f"signing_secret must be {_PREFIX} plus base64 of {_SECRET_BYTES} bytes"
        )
    url = delivery["url"]
    try:
        if len(url) > _LONGEST_URL:
            raise UnsafeAddress(f"the URL may have at most {_LONGEST_URL} characters")
        check(url)
    except UnsafeAddress as error:
        raise _invalid_address(error) from None
    return ReceiverAddress(url=url, registration_id=delivery["registration_id"], secret=secret)


async def verify_receiver(
    receiver: ReceiverAddress, instance_id: str, verify: VerifyReceiver
) -> None:
    """Make a receiver prove that it expects the instance. Raises ProtocolRefusal."""
    try:
        await verify(receiver, instance_id)
    except UnsafeAddress as error:
        raise _invalid_address(error) from None
    except ReceiverUnverified as error:
        raise ProtocolRefusal(_UNPROCESSABLE, "webhook_verification_failed", str(error)) from None


def told_of(instance: Instance) -> JsonObject:
    """Return an instance without secrets, for the admin who created it."""
    told: JsonObject = {"id": str(UUID(instance.id)), "name": instance.name}
    if instance.receiver is not None:
        told["delivery"] = {
            "type": "webhook",
            "url": instance.receiver.url,
            "registration_id": instance.receiver.registration_id,
        }
    return told


def _invalid_address(error: UnsafeAddress) -> ProtocolRefusal:
    return ProtocolRefusal(_BAD_REQUEST, "invalid_webhook_url", str(error))


_LONGEST_NAME = 128
_CONFLICT = 409
_CREATED, _OK, _NO_CONTENT = 201, 200, 204
_UPDATES_KEPT_MS = 8 * 24 * 3600 * 1000
_MOST_UPDATES = 500
_SOON = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision(Wire):
    """The name and receiver of a new instance."""

    instance_name: str | None = None
    delivery: JsonObject | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverRegistration:
    """Checks a receiver's address, and verifies the receiver."""

    check: CheckAddress
    verify: VerifyReceiver


class Provisioning:
    """Handles the API calls that create, read, change and delete instances."""

    def __init__(
        self,
        instances: RedisInstances,
        clock: Clock,
        registration: ReceiverRegistration,
        *,
        is_admin: Callable[[str], Awaitable[bool]],
        dismiss: Callable[[str], Awaitable[object]],
    ) -> None:
        """`dismiss` cancels the pending requests of a removed agent."""
        self._instances = instances
        self._clock = clock
        self._registration = registration
        self._is_admin = is_admin
        self._dismiss = dismiss

    async def create(self, call: ApiCall) -> web.Response:
        """Create an instance, or return the one created with the same key."""
        await self._check_admin(call)
        body: Provision = call.body
        key = idempotency_key(call.request)
        instance_id = sha256_hex(canonical(["instance", call.caller.name, key]))[:32]
        wanted = Instance(
            id=instance_id,
            name=_name(body.instance_name) or f"instance-{instance_id[:8]}",
            agent=f"aap-{instance_id[:16]}",
            made_by=call.caller.name,
            submitted=sha256_hex(canonical(plain(body))),
        )
        known = await self._load(instance_id)
        if known is None:
            known = await self._add(wanted, body.delivery)
            new = known is None
        else:
            new = False
        kept = known or await self._load(instance_id) or wanted
        if kept.submitted != wanted.submitted:
            raise _conflict("this idempotency key was already used for a different instance")
        token = "" if kept.deleted else await self._instances.add_agent(kept.id, kept.agent)
        now = await self._load(instance_id)
        if now is None or now.deleted:  # deleted, perhaps meanwhile: its agent must not remain
            await self._remove(kept)
            raise ProtocolRefusal(_CONFLICT, "instance_deleted", "the instance was deleted")
        told = {"instance": told_of(now), "credential": {"token": token}}
        return reply(told, _CREATED if new else _OK)

    async def look(self, call: ApiCall) -> web.Response:
        """Return an instance."""
        return reply(told_of(await self._find(call)))

    async def update(self, call: ApiCall) -> web.Response:
        """Change an instance's name and receiver, or neither after an error. A repeated call
        returns the first response and changes nothing."""
        instance = await self._find(call)
        body: InstanceUpdate = call.body
        name = _name(body.instance_name)
        if name is None and body.delivery is UNCHANGED:
            raise InvalidRequest("send instance_name, delivery, or both")
        key = sha256_hex(idempotency_key(call.request).encode())
        submitted = sha256_hex(
            canonical(["update", name, body.delivery is UNCHANGED, body.delivery])
        )
        if (told := _find_told(instance, key, submitted)) is not None:
            return reply(told)
        if body.delivery is UNCHANGED or body.delivery is None:
            return reply(await self._commit(call, body, (key, submitted), None))
        receiver = receiver_of(body.delivery, self._registration.check)
        async with self._registering(instance, receiver):
            now = await self._find(call)  # another call with this key may have been faster
            if (told := _find_told(now, key, submitted)) is not None:
                return reply(told)
            await verify_receiver(receiver, instance.id, self._registration.verify)
            return reply(await self._commit(call, body, (key, submitted), receiver))

    async def delete(self, call: ApiCall) -> web.Response:
        """Revoke an instance's credential and cancel its pending requests. Idempotent."""
        instance = await self._find(call, deleted=True)
        while not instance.deleted:
            # Mark it first, so that nothing creates the agent again and its receiver is not
            # notified of the cancellations.
            gone = replace(instance, deleted=True, receiver=None)
            if await self._instances.save(instance.id, plain(gone), plain(instance)):
                break
            instance = await self._find(call, deleted=True)
        await self._remove(instance)
        return web.Response(status=_NO_CONTENT)

    async def _add(self, wanted: Instance, delivery: JsonObject | None) -> Instance | None:
        """Save a new instance after verifying its receiver. If another call created it first,
        return that instance."""
        if delivery is None:
            await self._instances.save(wanted.id, plain(wanted), None)
            return None
        receiver = receiver_of(delivery, self._registration.check)
        async with self._registering(wanted, receiver):
            if (known := await self._load(wanted.id)) is not None:
                return known
            await verify_receiver(receiver, wanted.id, self._registration.verify)
            receiver = replace(receiver, since=await self._instances.last_event())
            row = plain(replace(wanted, receiver=receiver))
            await self._instances.save(wanted.id, row, None)
        return None

    async def _commit(
        self,
        call: ApiCall,
        body: InstanceUpdate,
        made: tuple[str, str],
        receiver: ReceiverAddress | None,
    ) -> JsonObject:
        """Apply an update to the current instance. Return the response."""
        key, submitted = made
        while True:
            last = await self._instances.last_event()
            before = await self._find(call)
            if (told := _find_told(before, key, submitted)) is not None:
                return told
            after = replace(before, name=_name(body.instance_name) or before.name)
            if receiver is not None:
                since = before.receiver.since if before.receiver else last
                after = replace(after, receiver=replace(receiver, since=since))
            elif body.delivery is None:
                after = replace(after, receiver=None)
            now = self._clock.now_ms()
            recent = {
                one: row
                for one, row in before.updates.items()
                if now - row["at"] < _UPDATES_KEPT_MS
            }
            if len(recent) >= _MOST_UPDATES:
                raise TooManyRegistrations("the instance was changed too often this week", 3600)
            told = told_of(after)
            row = {"submitted": submitted, "told": told, "at": now}
            after = replace(after, updates={**recent, key: row})
            if await self._instances.save(before.id, plain(after), plain(before)):
                return told

    @asynccontextmanager
    async def _registering(
        self, instance: Instance, receiver: ReceiverAddress
    ) -> AsyncIterator[None]:
        """Verify a receiver while no other call does, within the rate limits of an admin and a
        host. Raises TooManyRegistrations."""
        if not await self._instances.claim(instance.id):
            raise TooManyRegistrations(
                "a receiver of this instance is being verified already; try again later", _SOON
            )
        try:
            for account in (f"admin {instance.made_by}", f"host {urlsplit(receiver.url).netloc}"):
                if wait := await self._instances.spend(account):
                    raise TooManyRegistrations(
                        "too many receivers are being verified at once; try again", int(wait) + 1
                    )
            yield
        finally:
            await self._instances.release(instance.id)

    async def _remove(self, instance: Instance) -> None:
        await self._instances.remove_agent(instance.agent)
        await self._dismiss(instance.agent)

    async def _load(self, instance_id: str) -> Instance | None:
        row = await self._instances.load(instance_id)
        return None if row is None else build(Instance, row)

    async def _check_admin(self, call: ApiCall) -> None:
        if not await self._is_admin(call.caller.name):
            raise Unauthorized("only a token of an admin may provision instances")

    async def _find(self, call: ApiCall, *, deleted: bool = False) -> Instance:
        await self._check_admin(call)
        try:
            named = UUID(call.request.match_info["id"])
        except ValueError:
            raise NotFound("there is no such instance") from None
        found = await self._load(named.hex)
        if found is None or found.made_by != call.caller.name or (found.deleted and not deleted):
            raise NotFound("there is no such instance")
        return found


def _name(given: str | None) -> str | None:
    if given is not None and not 0 < len(given) <= _LONGEST_NAME:
        raise InvalidRequest(f"instance_name must have 1 to {_LONGEST_NAME} characters")
    return given


def _find_told(instance: Instance, key: str, submitted: str) -> JsonObject | None:
    """Return the response of the earlier update with this key, or None."""
    row = instance.updates.get(key)
    if row is None:
        return None
    if row["submitted"] != submitted:
        raise _conflict("this idempotency key was already used for a different update")
    told: JsonObject = row["told"]
    return told


def _conflict(words: str) -> ProtocolRefusal:
    return ProtocolRefusal(_CONFLICT, "idempotency_conflict", words)
