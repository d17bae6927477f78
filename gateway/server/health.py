"""Looks whether people can answer here, and whether what they answer is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from gateway.domain.health import DISK_FULL, Health, Readiness
from gateway.errors import Unreachable
from gateway.ports import Adapter, Feed, HasProblems
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import SWITCH_LOST, NoRoom, NotRecorded

_LOOK_SECONDS = 10.0
_FRESH_SECONDS = 1.0
NOT_TAKING_IN = "the agents' streams are not being read"
NOT_FOLLOWING = "events are not being read: nobody here hears of an answer"
_FULL = "Redis is full: nothing new is taken in; people can still decide, revoke and stop"


async def follow_targets(feed: Feed, store: RedisStore) -> None:
    """Keep in the store which targets take no cards, as any replica finds it, until cancelled."""
    while True:
        async with feed.changes() as events:
            troubled = await store.troubled_targets()
            # What was missed is met again at the next card.
            with suppress(Unreachable, *REDIS_ERRORS):
                async for event in events:
                    if event.type == "policy_applied":  # whose targets may be others
                        troubled = {}
                        await store.forget_targets()
                    target = event.data.get("target")
                    if not isinstance(target, str):
                        continue
                    if event.type == "undelivered":
                        troubled[target] = str(event.data.get("why", ""))
                        await store.note_target(target, troubled[target])
                    elif event.type == "delivered" and troubled.pop(target, None) is not None:
                        await store.note_target(target, None)


class Reader(Protocol):
    """Follows streams of Redis."""

    @property
    def healthy(self) -> bool:
        """Whether it reads."""


class HealthWatch:
    """Looks at Redis, at who reads its streams, and at the adapters. See ADR 35.

    `readers` are by the sentence that says what it means when one does not read. With `serves_api`
    people can answer whatever becomes of the adapters. `is_disk_full` is asked where Redis does not
    answer.
    """

    def __init__(
        self,
        health: Health,
        store: RedisStore,
        adapters: Sequence[Adapter],
        readers: Mapping[str, Reader],
        *,
        serves_api: bool,
        is_disk_full: Callable[[], bool] = lambda: False,
    ) -> None:
        self._health = health
        self._store = store
        self._adapters = adapters
        self._readers = readers
        self._serves_api = serves_api
        self._is_disk_full = is_disk_full
        self._looked: float | None = None
        self._looking = asyncio.Lock()

    async def look(self) -> Readiness:
        """Look, unless that was done within the last second; return what is wrong."""
        loop = asyncio.get_running_loop()
        async with self._looking:
            if self._looked is None or loop.time() - self._looked > _FRESH_SECONDS:
                await self._look()
                self._looked = loop.time()
        return self._health.readiness

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> None:
        note = self._health.note
        try:
            await self._store.probe()
            stopped = await self._store.is_stopped()
            troubled = await self._store.troubled_targets()
        except NoRoom:
            note("redis", _FULL)
        except NotRecorded as error:
            note("redis", str(error), down=True)
        except REDIS_ERRORS as error:
            why = str(error) or type(error).__name__
            gone = f"nothing can be recorded: Redis does not answer ({why})"
            full = await asyncio.to_thread(self._is_disk_full)
            note("redis", DISK_FULL if full else gone, down=True)
        else:
            note("redis", SWITCH_LOST if stopped is None else None, down=True)
            self._health.note_all(
                "target", {name: f"{name} takes no cards: {why}" for name, why in troubled.items()}
            )
        for sentence, reader in self._readers.items():
            note(sentence, None if reader.healthy else sentence)
        for adapter in self._adapters:
            if isinstance(adapter, HasProblems):
                found = {one: one for one in adapter.problems()}
                where, down = f"adapter {adapter.name}", not self._serves_api
                self._health.note_all(where, found, down=down)
