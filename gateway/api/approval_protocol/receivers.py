"""The receiver that an instance is to hear of decisions at: what is submitted, and what is told."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

from gateway.api.approval_protocol.refusals import ProtocolRefusal
from gateway.domain.protocol_instances import (
    Instance,
    ReceiverAddress,
    ReceiverUnverified,
    UnsafeAddress,
)
from gateway.errors import InvalidRequest
from gateway.wire.codec import JsonObject, Wire

CheckAddress = Callable[[str], None]
"""Raises UnsafeAddress for one that is not called."""
VerifyReceiver = Callable[[ReceiverAddress, str], Awaitable[None]]
"""Proves that a receiver expects an instance. Raises UnsafeAddress, ReceiverUnverified."""

_BAD_REQUEST, _UNPROCESSABLE = 400, 422
_LONGEST_URL = 2048
_PREFIX = "whsec_"
_SECRET_BYTES = 32
_MEMBERS = {"type", "url", "registration_id", "signing_secret"}
UNCHANGED: JsonObject = {}
"""Stands for a delivery that a call leaves out, told apart from any that it sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceUpdate(Wire):
    """What of an instance is to change; a delivery of null removes its receiver."""

    instance_name: str | None = None
    delivery: JsonObject | None = field(default_factory=lambda: UNCHANGED, repr=False)


def receiver_of(delivery: JsonObject, check: CheckAddress) -> ReceiverAddress:
    """Return the receiver that was submitted. Raises ProtocolRefusal, InvalidRequest."""
    if delivery.get("type") != "webhook":
        words = "this gateway delivers to a webhook"
        raise ProtocolRefusal(_BAD_REQUEST, "unsupported_delivery_type", words)
    if set(delivery) != _MEMBERS or not all(isinstance(one, str) for one in delivery.values()):
        raise InvalidRequest(f"delivery has the texts {', '.join(sorted(_MEMBERS))}")
    try:
        registration = str(UUID(delivery["registration_id"]))
    except ValueError:
        raise InvalidRequest("registration_id is a UUID") from None
    if registration != delivery["registration_id"].lower():
        raise InvalidRequest("registration_id is a UUID")
    secret = delivery["signing_secret"]
    key = secret.removeprefix(_PREFIX)
    try:
        made = base64.b64decode(key, validate=True)
    except ValueError:
        made = b""
    if not secret.startswith(_PREFIX) or len(made) != _SECRET_BYTES:
        raise InvalidRequest(f"signing_secret is {_PREFIX} and base64 of {_SECRET_BYTES} bytes")
    url = delivery["url"]
    try:
        if len(url) > _LONGEST_URL:
            raise UnsafeAddress(f"an address has at most {_LONGEST_URL} characters")
        check(url)
    except UnsafeAddress as error:
        raise _invalid_address(error) from None
    return ReceiverAddress(url=url, registration_id=delivery["registration_id"], secret=secret)


async def verify_receiver(
    receiver: ReceiverAddress, instance_id: str, verify: VerifyReceiver
) -> None:
    """Have a receiver prove that it expects the instance. Raises ProtocolRefusal."""
    try:
        await verify(receiver, instance_id)
    except UnsafeAddress as error:
        raise _invalid_address(error) from None
    except ReceiverUnverified as error:
        raise ProtocolRefusal(_UNPROCESSABLE, "webhook_verification_failed", str(error)) from None


def told_of(instance: Instance) -> JsonObject:
    """Return an instance as its provisioner sees it, without any secret."""
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
