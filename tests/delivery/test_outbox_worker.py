"""The pool behind posted cards: what hangs holds up nobody, and whoever leaves finishes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.delivery.outbox_worker import TIMINGS, OrderedLock, Timings, Worker
from gateway.domain.policy_document import Route
from gateway.domain.records import AuditEvent, MessageRef
from gateway.domain.time_and_tasks import cancel_and_wait
from gateway.ports.outgoing import CopyState, Shown, Task
from gateway.stores.outbox import RedisOutbox
from tests.delivery.test_outbox import Office, route
from tests.recording import RecordingAdapter
from tests.waiting import moment
from tests.world import World, click, policy


class HeldAdapter(RecordingAdapter):
    """Holds calls about `rec:a` until it is opened. `waiting` is set while one waits."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.waiting, self.held = asyncio.Event(), asyncio.Event(), 0

    async def deliver(self, target: str, shown: Shown, nonce: str) -> MessageRef:
        await self._pass(target)
        return await super().deliver(target, shown, nonce)

    async def update(self, ref: MessageRef, shown: Shown, nonce: str) -> None:
        await self._pass(ref.channel)
        await super().update(ref, shown, nonce)

    async def _pass(self, target: str) -> None:
        if target == "rec:a":
            self.held += 1
            self.waiting.set()
            await self.open.wait()


@asynccontextmanager
async def working(
    world: World, timings: Timings = TIMINGS
) -> AsyncIterator[tuple[Office, HeldAdapter]]:
    """Run the worker of the cards; yield the office, and the gate that is its adapter."""
    gate = HeldAdapter()
    office = Office(world, gate, timings)
    task = asyncio.create_task(office.cards.run())
    try:
        yield office, gate
    finally:
        await cancel_and_wait(task)
        await office.cards.finish()


async def shown(office: Office, target: str, count: int) -> None:
    """Wait until so many cards stand at a target."""
    async with asyncio.timeout(40):
        while sum(one.target == target for one in office.adapter.messages.values()) < count:
            await moment()


async def test_a_place_that_hangs_holds_up_no_other(world: World) -> None:
    """Twenty cards hang at one place; those for another appear meanwhile, and later these too."""
    await policy(
        world.store,
        Route(name="slow", tools=("slow",), approvers=("ann",), targets=("rec:a",)),
        Route(name="quick", approvers=("ann",), targets=("rec:b",)),
    )
    world.core.writer.forget_policy()
    async with working(world) as (office, gate):
        for number in range(20):
            await world.submit(tool="slow", arguments={"n": number})
        async with asyncio.timeout(40):
            while gate.held < 20:
                await moment()
        for number in range(3):
            await world.submit(arguments={"n": number})
        await shown(office, "rec:b", 3)
        assert gate.held == 20
        gate.open.set()
        await shown(office, "rec:a", 20)


async def test_one_copy_that_hangs_keeps_no_other_copy_of_its_request(world: World) -> None:
    """The second place gets its card while the first one does not answer."""
    await route(world, targets=("rec:a", "rec:b"))
    async with working(world, Timings(copy=0.05)) as (office, gate):
        await world.submit()
        await shown(office, "rec:b", 1)
        assert not gate.open.is_set()
        gate.open.set()
        await shown(office, "rec:a", 1)


async def test_no_more_hang_than_there_is_room_for(world: World) -> None:
    """A full pool takes nothing more, and goes on when one of it is done."""
    await route(world)
    async with working(world, Timings(at_once=2)) as (office, gate):
        for number in range(5):
            await world.submit(arguments={"n": number})
        await gate.waiting.wait()
        assert await office.cards.begin() == 0
        assert gate.held <= 2
        gate.open.set()
        await shown(office, "rec:a", 5)


async def test_a_change_while_its_card_is_posted_is_shown_after(world: World) -> None:
    """One look at a request at a time; the next one follows it."""
    await route(world)
    async with working(world, Timings(busy=0.01)) as (office, gate):
        record = await world.submit()
        await gate.waiting.wait()
        await world.core.requests.decide(click(record))
        assert await office.cards.begin() <= 1
        assert gate.held == 1
        gate.open.set()
        async with asyncio.timeout(40):
            while await office.due():
                await moment()
    assert office.adapter.shown("rec:a").word == "Approved"
    assert len(office.adapter.messages) == 1


async def test_whoever_leaves_writes_down_what_was_posted(world: World) -> None:
    """A gateway that is stopped in the midst of a post leaves no card that nobody knows."""
    await route(world)
    async with working(world) as (office, gate):
        record = await world.submit()
        await gate.waiting.wait()
        asyncio.get_running_loop().call_later(0.2, gate.open.set)
    assert await office.state(record) is CopyState.POSTED
    assert await office.due() == 0


async def test_whoever_leaves_does_not_wait_for_what_hangs(world: World) -> None:
    """It stays on the queue, for whoever comes next."""
    await route(world)
    async with working(world, Timings(finish=0.05)) as (office, gate):
        await world.submit()
        await gate.waiting.wait()
    assert await office.due() == 1
    assert office.adapter.messages == {}


