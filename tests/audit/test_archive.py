"""The archive: what leaves Redis, when, and that it is read as one audit with the rest."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.cli import main as command
from gateway.domain.audit import GENESIS, verify
from gateway.domain.records import AuditEvent
from gateway.models import Action
from gateway.stores.archive_folder import Archive, ArchiveCursor, ArchiveProblem
from gateway.stores.archiver import ArchivePace, Archiver, Trimming
from gateway.stores.audit import Sealer, export, sealed_after
from gateway.stores.event_feed import RedisFeed
from gateway.stores.requests import RedisStore, measure_store
from gateway.stores.retention import Retention
from tests.audit.test_audit import FAR_OFF, another_millisecond
from tests.clocks import StandingClock
from tests.sweeps import sweep
from tests.world import World, click

AT_ONCE = ArchivePace(settled_ms=0, longest_ms=0)
PIECES = ArchivePace(settled_ms=0, longest_ms=0, most_events=3)


class KilledGateway(Exception):
    """A gateway ended here."""


@dataclass
class DeadlyStep:
    """Ends a gateway at the nth step that it passes; 0 never does."""

    left: int = 0
    passed: list[str] = field(default_factory=list)

    def __call__(self, step: str) -> None:
        self.passed.append(step)
        self.left -= 1
        if self.left == 0:
            raise KilledGateway(step)


def reopened(world: World, folder: Path, at: Callable[[str], None] | None = None) -> RedisStore:
    """Return the store of another gateway of this namespace, with this archive."""
    at = at or DeadlyStep()
    return RedisStore(world.store.redis, world.store.keys, at, archive=Archive(folder, at))


async def sealed(world: World, requests: int = 2) -> None:
    """Let some requests end, and seal all events."""
    for number in range(requests):
        record = await world.submit(arguments={"n": number, "iban": "DE02 1203"})
        await world.core.requests.decide(click(record, Action.DENY, note="no"))
    await another_millisecond(world)
    await world.store.note("filler", data={})
    await Sealer(world.store, world.feed).seal_all()
    await another_millisecond(world)


async def archived(store: RedisStore, pace: ArchivePace = AT_ONCE) -> int:
    """Archive what is due, as nobody else does now; return how many segments that were."""
    await store.redis.delete(store.keys.of("archive", "claim"))
    return await Archiver(store, Trimming(store), pace).archive_all()


async def forgotten(store: RedisStore) -> int:
    """Have everything that is sealed forgotten; return how many requests that were."""
    await store.redis.delete(store.keys.of("archive", "claim"))
    return await Retention(store, StandingClock(FAR_OFF), days=1).trim()


async def problems_of(store: RedisStore) -> list[str]:
    """Return what verify says of the export."""
    return verify([line async for line in export(store)]).problems


async def lines_of(store: RedisStore) -> list[str]:
    """Return the export, without the line that says where Redis stands."""
    return [line async for line in export(store) if not line.startswith('{"store"')]


async def test_what_is_sealed_leaves_redis_and_nothing_else_changes(
    world: World, tmp_path: Path
) -> None:
    """Events and seals are gone from Redis; export, history, tail and the report are the same."""
    store = reopened(world, tmp_path)
    await sealed(world)
    await sealed(world)
    await world.store.note("unsealed", data={})
    before = await lines_of(store), await store.history(None, 999), await store.audit.latest(4)
    assert await archived(store) == 1
    assert await archived(store) == 0
    assert await store.redis.xlen(store.keys.events) == 1
    assert await store.redis.xlen(store.keys.seals) == 0
    after = await lines_of(store), await store.history(None, 999), await store.audit.latest(4)
    assert after == before
    found = verify([line async for line in export(store)])
    assert (found.problems, found.seals, found.starts_at) == ([], 2, GENESIS)
    assert [path.name for path in tmp_path.iterdir()] == ["0000000001.jsonl.gz"]


async def test_its_size_and_what_waits_for_it_are_measured(world: World, tmp_path: Path) -> None:
    """The age of the first event that is in Redis alone, and the bytes of all segments."""
    store = reopened(world, tmp_path)
    assert (await measure_store(world.store)).unarchived == 0  # there is no archive
    await sealed(world)
    waits = await measure_store(store)
    assert (waits.unarchived > 0, waits.archive_bytes) == (True, 0)
    await archived(store)
    await sealed(world)
    await archived(store)
    done = await measure_store(store)
    assert done.unarchived == 0
    assert done.archive_bytes > 0
    assert done.archive_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


@pytest.mark.parametrize("page", [1, 2, 3, 7])
async def test_pages_go_on_from_the_archive_into_redis(
    world: World, tmp_path: Path, page: int
) -> None:
    """Whatever their length, they skip and repeat nothing."""
    store = reopened(world, tmp_path)
    await sealed(world)
    await archived(store)
    await sealed(world)
    await archived(store)
    await sealed(world)
    whole = await store.history(None, 999)
    seen = await store.history(None, page)
    while more := await store.history(seen[-1].id, page):
        seen += more
    assert seen == whole
    assert len(await store.redis.xrange(store.keys.events)) < len(whole)


async def test_only_what_is_settled_is_archived_and_in_pieces(world: World, tmp_path: Path) -> None:
    """Neither what just happened nor what is not sealed; a seal is never divided."""
    store = reopened(world, tmp_path)
    for _ in range(3):
        await sealed(world)
    assert await archived(store, ArchivePace(settled_ms=60_000, longest_ms=0)) == 0
    assert await archived(store, ArchivePace(settled_ms=0, longest_ms=60_000)) == 0
    assert await archived(store, ArchivePace(settled_ms=0, longest_ms=60_000, most_events=3)) == 3
    assert await problems_of(store) == []


STEPS = 16


@sweep("nth", range(1, STEPS + 1), few=5)
async def test_whoever_dies_while_archiving_loses_and_doubles_nothing(
    world: World, tmp_path: Path, nth: int
) -> None:
    """Killed at each step in turn: the audit is the same then, and when the next has gone on."""
    first, second = await _two_batches(world, tmp_path)
    at = DeadlyStep(nth)
    with pytest.raises(KilledGateway):
        await archived(reopened(world, tmp_path, at), PIECES)
    assert await lines_of(reopened(world, tmp_path)) == first + second
    store = reopened(world, tmp_path)
    await archived(store, PIECES)
    assert await lines_of(store) == first + second
    assert await store.redis.xlen(store.keys.events) == 0
    assert await problems_of(store) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0000000001.jsonl.gz",
        "0000000002.jsonl.gz",
    ]


async def _two_batches(world: World, folder: Path) -> tuple[list[str], list[str]]:
    await sealed(world)
    first = await lines_of(reopened(world, folder))
    await sealed(world)
    return first, (await lines_of(reopened(world, folder)))[len(first) :]


async def test_every_step_of_archiving_is_a_point_to_die_at(world: World, tmp_path: Path) -> None:
    """The test above goes through all of them."""
    await _two_batches(world, tmp_path)
    at = DeadlyStep()
    await archived(reopened(world, tmp_path, at), PIECES)
    each = [
        "segment:written",
        "segment:linked",
        "segment:kept",
        "trim_events:before",
        "trim_events:after",
    ]
    claim = ["take_claim:before", "take_claim:after"]
    assert at.passed == [*claim, *each, *claim, *each, *claim]
    assert len(at.passed) == STEPS


async def test_of_two_gateways_that_archive_at_once_one_writes(
    world: World, tmp_path: Path
) -> None:
    """Also when all believe that it is their turn: a number is given once, and trimmed once."""
    await sealed(world)
    whole = await lines_of(reopened(world, tmp_path))
    stores = [reopened(world, tmp_path) for _ in range(4)]
    archivers = [Archiver(store, Trimming(store), AT_ONCE) for store in stores]
    each = await asyncio.gather(*(one._archive_next() for one in archivers), return_exceptions=True)
    assert all(isinstance(one, bool | FileNotFoundError) for one in each), each
    await archived(stores[0])
    assert await lines_of(stores[0]) == whole
    assert verify([line async for line in export(stores[0])]).problems == []
    assert len(Archive(tmp_path).numbers()) == 1


async def test_a_gateway_that_was_overtaken_writes_and_trims_nothing(
    world: World, tmp_path: Path
) -> None:
    """Its segment is refused, and the one that is there stays; its mark is an old one."""
    store = reopened(world, tmp_path)
    await sealed(world)
    batch = [one async for _, one in sealed_after(store, "0-0")]
    await archived(store)
    there = Archive(tmp_path).path(1).read_bytes()
    with pytest.raises(FileExistsError):
        Archive(tmp_path).write(1, [batch[0], batch[0]])
    assert Archive(tmp_path).path(1).read_bytes() == there
    assert len([*tmp_path.iterdir()]) == 1
    await sealed(world)
    mark = await store.audit.mark()
    ahead = ArchiveCursor(number=2, last="99999999999999-0")
    assert not await Trimming(store).trim(ArchiveCursor(), ahead, "99999999999999-0")
    assert await store.audit.mark() == mark
    assert await store.redis.xlen(store.keys.events) > 0


async def test_a_folder_that_redis_does_not_know_takes_and_gives_nothing(
    world: World, tmp_path: Path
) -> None:
    """Nothing is trimmed, and reading says what is missing."""
    await sealed(world)
    await archived(reopened(world, tmp_path / "ours"))
    await sealed(world)
    lost = reopened(world, tmp_path / "empty")
    with pytest.raises(ArchiveProblem, match="missing"):
        await archived(lost)
    with pytest.raises(ArchiveProblem):
        await lost.history(None, 9)
    assert any(
        "segment 1 cannot be read" in one
        for one in verify([x async for x in export(lost)]).problems
    )
    with pytest.raises(ArchiveProblem, match="GATEWAY_ARCHIVE"):
        await world.store.history(None, 9)
    whole = await lines_of(reopened(world, tmp_path / "ours"))
    assert verify(whole).problems == []


@pytest.mark.parametrize("kept", [0, 1])
async def test_a_redis_that_forgot_is_noticed(world: World, tmp_path: Path, kept: int) -> None:
    """Redis stands where it stood before the last segment, or at nothing: verify says so at once,
    and still when new events were sealed and archived. Nothing of the archive is overwritten."""
    store, keys = reopened(world, tmp_path), world.store.keys
    if kept:
        await sealed(world)
        await archived(store)
    saved = {key: await store.redis.dump(key) for key in (keys.events, keys.seals, keys.meta)}
    await sealed(world)
    await archived(store)
    assert await problems_of(store) == []
    whole = await lines_of(store)
    for key, value in saved.items():
        await store.redis.delete(key)
        if kept and value is not None:
            await store.redis.restore(key, 0, value)
    again = [line async for line in export(store)]
    assert "backwards" in verify(again).problems[-1]
    await store.check_schema()  # as a start does, where nothing is left
    await world.store.set_stopped(False, by="test")
    await sealed(world)
    assert any("backwards" in one for one in await problems_of(store))
    await archived(store)
    found = [line async for line in export(store)]
    assert any("backwards" in one for one in verify(found).problems)
    assert found[: len(whole)] == whole


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-20],
        lambda raw: raw[:40] + b"x" + raw[41:],
        lambda raw: gzip.compress(gzip.decompress(raw).replace(b"denied", b"failed")),
        lambda raw: b"",
    ],
)
async def test_a_damaged_segment_is_told_of(
    world: World, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """Cut, changed, written anew or emptied: reading refuses, and verify names it."""
    await sealed(world)
    await archived(reopened(world, tmp_path))
    path = Archive(tmp_path).path(1)
    path.write_bytes(damage(path.read_bytes()))
    store = reopened(world, tmp_path)
    with pytest.raises(ArchiveProblem, match="0000000001"):
        await store.history(None, 9)
    problems = await problems_of(store)
    assert any("segment 1 cannot be read" in one for one in problems)


async def test_retention_reaches_the_archive(world: World, tmp_path: Path) -> None:
    """Old segments go with the requests that they name; the rest verifies and is numbered on."""
    store = reopened(world, tmp_path)
    await sealed(world)
    await archived(store)
    await sealed(world, requests=1)
    waits = await world.submit()
    await sealed(world, requests=1)
    await archived(store)
    assert await forgotten(store) == 2
    assert Archive(tmp_path).numbers() == [2]
    found = verify([line async for line in export(store)])
    assert found.problems == []
    assert found.starts_at != GENESIS
    assert [event.type for event in await store.history(None, 1)] == ["submitted"]
    await world.core.requests.decide(click(waits))
    await sealed(world)
    assert await forgotten(store) > 0
    assert Archive(tmp_path).numbers() == []
    assert await store.history(None, 9) == []
    await sealed(world)
    assert await archived(store) == 1
    assert Archive(tmp_path).numbers() == [3]
    assert await problems_of(store) == []


@pytest.mark.parametrize("nth", range(1, 5))
async def test_retention_that_died_is_done_again(world: World, tmp_path: Path, nth: int) -> None:
    """At each of its steps: the next time, requests, events, seals and segments are gone."""
    await sealed(world)
    await archived(reopened(world, tmp_path))
    with pytest.raises(KilledGateway):
        await forgotten(reopened(world, tmp_path, DeadlyStep(nth)))
    store = reopened(world, tmp_path)
    await forgotten(store)
    assert await store.redis.zcard(store.keys.done) == 0
    assert await store.history(None, 9) == []
    assert Archive(tmp_path).numbers() == []


async def test_seals_end_with_their_events(world: World) -> None:
    """Without an archive too: retention leaves none over events that are gone."""
    await sealed(world)
    await forgotten(world.store)
    assert await world.store.redis.xlen(world.store.keys.seals) == 0
    await sealed(world)
    found = verify([line async for line in export(world.store)])
    assert (found.problems, found.seals) == ([], 1)


async def test_erasure_has_nothing_to_do_in_the_archive(world: World, tmp_path: Path) -> None:
    """Only events are archived, which never held what is erased; that it was erased is archived."""
    record = await world.submit(arguments={"iban": "DE02 1203"}, hint="for Jo")
    await world.core.requests.decide(click(record, Action.EDIT, arguments={"iban": "DE99"}))
    await sealed(world)
    store = reopened(world, tmp_path)
    await archived(store)
    await world.approvals.erase(record.id, by="ann")
    await Sealer(world.store, world.feed).seal_all()
    await another_millisecond(world)
    await archived(store)
    text = "".join(gzip.decompress(path.read_bytes()).decode() for path in tmp_path.iterdir())
    assert not any(gone in text for gone in ("DE02", "DE99", "for Jo"))
    assert '"erased"' in text
    assert await problems_of(store) == []


async def test_who_turned_the_kill_switch_on_is_known_from_the_archive(
    world: World, tmp_path: Path
) -> None:
    """However long ago that was."""
    await world.store.set_stopped(True, by="ann")
    await sealed(world, requests=0)
    store = reopened(world, tmp_path)
    await archived(store)
    found = await store.stopped_by()
    assert found is not None
    assert found[0] == "ann"


async def test_what_an_agents_requests_come_to_ends(world: World) -> None:
    """The counters of an agent that asks no more are gone a month later, not before a pause is."""
    record = await world.submit()
    load = world.store.keys.load("bot")
    month = 31 * 24 * 3600
    assert month - 100 < await world.store.redis.ttl(load) <= month
    await world.store.redis.hset(load, "until", (await world.store.now()) + 86_400_000)
    await world.core.requests.decide(click(record))
    assert month < await world.store.redis.ttl(load) <= month + 86_400


@pytest.mark.parametrize("more", [False, True])
async def test_who_was_away_while_events_were_archived_looks_anew(
    world: World, tmp_path: Path, more: bool
) -> None:
    """Behind what left Redis the feed has missed events: whoever listens is told to look, whether
    or not Redis has more of them, and it reads on from there."""
    feed = RedisFeed(world.blocking, world.store.keys, block_ms=50)
    place = (await world.events())[0].id
    await sealed(world)
    await archived(reopened(world, tmp_path))
    if more:
        await world.store.note("filler", data={})
    feed._all._cursor = place  # as it was left there
    missed: list[bool] = []
    told: list[AuditEvent] = []
    await feed._all._read(told.append, lambda: missed.append(True), quiet=False)
    assert (missed, len(told)) == ([True], int(more))
    assert await feed.find_ends() == ((await world.store.audit.mark()).last, feed._all._cursor)


async def test_an_export_with_a_hole_says_so_and_fails(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    server_url: str,
) -> None:
    """`gateway audit export` writes what there is and returns 1; `verify` names the segment."""
    keys = world.store.keys
    await sealed(world)
    await archived(reopened(world, tmp_path / keys.namespace))
    Archive(tmp_path / keys.namespace).path(1).unlink()
    monkeypatch.setenv("REDIS_URL", server_url)
    monkeypatch.setenv("GATEWAY_NAMESPACE", keys.namespace)
    monkeypatch.setenv("GATEWAY_ARCHIVE", str(tmp_path))
    path = str(tmp_path / "audit.jsonl")
    assert await asyncio.to_thread(command, ["audit", "export", path]) == 1
    assert await asyncio.to_thread(command, ["audit", "verify", path]) == 1
    assert "segment 1 cannot be read" in capsys.readouterr().out
