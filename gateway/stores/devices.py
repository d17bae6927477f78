"""Redis store for web push devices and quiet hours (`RedisDevices`)."""

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
    """Push devices of one namespace: a hash per person, a hash with each device's owner, and a hash
    of quiet hours. All replicas share them."""

    def __init__(self, store: RedisStore) -> None:
        self._redis, self._keys = store.redis, store.keys
        self._swap = Script("put_copy", store.at)

    async def add(self, device: PushDevice) -> bool:
        """Save a device, replacing a stored device with this ID. Return False if the person has too
        many devices."""
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
        """Change these members of a device if it still exists. Concurrent changes of other members
        are kept."""
        while (owner := await self._redis.hget(self._keys.devices, device_id)) is not None:
            mine = self._keys.devices_of(owner)
            if (raw := await self._redis.hget(mine, device_id)) is None:
                return
            text = dumps(plain(replace(_device(raw), **members)))
            if await self._swap.run(self._redis, [mine, mine], [device_id, raw, text]):
                return

    async def remove(self, device: PushDevice) -> bool:
        """Delete a device. Return whether it existed."""
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hdel(self._keys.devices_of(device.person), device.id)
        pipeline.hdel(self._keys.devices, device.id)
        removed, _ = await pipeline.execute()
        return bool(removed)

    async def of_person(self, person: str) -> list[PushDevice]:
        """Return a person's devices, oldest first."""
        rows = await self._redis.hvals(self._keys.devices_of(person))
        return sorted(map(_device, rows), key=lambda device: (device.added, device.id))

    async def get(self, device_id: str) -> PushDevice | None:
        """Return a device of any person, or None."""
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
        """Return the number of devices."""
        return int(await self._redis.hlen(self._keys.devices))

    async def quiet(self, person: str) -> QuietHours | None:
        """Return a person's quiet hours, or None."""
        raw = await self._redis.hget(self._keys.quiet, person)
        return None if raw is None else build(QuietHours, json.loads(raw))

    async def set_quiet(self, person: str, hours: QuietHours | None) -> None:
        """Save a person's quiet hours, or delete them if None."""
        if hours is None:
            await self._redis.hdel(self._keys.quiet, person)
        else:
            await self._redis.hset(self._keys.quiet, person, dumps(plain(hours)))


def _device(raw: str) -> PushDevice:
    return build(PushDevice, json.loads(raw))
