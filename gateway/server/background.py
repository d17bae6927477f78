"""Runs adapters, and the background work that keeps their cards true."""

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
from gateway.delivery.outbox_worker import Look, Worker
from gateway.delivery.reminders import Followups
from gateway.delivery.request_copies import Courier
from gateway.domain.clock import SystemClock
from gateway.domain.records import REVIEWS
from gateway.domain.store import REROUTING
from gateway.domain.tasks import ended
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
    """Return the desk of an adapter, with its own notes. Cards link to the URL `inbox`."""
    outbox = RedisOutbox(store)
    notes = RedisNotes(store, name)
    return FrontDesk(approvals, store, outbox, SystemClock(), notes, RedisHeld(store), inbox=inbox)


@asynccontextmanager
async def served(adapter: Adapter, desk: FrontDesk, store: RedisStore) -> AsyncIterator[None]:
    """Run an adapter; when it posts cards, keep them true."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(adapter.run(desk))
        if isinstance(adapter, Posts):
            look = _look(adapter, desk, RedisOutbox(store))
            await stack.enter_async_context(_working(adapter.name, look, desk, store))
        yield


def _look(adapter: Posts, desk: FrontDesk, outbox: RedisOutbox) -> Look:
    clock = SystemClock()
    requests, grants = Courier(adapter, desk, outbox, clock).look, None
    if isinstance(adapter, PostsGrants):
        grants = GrantCourier(adapter, desk, outbox, clock).look
    return either(requests, grants)


@asynccontextmanager
async def reviewed(approvals: Approvals, store: RedisStore) -> AsyncIterator[None]:
    """Ask slow deciders about stored requests."""
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
    queue: str, look: Look, desk: FrontDesk, store: RedisStore
) -> AsyncIterator[None]:
    """Work through an outbox until left."""
    worker = Worker(queue, RedisOutbox(store), look, desk.changes)
    try:
        async with background(f"{queue} outbox", worker.run):
            yield
    finally:
        # Finish what was begun, so that no card is posted without its place being recorded.
        await worker.finish()


@asynccontextmanager
async def background(name: str, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Keep `work` running; when it fails, log that and start it again."""

    async def keep() -> None:
        while True:
            try:
                await work()
            except Exception:
                # The gateway must not go on without this work, whatever the error.
                log.exception("%s failed", name, extra={"event": "task_failed"})
            await asyncio.sleep(_RESTART_SECONDS)

    task = asyncio.create_task(keep(), name=name)
    try:
        yield
    finally:
        await ended(task)
