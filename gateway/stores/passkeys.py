"""The passkeys of people, in Redis.

A person's passkeys are fields of one hash, named 0 to 19. `HSETNX` takes a free one, so a person
never has more, whatever is added at the same time. The hash belongs to one stay of a name in the
policy: who leaves and comes back has none.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace

from gateway.domain.clock import Clock
from gateway.errors import Conflict
from gateway.ports.passkeys import MOST_PASSKEYS
from gateway.stores.holders import Holder, Holders, PolicyStanding, holder_from
from gateway.stores.requests import RedisStore
from gateway.wire.codec import JsonObject

# All passkeys of a person of which none was used for so long are forgotten.
_UNUSED_SECONDS = 400 * 86_400
_SLOTS = tuple(str(one) for one in range(MOST_PASSKEYS))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPasskey:
    """A passkey as it is kept. `id` is base64url without padding, as browsers write it; `used` is
    when it last was, in ms, 0 for never; `count` is how often its device says it has signed."""

    id: str
    key: bytes
    words: str
    made: int
    holder: Holder
    used: int = 0
    count: int = 0
    slot: str = ""


class RedisPasskeys:
    """Passkeys of one namespace."""

    def __init__(self, store: RedisStore, clock: Clock) -> None:
        self._redis = store.redis
        self._keys = store.keys
        self._clock = clock
        self._holders = Holders(store)
        self.note = store.note

    @property
    def namespace(self) -> str:
        """Whose passkeys these are."""
        return self._keys.namespace

    async def stand(self) -> PolicyStanding:
        """Return who the policy knows now."""
        return (await self._holders.read())[0]

    async def load(self, standing: PolicyStanding, name: str) -> list[KeptPasskey]:
        """Return the passkeys that sign in whoever has this name now, the newest last."""
        kept, counts = self._names(name, standing.count_departures(name))
        found = await self._redis.hgetall(kept)
        counted = dict(await self._redis.zrange(counts, 0, -1, withscores=True)) if found else {}
        taken = [slot for slot in _SLOTS if slot in found]
        passkeys = [_parse(slot, json.loads(found[slot]), found, counted) for slot in taken]
        mine = [one for one in passkeys if one.holder.name == name and standing.admits(one.holder)]
        return sorted(mine, key=lambda one: one.made)

    async def keep(self, passkey: KeptPasskey) -> KeptPasskey:
        """Keep a passkey; return it with its place. Raises Conflict where its person has as many as
        there may be."""
        holder = passkey.holder
        kept, counts = self._names(holder.name, holder.departures)
        body = {
            **holder.fields,
            "id": passkey.id,
            "key": b64encode(passkey.key).decode(),
            "words": passkey.words,
            "made": passkey.made,
        }
        # The count first: a passkey without one would let a copied device in.
        await self._redis.zadd(counts, {passkey.id: passkey.count}, nx=True)
        for slot in _SLOTS:
            if await self._redis.hsetnx(kept, slot, json.dumps(body)):
                await self._keep_for_long(kept, counts)
                return replace(passkey, slot=slot)
        await self._redis.zrem(counts, passkey.id)
        raise Conflict(f"you have {MOST_PASSKEYS} passkeys, and may have no more; remove one first")

    async def is_anothers(self, passkey: KeptPasskey) -> bool:
        """Whether somebody else whom the policy knows has a passkey of this id."""
        standing = await self.stand()
        others = [name for name in standing.list_names() if name != passkey.holder.name]
        found = [await self.load(standing, name) for name in others]
        return any(one.id == passkey.id for theirs in found for one in theirs)

    async def forget(self, passkey: KeptPasskey) -> bool:
        """Forget a passkey; return whether it was there."""
        holder = passkey.holder
        kept, counts = self._names(holder.name, holder.departures)
        gone = await self._redis.hdel(kept, passkey.slot)
        await self._redis.hdel(kept, f"used {passkey.id}")
        await self._redis.zrem(counts, passkey.id)
        return bool(gone)

    async def count_use(self, passkey: KeptPasskey, count: int) -> bool:
        """Note a use and how often its device says it has signed; False where another use said as
        much already: then one of two devices is a copy."""
        holder = passkey.holder
        kept, counts = self._names(holder.name, holder.departures)
        if count:
            told = {passkey.id: count}
            if not await self._redis.zadd(counts, told, xx=True, gt=True, ch=True):
                return False
        elif await self._redis.zscore(counts, passkey.id) is None:
            return False  # it was removed meanwhile
        await self._redis.hset(kept, f"used {passkey.id}", self._clock.now_ms())
        await self._keep_for_long(kept, counts)
        return True

    async def _keep_for_long(self, *names: str) -> None:
        for name in names:
            await self._redis.expire(name, _UNUSED_SECONDS)

    def _names(self, name: str, departures: int) -> tuple[str, str]:
        """The passkeys of a person in one stay of theirs (hash), and the counts that their devices
        say (sorted set)."""
        stay = (str(departures), name)
        return self._keys.of("passkeys", *stay), self._keys.of("passkey-counts", *stay)


def _parse(
    slot: str, body: JsonObject, found: dict[str, str], counted: dict[str, float]
) -> KeptPasskey:
    return KeptPasskey(
        id=body["id"],
        key=b64decode(body["key"]),
        words=body["words"],
        made=body["made"],
        holder=holder_from(body),
        used=int(found.get(f"used {body['id']}", 0)),
        count=int(counted.get(body["id"], 0)),
        slot=slot,
    )
