"""Invitations to a chat, and what was claimed with them: one hash, whose old entries go when it is
read."""

from __future__ import annotations

import json
from dataclasses import replace

from gateway.domain.redaction import mask
from gateway.domain.time_and_tasks import Clock
from gateway.ports.claims import ChatClaim, Invitation
from gateway.stores.record_codec import dumps
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.codec import build, plain

_CLAIM = " claim"
_KEPT_MS = 86_400_000  # a claim that no operator looked at
_WRONG_SECONDS = 600


class RedisClaims:
    """A `gateway.ports.claims.ClaimStore` over one namespace."""

    def __init__(self, store: RedisStore, clock: Clock) -> None:
        self._store = store
        self._redis = store.redis
        self._keys = store.keys
        self._clock = clock
        self._key = store.keys.of("claims")
        self._take = Script("take_invitation", store.at)

    async def invite(self, invitation: Invitation) -> None:
        """Keep an invitation until it ends."""
        await self._redis.hset(self._key, invitation.id, dumps(plain(invitation)))

    async def find(self, invitation_id: str) -> tuple[Invitation, ChatClaim | None] | None:
        """Return an invitation that has not ended, and what was claimed with it."""
        return next((one for one in await self.list_all() if one[0].id == invitation_id), None)

    async def claim(self, invitation: Invitation, claim: ChatClaim, facts: dict[str, str]) -> bool:
        """Keep the claim of an invitation, for a day, and note it with these facts; return False
        where it has one already."""
        kept = dumps(plain(replace(invitation, ends=claim.at + _KEPT_MS)))
        told = [invitation.id, kept, dumps(plain(claim)), dumps(mask(facts))]
        return bool(await self._take.run(self._redis, [self._key, self._keys.events], told))

    async def list_all(self) -> list[tuple[Invitation, ChatClaim | None]]:
        """Return what has not ended, the oldest first; forget the rest."""
        found = await self._redis.hgetall(self._key)
        made = []
        for name, text in found.items():
            if name.endswith(_CLAIM):
                continue
            invitation = build(Invitation, json.loads(text))
            if invitation.ends <= self._clock.now_ms():
                await self.remove(invitation.id)
                continue
            claimed = found.get(invitation.id + _CLAIM)
            made.append((invitation, build(ChatClaim, json.loads(claimed)) if claimed else None))
        return sorted(made, key=lambda one: one[0].made)

    async def remove(self, invitation_id: str) -> bool:
        """Forget an invitation and its claim; return whether this call did."""
        names = (invitation_id, invitation_id + _CLAIM)
        return bool(await self._redis.hdel(self._key, *names))

    async def count_wrong(self, platform: str) -> int:
        """Count a wrong code; return how many there were lately in this chat."""
        key = self._keys.of("claims", "wrong", platform)
        count = int(await self._redis.incr(key))
        await self._redis.expire(key, _WRONG_SECONDS)
        return count

    async def end_all(self, platform: str) -> None:
        """End the invitations of a chat that nobody has used."""
        for invitation, claim in await self.list_all():
            if claim is None and invitation.platform == platform:
                await self.remove(invitation.id)
        await self._redis.delete(self._keys.of("claims", "wrong", platform))

    async def list_departed(self) -> set[str]:
        """Return the names of people who left the policy."""
        return {*await self._redis.hkeys(self._keys.departed)}

    async def is_file_in_force(self) -> bool:
        """Whether the policy comes from the file of the settings."""
        return bool((await self._store.policy_file()).digest)
