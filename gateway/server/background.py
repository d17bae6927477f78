"""Run adapters and background work, and watch whether people can decide here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from gateway.approvals.claims import ClaimService
from gateway.approvals.policy_changes import recount
from gateway.approvals.request_writer import FOLLOWUPS
from gateway.approvals.services import Core
from gateway.delivery.outbox_worker import TIMINGS, Changes, Look, Timings, Worker
from gateway.delivery.reminders_and_escalation import Reminders, Rerouting
from gateway.delivery.request_cards import CardKeeper
from gateway.domain.health_and_metrics import DISK_FULL, Health, Readiness, Tally
from gateway.domain.records import REVIEWS
from gateway.domain.store import REROUTING
from gateway.domain.time_and_tasks import SystemClock, cancel_and_wait
from gateway.errors import Unreachable
from gateway.ports import Adapter, AdapterApi, Feed, WebPages
from gateway.ports.devices import DeviceCalls
from gateway.sign_in.logins import ChatLinks, Ways
from gateway.stores.claims import RedisClaims
from gateway.stores.connect import AWAY
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.event_feed import RedisFeed
from gateway.stores.ingress import Duty, Ingress
from gateway.stores.outbox import RedisAdapterStorage
from gateway.stores.requests import RedisStore
from gateway.stores.scripts import SWITCH_LOST, NoRoom, NotRecorded

log = logging.getLogger("gateway.server")

_RESTART_SECONDS = 1.0
_LOOK_SECONDS = 0.5
_LOST: tuple[type[BaseException], ...] = (Unreachable, *AWAY)
_SELDOM = Timings(
    idle=6.0
)  # for a queue that only a new policy fills, with an event that wakes the worker


def adapter_api(
    name: str,
    core: Core,
    store: RedisStore,
    *,
    inbox: str = "",
    devices: DeviceCalls | None = None,
    logins: Ways | None = None,
    secure: bool = False,
) -> AdapterApi:
    """Return the API of an adapter, with its own notes. `inbox` is the address for links from
    cards, `logins` the configured ways to sign in, and `secure` says that browsers use TLS."""
    logins = logins or Ways(store, SystemClock())
    return AdapterApi(
        requests=core.requests,
        grants=core.grant_service,
        suggestions=core.suggestions,
        operator=core.operator,
        feed=core.feed,
        notes=RedisAdapterStorage(store, name),
        sizes=core.sizes,
        links=ChatLinks(logins, name, inbox),
        logins=logins,
        away=core.away,
        inspect=core.operator.inspect,
        claims=ClaimService(store, RedisClaims(store, SystemClock()), SystemClock(), name),
        messages=core.copies.links,
        inbox=inbox,
        devices=devices,
        secure=secure,
    )


@asynccontextmanager
async def serve_adapters(
    adapter: Adapter, api: AdapterApi, core: Core, *, timings: Timings = TIMINGS
) -> AsyncIterator[WebPages]:
    """Run an adapter, and yield its pages; if it posts cards, keep them up to date."""
    async with AsyncExitStack() as stack:
        pages = await stack.enter_async_context(adapter.run(api))
        if adapter.posts:
            look = CardKeeper(adapter, api, core, SystemClock(), timings).look
            await stack.enter_async_context(run_worker(adapter.name, look, core, timings))
        yield pages or WebPages()


@asynccontextmanager
async def run_reviews(core: Core) -> AsyncIterator[None]:
    """Ask slow deciders about stored requests."""
    look = partial(core.reviews.look, held=core.held)
    worker = Worker(REVIEWS, core.outbox, look, core.feed.changes, seconds=None)
    try:
        async with run_in_background("reviews", worker.run):
            yield
    finally:
        await worker.finish()


@asynccontextmanager
async def run_reminders(core: Core) -> AsyncIterator[None]:
    """Run reminders, escalations and rerouting."""
    async with (
        run_worker(FOLLOWUPS, Reminders(core, SystemClock()).look, core),
        run_worker(REROUTING, Rerouting(core).look, core, _SELDOM),
    ):
        yield


async def follow_policy(core: Core, store: RedisStore) -> None:
    """Read the policy again and count votes whenever a replica replaces it, until cancelled."""
    while True:
        try:
            async with core.feed.controls() as events:
                core.writer.forget_policy()
                await recount(core.writer, store)
                async for event in events:
                    core.writer.forget_policy()
                    if event.type == "policy_applied":
                        core.grants.policy_changed()
                        await recount(core.writer, store)
        except Unreachable as behind:
            log.info("policy follower: %s", behind, extra={"event": "follower_behind"})


@asynccontextmanager
async def run_worker(
    queue: str,
    look: Look,
    core: Core,
    timings: Timings = TIMINGS,
    *,
    changes: Changes | None = None,
) -> AsyncIterator[None]:
    """Run the worker of an outbox until the block ends; all events, or `changes`, wake it."""
    worker = Worker(queue, core.outbox, look, changes or core.feed.changes, timings=timings)
    try:
        async with run_in_background(f"{queue} outbox", worker.run):
            yield
    finally:
        # Finish work in progress, so that no card is posted without its place being recorded.
        await worker.finish()


async def watch_loop(tally: Tally) -> None:
    """Measure the delay of the event loop, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LOOK_SECONDS
        await asyncio.sleep(_LOOK_SECONDS)
        tally.lags.add(max(0.0, loop.time() - due))


