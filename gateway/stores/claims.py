"""Redis store for chat invitations and claims (`RedisClaims`). Reading deletes expired entries."""

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
_KEPT_MS = 86_400_000  # for a claim that no operator looked at
_WRONG_SECONDS = 600


class RedisClaims:
    """Implements `gateway.ports.claims.ClaimStore` for one namespace. All entries are in one
    hash."""

    def __init__(self, store: RedisStore, clock: Clock) -> None:
        self._store = store
        self._redis = store.redis
        self._keys = store.keys
        self._clock = clock
        self._key = store.keys.of("claims")
        self._take = Script("take_invitation", store.at)

    async def invite(self, invitation: Invitation) -> None:
        """Save an invitation until it expires."""
        await self._redis.hset(self._key, invitation.id, dumps(plain(invitation)))

    async def find(self, invitation_id: str) -> tuple[Invitation, ChatClaim | None] | None:
        """Return an unexpired invitation and its claim, or None."""
        return next((one for one in await self.list_all() if one[0].id == invitation_id), None)

    async def claim(self, invitation: Invitation, claim: ChatClaim, facts: dict[str, str]) -> bool:
        """Save a claim for a day and audit it with this data. Return False if the invitation
        already has a claim."""
        kept = dumps(plain(replace(invitation, ends=claim.at + _KEPT_MS)))
        told = [invitation.id, kept, dumps(plain(claim)), dumps(mask(facts))]
        return bool(await self._take.run(self._redis, [self._key, self._keys.events], told))

    async def list_all(self) -> list[tuple[Invitation, ChatClaim | None]]:
        """Return all unexpired invitations with their claims, oldest first; delete the rest."""
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
        """Delete an invitation and its claim. Return whether this call deleted it."""
        names = (invitation_id, invitation_id + _CLAIM)
        return bool(await self._redis.hdel(self._key, *names))

    async def count_wrong(self, platform: str) -> int:
        """Count a wrong code. Return the number of recent wrong codes in this chat."""
        key = self._keys.of("claims", "wrong", platform)
        count = int(await self._redis.incr(key))
        await self._redis.expire(key, _WRONG_SECONDS)
        return count

    async def end_all(self, platform: str) -> None:
        """End the unused invitations of a chat."""
        for invitation, claim in await self.list_all():
            if claim is None and invitation.platform == platform:
                await self.remove(invitation.id)
        await self._redis.delete(self._keys.of("claims", "wrong", platform))

    async def list_departed(self) -> set[str]:
        """Return the names of people removed from the policy."""
        return {*await self._redis.hkeys(self._keys.departed)}

    async def is_file_in_force(self) -> bool:
        """Return whether the policy comes from the file named in the settings."""
        return bool((await self._store.policy_file()).digest)
