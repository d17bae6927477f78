"""Runs adapters at their desks, and the work that goes on behind them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from random import SystemRandom

from gateway.approvals.canaries import Canaries
from gateway.approvals.front_desk import FrontDesk
from gateway.approvals.service import Approvals
from gateway.approvals.vote_recount import recount
from gateway.approvals.writer import FOLLOWUPS
from gateway.delivery.grant_copies import GrantCourier, either
from gateway.delivery.new_targets import Rerouting
from gateway.delivery.outbox_worker import TIMINGS, Look, Timings, Worker
from gateway.delivery.reminders import Followups
from gateway.delivery.request_copies import Courier
from gateway.domain.clock import SystemClock
from gateway.domain.records import REVIEWS
from gateway.domain.store import REROUTING
from gateway.domain.tasks import cancel_and_wait
from gateway.errors import Unreachable
from gateway.ports import Adapter, HasProblems
from gateway.ports.outgoing import Posts, PostsGrants
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.event_feed import RedisFeed
from gateway.stores.groups import RedisHeld
from gateway.stores.outbox import RedisNotes, RedisOutbox
from gateway.stores.requests import RedisStore

log = logging.getLogger("gateway.serving")

_RESTART_SECONDS = 1.0
_CHANGES_POLICY = ("policy_applied", "grant_made", "grant_ended", "grant_kept", "grant_rests")


def desk_of(name: str, approvals: Approvals, store: RedisStore, *, inbox: str = "") -> FrontDesk:
    """Return the desk of an adapter, with its own notes. `inbox` is where cards may lead to."""
    outbox = RedisOutbox(store)
    notes = RedisNotes(store, name)
    return FrontDesk(approvals, store, outbox, SystemClock(), notes, RedisHeld(store), inbox=inbox)


@asynccontextmanager
async def served(
    adapter: Adapter, desk: FrontDesk, store: RedisStore, *, timings: Timings = TIMINGS
) -> AsyncIterator[None]:
    """Run an adapter; when it posts cards, keep them true."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(adapter.run(desk))
        if isinstance(adapter, Posts):
            look = _look(adapter, desk, RedisOutbox(store), timings)
            working = _working(adapter.name, look, desk, store, timings)
            await stack.enter_async_context(working)
        yield


def _look(adapter: Posts, desk: FrontDesk, outbox: RedisOutbox, timings: Timings) -> Look:
    clock = SystemClock()
    requests, grants = Courier(adapter, desk, outbox, clock, timings).look, None
    if isinstance(adapter, PostsGrants):
        grants = GrantCourier(adapter, desk, outbox, clock, timings).look
    return either(requests, grants)


@asynccontextmanager
async def reviewed(approvals: Approvals, store: RedisStore) -> AsyncIterator[None]:
    """Ask slow deciders about what is stored, until left."""
    look = partial(approvals.reviews.look, held=RedisHeld(store))
    worker = Worker(REVIEWS, RedisOutbox(store), look, approvals.changes, seconds=None)
    try:
        async with background("reviews", worker.run):
            yield
    finally:
        await worker.finish()


@asynccontextmanager
async def followed_up(approvals: Approvals, store: RedisStore) -> AsyncIterator[None]:
    """Remind, escalate, fail over, follow the policy, and test people where a route wants that."""
    desk = desk_of(FOLLOWUPS, approvals, store)
    followups, rerouting = Followups(desk, SystemClock()), Rerouting(desk, RedisOutbox(store))
    notes = RedisNotes(store, "canaries")
    canaries = Canaries(store, approvals.writer, notes, SystemClock(), SystemRandom())
    async with (
        _working(FOLLOWUPS, followups.look, desk, store),
        _working(REROUTING, rerouting.look, desk, store),
        background("canaries", canaries.run),
    ):
        yield


async def policy_followed(approvals: Approvals, store: RedisStore) -> None:
    """Read the policy again, and count votes, when any replica replaced it, until cancelled."""
    while True:
        try:
            async with approvals.changes() as events:
                approvals.forget_policy()
                await recount(approvals.writer, store)
                async for event in events:
                    if event.type in _CHANGES_POLICY:
                        approvals.forget_policy()
                    if event.type == "policy_applied":
                        approvals.granted.policy_changed()
                        await recount(approvals.writer, store)
        except Unreachable as behind:
            log.info("policy follower: %s", behind, extra={"event": "follower_behind"})


async def problems(store: RedisStore, feed: RedisFeed, adapters: Sequence[Adapter]) -> list[str]:
    """Return as sentences why people may be unable to answer here, or agents to hear of it."""
    found = [] if feed.healthy else ["events are not being read: nobody here hears of an answer"]
    try:
        await store.redis.ping()
    except REDIS_ERRORS:
        found.append("Redis does not answer")
    for adapter in adapters:
        if isinstance(adapter, HasProblems):
            found += adapter.problems()
    return found


@asynccontextmanager
async def _working(
    queue: str, look: Look, desk: FrontDesk, store: RedisStore, timings: Timings = TIMINGS
) -> AsyncIterator[None]:
    """Work through an outbox until left."""
    worker = Worker(queue, RedisOutbox(store), look, desk.changes, timings=timings)
    try:
        async with background(f"{queue} outbox", worker.run):
            yield
    finally:
        # What was begun is finished, so that no card is posted whose place nobody writes down.
        await worker.finish()


@asynccontextmanager
async def background(name: str, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Keep `work` running; should it end, say so and begin again."""

    async def keep() -> None:
        while True:
            try:
                await work()
            except Exception:
                # Whatever it was, a gateway that goes on without this work would be no gateway.
                log.exception("%s failed", name, extra={"event": "task_failed"})
            await asyncio.sleep(_RESTART_SECONDS)

    task = asyncio.create_task(keep(), name=name)
    try:
        yield
    finally:
        await cancel_and_wait(task)