@asynccontextmanager
async def hold_duty(
    duty: Duty, work: Callable[[], AbstractAsyncContextManager[None]]
) -> AsyncIterator[None]:
    """Do `work` while this replica is the leader, until the block ends."""

    async def hold() -> None:
        await duty.taken.wait()
        log.info("this replica is the leader", extra={"event": "duty_taken"})
        async with work():
            await duty.lost.wait()
        log.warning("another replica is the leader", extra={"event": "duty_lost"})

    async with run_in_background("duty", hold):
        yield


@asynccontextmanager
async def run_in_background(name: str, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Keep `work` running; if it fails, log that and start it again."""

    async def keep() -> None:
        while True:
            try:
                await work()
            except _LOST as error:
                # A lost connection is not a bug: log one line and try again.
                lost = type(error).__name__
                log.warning(
                    "%s lost its connection: %s", name, error or lost, extra={"event": "task_lost"}
                )
            except Exception:
                # The gateway must not continue without this work, whatever the error.
                log.exception("%s failed", name, extra={"event": "task_failed"})
            await asyncio.sleep(_RESTART_SECONDS)

    task = asyncio.create_task(keep(), name=name)
    try:
        yield
    finally:
        await cancel_and_wait(task)


# Watches whether people can decide here, and whether decisions are recorded.

_HEALTH_LOOK_SECONDS = 10.0
_FRESH_SECONDS = 1.0
NOT_TAKING_IN = "this replica cannot read the agents' messages"
NOT_FOLLOWING = "this replica cannot read events, so it does not learn of decisions"
_FULL = (
    "Redis is full, so new requests are rejected; people can still decide, revoke grants and use "
    "the kill switch"
)


async def follow_targets(feed: Feed, store: RedisStore) -> None:
    """Record in the store which targets fail to take cards, until cancelled."""
    while True:
        async with feed.changes() as events:
            troubled = await store.troubled_targets()
            # A missed event does no harm: the next card shows the same.
            with suppress(Unreachable, *REDIS_ERRORS):
                async for event in events:
                    if event.type == "policy_applied":  # which may have other targets
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


class HealthWatch:
    """Watches Redis, the readers of its streams, and the adapters. See ADR 35.

    `readers` maps the sentence for a stopped reader to the reader. With `serves_api`, people can
    decide even if adapters fail. `is_disk_full` is called when Redis does not answer.
    """

    def __init__(
        self,
        health: Health,
        store: RedisStore,
        adapters: Sequence[Adapter],
        readers: Mapping[str, RedisFeed | Ingress],
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
        """Check everything, at most once a second; return the problems."""
        loop = asyncio.get_running_loop()
        async with self._looking:
            if self._looked is None or loop.time() - self._looked > _FRESH_SECONDS:
                await self._look()
                self._looked = loop.time()
        return self._health.readiness

    async def run(self) -> None:
        """Check again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_HEALTH_LOOK_SECONDS)

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
            gone = f"nothing can be recorded, because Redis does not respond ({why})"
            full = await asyncio.to_thread(self._is_disk_full)
            note("redis", DISK_FULL if full else gone, down=True)
        else:
            note("redis", SWITCH_LOST if stopped is None else None, down=True)
            self._health.note_all(
                "target",
                {name: f"cannot post cards to {name}: {why}" for name, why in troubled.items()},
            )
        for sentence, reader in self._readers.items():
            note(sentence, None if reader.healthy else sentence)
        for adapter in self._adapters:
            found = {one: one for one in adapter.problems}
            where, down = f"adapter {adapter.name}", not self._serves_api
            self._health.note_all(where, found, down=down)