async def in_line(line: OrderedLock, number: int, read: asyncio.Event, passed: list[int]) -> None:
    """Look at something, which takes until it is read."""
    async with line.standing() as turn:
        await read.wait()
        await turn()
        passed.append(number)


async def test_who_reads_faster_overtakes_nobody() -> None:
    """Looks post in the order in which they began."""
    line, reads, passed = OrderedLock(patience=1.0), [asyncio.Event(), asyncio.Event()], list[int]()
    async with asyncio.TaskGroup() as group:
        for number, read in enumerate(reads):
            group.create_task(in_line(line, number, read, passed))
        await asyncio.sleep(0)
        for read in reversed(reads):
            assert passed == []
            read.set()
            await asyncio.sleep(0)
    assert passed == [0, 1]


async def test_who_hangs_holds_nobody_for_long() -> None:
    """After its patience the next goes on, and one that leaves is not waited for."""
    line, passed, read = OrderedLock(patience=0.01), list[int](), asyncio.Event()
    read.set()
    hanging = asyncio.create_task(in_line(line, 0, asyncio.Event(), passed))
    await asyncio.sleep(0)
    await in_line(line, 1, read, passed)
    await cancel_and_wait(hanging)
    assert passed == [1]


async def test_what_is_marked_again_stays_due_since_it_was(world: World) -> None:
    """Else nobody could see how long it has waited. Yet no mark is lost on whoever looks just then,
    not even when their lease has run out."""
    queue, key = RedisOutbox(world.store), world.store.keys.dirty("rec")
    redis, now = world.store.redis, world.store.now
    await redis.zadd(key, {"old": await now() - 90_000})
    for name in ("old", "old", "new"):
        await queue.mark("rec", name)
    waited = {one: await now() - await redis.zscore(key, one) for one in ("old", "new")}
    assert waited["old"] >= 90_000 and waited["new"] < 60_000
    for name, lease_ms in (("kept", 60_000), ("run out", 0)):
        await queue.mark("rec", name)
        taken = await queue.lease_due("rec", limit=9, lease_ms=lease_ms)
        (task,) = [one for one in taken if one.request_id == name]
        await queue.mark("rec", name)
        assert not await queue.ack("rec", task)
        again = await queue.lease_due("rec", limit=9, lease_ms=60_000)
        assert name in [one.request_id for one in again]


async def test_a_mark_is_never_half_done(world: World) -> None:
    """Whoever leases what is marked just then either looks after it, or finds it due again at once:
    a lease that changed and still runs would keep everybody from looking until it ends."""
    queue, key = RedisOutbox(world.store), world.store.keys.dirty("rec")
    redis, now = world.store.redis, world.store.now

    async def lease_after(steps: int) -> list[Task]:
        for _ in range(steps):
            await now()
        return await queue.lease_due("rec", limit=1, lease_ms=60_000)

    for turn in range(100):
        await queue.mark("rec", "one")
        _, taken = await asyncio.gather(queue.mark("rec", "one"), lease_after(turn % 4))
        due = int(await redis.zscore(key, "one"))
        assert due <= await now() or due in [int(task.lease) for task in taken]
        await redis.delete(key)


async def test_what_changed_with_no_event_is_looked_at_again_at_once(world: World) -> None:
    """An idle worker looks seldom: what was marked while it was looked at rings its bell."""
    looks, changed = list[str](), asyncio.Event()
    queue = RedisOutbox(world.store)

    async def look(subject: str) -> None:
        looks.append(subject)
        if len(looks) < 4:  # one ring is that of beginning
            await queue.mark("rec", subject)
        else:
            changed.set()

    worker = Worker("rec", queue, look, world.core.feed.changes, timings=Timings(idle=600))
    await queue.mark("rec", "one")
    task = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(40):
            await changed.wait()
    finally:
        await cancel_and_wait(task)
        await worker.finish()


async def break_off() -> AsyncIterator[AuditEvent]:
    """Yield nothing, and fail."""
    for event in list[AuditEvent]():
        yield event
    raise RuntimeError("a bug in what is listened to")


@asynccontextmanager
async def broken() -> AsyncIterator[AsyncIterator[AuditEvent]]:
    """Listen to what fails."""
    yield break_off()


async def test_a_worker_that_hears_nothing_any_more_ends(world: World) -> None:
    """Whoever runs it begins anew: a deaf one would look at its queue now and then, and seem
    well."""

    async def look(_: str) -> None:
        return None

    worker = Worker("rec", RedisOutbox(world.store), look, broken)
    running = asyncio.create_task(worker.run())
    await asyncio.wait([running], timeout=20)
    assert running.done(), "it goes on, deaf"
    with pytest.raises(ExceptionGroup) as ended:
        await running
    assert ended.group_contains(RuntimeError)
