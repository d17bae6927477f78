"""Posts signed messages to the receivers of the Agent Approval Protocol, and has them prove first
that they expect any. Each address goes through the guard at every attempt."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import secrets
from collections.abc import Sequence
from uuid import UUID, uuid4

from gateway.delivery.egress_guard import Forbidden, Resolve, Target, resolve_by_system, target_of
from gateway.delivery.pinned_post import PostAnswer, Unanswered, post
from gateway.delivery.webhooks import signature
from gateway.domain.clock import Clock
from gateway.domain.protocol_instances import (
    ReceiverAddress,
    ReceiverUnverified,
    UnsafeAddress,
    format_time,
)
from gateway.wire.canonical_json import canonical

SECONDS = 10.0  # for one attempt
_OK = 200
_LONGEST_ANSWER = 4096
_PREFIX = "whsec_"


class ProtocolReceivers:
    """Calls the receivers at these `hosts`, `seconds` long at most."""

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
        """Refuse an address that must not be called. Raises UnsafeAddress."""
        try:
            self._target(url)
        except (Forbidden, ValueError) as error:
            raise UnsafeAddress(_why(error)) from error

    async def verify(self, receiver: ReceiverAddress, instance_id: str) -> None:
        """Send a challenge, once, that the receiver must answer with. Raises UnsafeAddress,
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
            raise ReceiverUnverified(f"the receiver did not answer ({error})") from error
        if answer.status != _OK:
            raise ReceiverUnverified(f"the receiver answered {answer.status}, and not 200")
        if not _holds(answer.body, challenge):
            raise ReceiverUnverified("the receiver did not answer with the challenge")

    async def post(
        self,
        receiver: ReceiverAddress,
        message_id: str,
        body: bytes,
        *,
        most: int = 0,
        seconds: float = SECONDS,
    ) -> PostAnswer:
        """Post a message, signed for this attempt. Raises Forbidden, Unanswered."""
        now = self._clock.now_ms() // 1000
        key = base64.b64decode(receiver.secret.removeprefix(_PREFIX))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "approval-gateway",
            "webhook-id": message_id,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(key, message_id, now, body),
        }
        try:
            async with asyncio.timeout(min(self._seconds, seconds)):
                target = self._target(receiver.url)
                return await post(target, self._resolve, body=body, headers=headers, most=most)
        except TimeoutError as error:
            raise Unanswered("too slow") from error

    def _target(self, url: str) -> Target:
        return target_of(url, allowed=self._hosts, production=self._production)


def _holds(body: bytes, challenge: str) -> bool:
    """Tell whether an answer is the challenge, and nothing beside it."""
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
        return "the address is none"
    return f"{error} (an operator allows hosts in GATEWAY_WEBHOOK_HOSTS)"
