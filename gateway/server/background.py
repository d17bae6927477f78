"""Runs adapters, and the background work that keeps their cards true."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from random import SystemRandom

from gateway.approvals.canaries import Canaries
from gateway.approvals.core import Core
from gateway.approvals.vote_recount import recount
from gateway.approvals.writer import FOLLOWUPS
from gateway.delivery.grant_copies import GrantCopies
from gateway.delivery.new_targets import Rerouting
from gateway.delivery.outbox_worker import TIMINGS, Changes, Look, Timings, Worker, either
from gateway.delivery.reminders_and_escalation import Reminders
from gateway.delivery.request_copies import RequestCopies
from gateway.domain.clock import SystemClock
from gateway.domain.figures import Tally
from gateway.domain.records import REVIEWS
from gateway.domain.store import REROUTING
from gateway.domain.tasks import cancel_and_wait
from gateway.errors import Unreachable
from gateway.ports import Adapter, Desk
from gateway.ports.devices import DeviceCalls
from gateway.ports.outgoing import Posts, PostsGrants
from gateway.sign_in.chat_links import ChatLinks
from gateway.stores.browser_sessions import RedisLogins
from gateway.stores.connect import AWAY
from gateway.stores.ingress import Duty
from gateway.stores.outbox import RedisNotes
from gateway.stores.requests import RedisStore

log = logging.getLogger("gateway.serving")

_RESTART_SECONDS = 1.0
_LOOK_SECONDS = 0.5
_LOST: tuple[type[BaseException], ...] = (Unreachable, *AWAY)
_SELDOM = Timings(idle=6.0)  # of a queue that only a new policy fills, with an event that rings


def desk_of(
    name: str,
    core: Core,
    store: RedisStore,
    *,
    inbox: str = "",
    devices: DeviceCalls | None = None,
) -> Desk:
    """Return the desk of an adapter, with its own notes. `inbox` is where cards may lead to."""
    links = ChatLinks(RedisLogins(store, SystemClock()), name, inbox)
    return core.desk(RedisNotes(store, name), links, inbox=inbox, devices=devices)


@asynccontextmanager
async def serve_adapters(
    adapter: Adapter, desk: Desk, core: Core, *, timings: Timings = TIMINGS
) -> AsyncIterator[None]:
    """Run an adapter; when it posts cards, keep them true."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(adapter.run(desk))
        if isinstance(adapter, Posts):
            look = _look(adapter, core, desk.inbox, timings)
            await stack.enter_async_context(run_worker(adapter.name, look, core, timings))
        yield


def _look(adapter: Posts, core: Core, inbox: str, timings: Timings) -> Look:
    clock = SystemClock()
    requests, grants = RequestCopies(adapter, core, clock, timings, inbox=inbox).look, None
    if isinstance(adapter, PostsGrants):
        grants = GrantCopies(adapter, core, clock, timings).look
    return either(requests, grants)


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
async def run_reminders(core: Core, store: RedisStore) -> AsyncIterator[None]:
    """Remind, escalate, fail over, follow the policy, and test people where a route wants that."""
    notes = RedisNotes(store, "canaries")
    canaries = Canaries(store, core.writer, notes, SystemClock(), SystemRandom())
    async with (
        run_worker(FOLLOWUPS, Reminders(core, SystemClock()).look, core),
        run_worker(REROUTING, Rerouting(core).look, core, _SELDOM),
        run_in_background("canaries", canaries.run),
    ):
        yield


async def follow_policy(core: Core, store: RedisStore) -> None:
    """Read the policy again, and count votes, when any replica replaced it, until cancelled."""
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
    """Work through an outbox until left, rung by all events or by these `changes`."""
    worker = Worker(queue, core.outbox, look, changes or core.feed.changes, timings=timings)
    try:
        async with run_in_background(f"{queue} outbox", worker.run):
            yield
    finally:
        # Finish what was begun, so that no card is posted without its place being recorded.
        await worker.finish()


async def watch_loop(tally: Tally) -> None:
    """Note how late the event loop comes to what is due, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _LOOK_SECONDS
        await asyncio.sleep(_LOOK_SECONDS)
        tally.lags.add(max(0.0, loop.time() - due))


@asynccontextmanager
async def hold_duty(
    duty: Duty, work: Callable[[], AbstractAsyncContextManager[None]]
) -> AsyncIterator[None]:
    """Do `work` while this replica has the duty, until left."""

    async def hold() -> None:
        await duty.taken.wait()
        log.info("this replica has the duty", extra={"event": "duty_taken"})
        async with work():
            await duty.lost.wait()
        log.warning("another replica has the duty", extra={"event": "duty_lost"})

    async with run_in_background("duty", hold):
        yield


@asynccontextmanager
async def run_in_background(name: str, work: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Keep `work` running; when it fails, log that and start it again."""

    async def keep() -> None:
        while True:
            try:
                await work()
            except _LOST as error:
                # A lost connection is no fault of ours: one line, and again.
                lost = type(error).__name__
                log.warning(
                    "%s lost its connection: %s", name, error or lost, extra={"event": "task_lost"}
                )
            except Exception:
                # The gateway must not go on without this work, whatever the error.
                log.exception("%s failed", name, extra={"event": "task_failed"})
            await asyncio.sleep(_RESTART_SECONDS)

    task = asyncio.create_task(keep(), name=name)
    try:
        yield
    finally:
        await cancel_and_wait(task)
