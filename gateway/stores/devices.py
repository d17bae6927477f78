"""Keeps the devices that take web pushes, and people's quiet hours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from gateway.ports.devices import MOST_DEVICES, PushDevice, QuietHours
from gateway.stores.record_codec import dumps
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import Script
from gateway.wire.codec import build, plain


class RedisDevices:
    """The devices of one namespace: one hash for each person, one that says whose a device is, one
    of quiet hours. Replicas share it."""

    def __init__(self, store: RedisStore) -> None:
        self._redis, self._keys = store.redis, store.keys
        self._swap = Script("put_copy", store.at)

    async def add(self, device: PushDevice) -> bool:
        """Keep a device, in place of one with its id; False when its person has too many."""
        mine = self._keys.devices_of(device.person)
        owner = await self._redis.hget(self._keys.devices, device.id)
        known = owner == device.person
        if not known and await self._redis.hlen(mine) >= MOST_DEVICES:
            return False
        pipeline = self._redis.pipeline(transaction=True)
        if owner is not None and not known:
            pipeline.hdel(self._keys.devices_of(owner), device.id)
        pipeline.hset(mine, device.id, dumps(plain(device)))
        pipeline.hset(self._keys.devices, device.id, device.person)
        await pipeline.execute()
        return True

    async def change(self, device_id: str, **members: Any) -> None:
        """Change these members of a device, if it is still there, and leave its others as they are
        by now."""
        while (owner := await self._redis.hget(self._keys.devices, device_id)) is not None:
            mine = self._keys.devices_of(owner)
            if (raw := await self._redis.hget(mine, device_id)) is None:
                return
            text = dumps(plain(replace(_device(raw), **members)))
            if await self._swap.run(self._redis, [mine, mine], [device_id, raw, text]):
                return

    async def remove(self, device: PushDevice) -> bool:
        """Forget a device; return whether it was there."""
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hdel(self._keys.devices_of(device.person), device.id)
        pipeline.hdel(self._keys.devices, device.id)
        removed, _ = await pipeline.execute()
        return bool(removed)

    async def of_person(self, person: str) -> list[PushDevice]:
        """Return a person's devices, the oldest first."""
        rows = await self._redis.hvals(self._keys.devices_of(person))
        return sorted(map(_device, rows), key=lambda device: (device.added, device.id))

    async def get(self, device_id: str) -> PushDevice | None:
        """Return a device, whoever has it."""
        owner = await self._redis.hget(self._keys.devices, device_id)
        if owner is None:
            return None
        raw = await self._redis.hget(self._keys.devices_of(owner), device_id)
        return None if raw is None else _device(raw)

    async def everybody(self) -> list[PushDevice]:
        """Return all devices."""
        owners = sorted(set(await self._redis.hvals(self._keys.devices)))
        return [device for owner in owners for device in await self.of_person(owner)]

    async def count(self) -> int:
        """Return how many devices there are."""
        return int(await self._redis.hlen(self._keys.devices))

    async def quiet(self, person: str) -> QuietHours | None:
        """Return a person's quiet hours."""
        raw = await self._redis.hget(self._keys.quiet, person)
        return None if raw is None else build(QuietHours, json.loads(raw))

    async def set_quiet(self, person: str, hours: QuietHours | None) -> None:
        """Keep a person's quiet hours, or none."""
        if hours is None:
            await self._redis.hdel(self._keys.quiet, person)
        else:
            await self._redis.hset(self._keys.quiet, person, dumps(plain(hours)))


def _device(raw: str) -> PushDevice:
    return build(PushDevice, json.loads(raw))
