"""Encrypt, sign and send a push to a device, and queue the requests that need pushes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec

from gateway.delivery.egress_guard import (
    Forbidden,
    PostAnswer,
    Resolve,
    Target,
    Unanswered,
    pin_addresses,
    post,
    read_pause,
    resolve_by_system,
    target_of,
)
from gateway.domain.records import AuditEvent, Query
from gateway.domain.time_and_tasks import Clock
from gateway.errors import Unreachable
from gateway.ports.adapter_api import Feed, RequestCalls
from gateway.ports.devices import PUSH, PushDevice
from gateway.ports.outgoing import CopyGone, DeliveryFailed, Outbox, RetryLater
from gateway.stores.devices import RedisDevices
from gateway.wire.codec import JsonObject

# Encryption and signature of web push: RFC 8291 for the device, RFC 8292 for its push service.
#
# The two packages for it come with the extra `push`, and are imported at the first push.

MOST_BYTES = 3993
"""The longest text: its body then has the 4,096 bytes that every push service accepts."""

_SCALAR_BYTES, _POINT_BYTES, _AUTH_BYTES = 32, 65, 16
_UNPACKED = b"\x04"  # the first byte of an uncompressed point
_GROUP = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # P-256's order
_LIFE_SECONDS = 12 * 3600  # of a signature; push services reject more than a day

MISSING = (
    "push needs an extra. Install the gateway as before, with this extra: approval-gateway[push]"
)


def is_installed() -> bool:
    """Return whether the packages of the extra for push are installed."""
    return all(find_spec(name) is not None for name in ("http_ece", "py_vapid"))


class PushKey:
    """The gateway's key for push services, read from base64 of 32 bytes. Raises ValueError."""

    def __init__(self, text: str) -> None:
        raw = base64.b64decode(text, validate=True)
        if len(raw) != _SCALAR_BYTES or not 0 < int.from_bytes(raw) < _GROUP:
            raise ValueError("a push key must be base64 of 32 bytes")
        self._raw = raw

    @cached_property
    def public(self) -> str:
        """The public key, in the encoding that browsers need."""
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 (an extra's)
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 (as above)
            Encoding,
            PublicFormat,
        )

        key = ec.derive_private_key(int.from_bytes(self._raw), ec.SECP256R1()).public_key()
        return _write(key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    def sign(self, audience: str, contact: str, now_ms: int) -> str:
        """Return the Authorization header that identifies the gateway to a push service."""
        from py_vapid import Vapid02  # noqa: PLC0415 (an extra's)

        claims = {"aud": audience, "exp": now_ms // 1000 + _LIFE_SECONDS, "sub": contact}
        signed = Vapid02.from_raw(_write(self._raw).encode()).sign(claims)
        return str(signed["Authorization"])


def encrypt(text: bytes, key: str, auth: str) -> bytes:
    """Encrypt a text, so that only the device with this key and secret can read it. Raises
    ValueError if the text is too long, and for invalid keys."""
    import http_ece  # noqa: PLC0415 (an extra's)
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 (as above)

    if len(text) > MOST_BYTES:
        raise ValueError(f"a push can have at most {MOST_BYTES} bytes, not {len(text)}")
    point, secret = read_keys(key, auth)
    fresh = ec.generate_private_key(ec.SECP256R1())
    body: bytes = http_ece.encrypt(
        text, private_key=fresh, dh=point, auth_secret=secret, version="aes128gcm"
    )
    return body


def read_keys(key: str, auth: str) -> tuple[bytes, bytes]:
    """Return a device's public key and secret, decoded from base64url. Raises ValueError if one is
    invalid."""
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 (an extra's)

    point, secret = _read(key), _read(auth)
    if len(point) != _POINT_BYTES or point[:1] != _UNPACKED or len(secret) != _AUTH_BYTES:
        raise ValueError("the keys are not valid keys of a push subscription")
    ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    return point, secret


def _read(text: str) -> bytes:
    return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _write(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


_SECONDS = 10.0  # for one push
_USUAL_PORT = 443
_MOST_RETRY_SECONDS = 3600.0
_GONE = (404, 410)
_LATER = (429, *range(500, 600))
_SAYS = {
    400: "the push service does not understand the push",
    401: "the push service rejects the gateway's key",
    403: "the push service rejects the gateway's key for this device: turn notifications off and "
    "on there",
    413: "the text of the push was too long",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One push. `ttl` is how many seconds the push service keeps it for a device that is off. A
    later push with the same `topic` replaces an earlier push. `wakes` says whether the push wakes
    the device."""

    content: JsonObject
    ttl: int
    topic: str
    wakes: bool = True


class PushSender:
    """Sends pushes with the gateway's key. `hosts` are the allowed push services, empty for any
    public one; `contact` is the gateway's contact address for push services."""

    def __init__(
        self,
        key: PushKey,
        clock: Clock,
        *,
        hosts: Sequence[str],
        production: bool,
        contact: str,
        resolve: Resolve = resolve_by_system,
    ) -> None:
        self.key = key
        self._clock = clock
        self._hosts = tuple(hosts)
        self._production = production
        self._contact = contact
        self._resolve = resolve

    async def check(self, endpoint: str) -> None:
        """Check an address before it is stored. Raises Forbidden if the gateway must not call it.

        The error is the same for an unknown host name and for a host in the internal network, so
        that nobody can find out which names exist.
        """
        target = self._read_target(endpoint)
        try:
            async with asyncio.timeout(_SECONDS):
                await pin_addresses(target, self._resolve)
        except (Forbidden, OSError, TimeoutError) as error:
            raise Forbidden("the name of its push service has no public address") from error

    async def send(self, device: PushDevice, push: Push) -> None:
        """Send a push. Raises CopyGone if the device must be deleted, RetryLater if the push may be
        sent again, and otherwise DeliveryFailed."""
        if device.server_key != self.key.public:
            raise DeliveryFailed(
                "this device was registered with a different key: turn notifications off and on "
                "there"
            )
        text = json.dumps(push.content, ensure_ascii=False, separators=(",", ":")).encode()
        try:
            target = self._read_target(device.endpoint)
            body = encrypt(text, device.key, device.auth)
            async with asyncio.timeout(_SECONDS):
                answer = await post(
                    target, self._resolve, body=body, headers=self._build_headers(target, push)
                )
        except (Forbidden, ValueError) as error:
            raise DeliveryFailed(str(error)) from error
        except (Unanswered, TimeoutError) as error:
            raise RetryLater(0, f"the push service did not respond ({error or 'too slow'})") from (
                error
            )
        self._judge(answer)

    def _judge(self, answer: PostAnswer) -> None:
        status = answer.status
        if 200 <= status < 300:  # noqa: PLR2004 (HTTP's own figures)
            return
        said = f"the push service returned status {status}"
        if status in _GONE:
            raise CopyGone(f"{said}: the device no longer exists", deleted=True)
        if status in _LATER:
            seconds = read_pause(answer.retry_after, self._clock.now_ms())
            raise RetryLater(min(seconds, _MOST_RETRY_SECONDS), said)
        raise DeliveryFailed(f"{said}: {_SAYS[status]}" if status in _SAYS else said)

    def _read_target(self, endpoint: str) -> Target:
        """Check the URL of a push endpoint, and return its target. Without configured hosts, any
        public host on port 443 is allowed."""
        if self._hosts:
            return target_of(endpoint, allowed=self._hosts, production=self._production)
        host = endpoint.removeprefix("https://").partition("/")[0].partition(":")[0]
        return target_of(endpoint, allowed=(host,), production=True)

    def _build_headers(self, target: Target, push: Push) -> dict[str, str]:
        scheme = target.url.partition(":")[0]
        port = "" if target.port == _USUAL_PORT else f":{target.port}"
        audience = f"{scheme}://{target.host}{port}"
        return {
            "Content-Type": "application/octet-stream",
            "Content-Encoding": "aes128gcm",
            "User-Agent": "approval-gateway",
            "TTL": str(push.ttl),
            "Topic": push.topic,
            "Urgency": "high" if push.wakes else "normal",
            "Authorization": self.key.sign(audience, self._contact, self._clock.now_ms()),
        }


# Fills the push outbox with requests that devices may need to show: those that events name, and all
# pending ones when listening begins, so that none is missed. So no script and no record depends on
# devices, and without devices nothing is done.

DEVICE_ADDED, DEVICE_REMOVED, QUIET_CHANGED = "push_added", "push_removed", "push_quiet"
_ALL = (DEVICE_ADDED, DEVICE_REMOVED, QUIET_CHANGED, "policy_applied", "signed_out")
_PAGE = 200
_MOST = 100_000
_AGAIN_SECONDS = 1.0  # before listening again after the store did not answer


class PushQueue:
    """The queue of changed requests for the push worker. `tidy` deletes devices that belong to
    nobody; `store_errors` are the errors of an unreachable store."""

    def __init__(
        self,
        feed: Feed,
        requests: RequestCalls,
        outbox: Outbox,
        devices: RedisDevices,
        *,
        tidy: Callable[[], Awaitable[None]],
        store_errors: tuple[type[Exception], ...],
    ) -> None:
        self._feed = feed
        self._requests = requests
        self._outbox = outbox
        self._devices = devices
        self._tidy = tidy
        self._down = store_errors
        self._any = False

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[AuditEvent]]:
        """Yield each event after its request was queued. Raises Unreachable if events may have been
        missed; the next call then queues all requests."""
        try:
            async with self._feed.changes() as events:
                await self._mark_all()
                yield self._mark_each(events)
        except self._down as error:
            await asyncio.sleep(_AGAIN_SECONDS)
            raise Unreachable("the gateway cannot write to its push queue") from error

    async def _mark_each(self, events: AsyncIterator[AuditEvent]) -> AsyncIterator[AuditEvent]:
        async for event in events:
            if event.type in _ALL:
                await self._mark_all()
            elif self._any and event.request_id:
                await self._outbox.mark(PUSH, event.request_id)
            else:
                continue
            yield event

    async def _mark_all(self) -> None:
        """Queue all pending requests, and all requests that a notification may show."""
        await self._tidy()
        self._any = await self._devices.count() > 0
        if not self._any:
            return
        for request_id, _ in await self._outbox.queued(PUSH, limit=_MOST):
            await self._outbox.mark(PUSH, request_id)
        after = None
        while True:
            page = await self._requests.page(Query(after=after, limit=_PAGE))
            for record in page.items:
                await self._outbox.mark(PUSH, record.id)
            if (after := page.next) is None:
                return
