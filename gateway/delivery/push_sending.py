"""Sends one push to one device, through the guard of addresses, and says plainly what became of it:
the address comes from a browser, so it may be anything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.delivery.egress_guard import (
    Forbidden,
    Resolve,
    Target,
    pin_addresses,
    resolve_by_system,
    target_of,
)
from gateway.delivery.pinned_post import PostAnswer, Unanswered, post, read_pause
from gateway.delivery.push_encryption import PushKey, encrypt
from gateway.domain.clock import Clock
from gateway.domain.devices import PushDevice
from gateway.ports.outgoing import CopyGone, DeliveryFailed, RetryLater
from gateway.wire.codec import JsonObject

_SECONDS = 10.0  # for one push
_USUAL_PORT = 443
_MOST_RETRY_SECONDS = 3600.0
_GONE = (404, 410)
_LATER = (429, *range(500, 600))
_SAYS = {
    400: "it does not understand us",
    401: "it does not take our key",
    403: "it does not take our key for this device: turn notifications off and on there",
    413: "the text was too long",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """What is sent: its content, for how many seconds it is kept for a device that is off, by which
    topic a later one replaces it, and whether it wakes the device."""

    content: JsonObject
    ttl: int
    topic: str
    wakes: bool = True


class PushSender:
    """Sends with our key. `hosts` are those that may be called, any public one where there are
    none; `contact` says at push services who we are."""

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
        """Refuse an address that must not be called, before it is kept. Raises Forbidden, in the
        same words for a name that nobody knows and for one of our own network: who asks learns not
        which names there are."""
        target = self._read_target(endpoint)
        try:
            async with asyncio.timeout(_SECONDS):
                await pin_addresses(target, self._resolve)
        except (Forbidden, OSError, TimeoutError) as error:
            raise Forbidden("its name leads to no public address") from error

    async def send(self, device: PushDevice, push: Push) -> None:
        """Send a push. Raises CopyGone when the device must be forgotten, RetryLater when it may
        be sent again, and DeliveryFailed for good."""
        if device.server_key != self.key.public:
            raise DeliveryFailed(
                "it was made for another key of ours: turn notifications off and on there"
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
            raise RetryLater(0, f"its push service did not answer ({error or 'too slow'})") from (
                error
            )
        self._judge(answer)

    def _judge(self, answer: PostAnswer) -> None:
        status = answer.status
        if 200 <= status < 300:  # noqa: PLR2004 (HTTP's own figures)
            return
        said = f"its push service answered {status}"
        if status in _GONE:
            raise CopyGone(f"{said}: the device is not there any more", deleted=True)
        if status in _LATER:
            seconds = read_pause(answer.retry_after, self._clock.now_ms())
            raise RetryLater(min(seconds, _MOST_RETRY_SECONDS), said)
        raise DeliveryFailed(f"{said}: {_SAYS[status]}" if status in _SAYS else said)

    def _read_target(self, endpoint: str) -> Target:
        """Return what an endpoint names. Where no host is written down any is taken, at the usual
        port, and none of this machine."""
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
