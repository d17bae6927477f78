"""The audit: sealed, exported, verified offline, and what it keeps."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.audit import GENESIS, event_line, seal_events, seal_line, verify
from gateway.domain.records import AuditEvent
from gateway.errors import Conflict
from gateway.models import Action
from gateway.stores.audit import Sealer, export
from gateway.stores.retention import Retention
from tests.clocks import StandingClock
from tests.waiting import moment
from tests.world import World, click

FAR_OFF = 4_102_444_800_000  # when everything is old
LATER_STILL = FAR_OFF + 1000 * 86_400_000


async def exported(world: World) -> list[str]:
    """Seal everything and return the export."""
    await Sealer(world.store, world.feed).seal_all()
    return [line async for line in export(world.store)]


async def lived(world: World) -> list[str]:
    """Let some requests live and end, with seals in between; return the export."""
    for number in range(6):
        record = await world.submit(arguments={"n": number})
        if number % 3:
            action = Action.APPROVE if number % 2 else Action.DENY
            await world.core.requests.decide(click(record, action))
        if number == 2:
            await Sealer(world.store, world.feed).seal_all()
    return await exported(world)


async def test_an_export_verifies_and_holds_every_transition(world: World) -> None:
    """Events in order, two seals, nothing unsealed, nothing wrong."""
    found = verify(await lived(world))
    assert found.problems == []
    assert (found.seals, found.unsealed, found.starts_at) == (2, 0, GENESIS)
    assert found.events == len(await world.events())


async def test_sealing_ends_though_events_keep_coming(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One seal over what there is, and the rest is left for the next: no seal for each event."""
    history = world.store.history

    async def busy(after: str | None, limit: int) -> list[AuditEvent]:
        found = await history(after, limit)
        await world.store.note("filler", data={})
        return found

    monkeypatch.setattr(world.store, "history", busy)
    assert await Sealer(world.store, world.feed).seal_all() == 1
    assert await Sealer(world.store, world.feed).seal_all() == 1


async def test_a_burst_is_sealed_at_once(world: World) -> None:
    """Whatever happened while the sealer gathered: it falls behind no stream."""
    for _ in range(450):
        await world.store.note("filler", data={})
    assert await Sealer(world.store, world.feed).seal_all() == 3


Change = Callable[[list[str]], list[str]]


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0].replace('"policy_applied"', '"policy_changed"'), *lines[1:]],
        lambda lines: lines[1:],
        lambda lines: [*lines[:3], *lines[4:]],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines[:2], lines[1], *lines[2:]],
        lambda lines: [*(one for one in lines[:-1] if '"seal"' not in one[:8]), lines[-1]],
        lambda lines: [*lines[:-1], lines[-1].replace('"count": ', '"count": 1')],
        lambda lines: [*lines, "{}"],
        lambda lines: [*lines, "not json"],
    ],
)
async def test_what_was_tampered_with_is_found(world: World, change: Change) -> None:
    """Changed, removed, reordered, doubled events; removed and forged seals; foreign lines."""
    lines = await lived(world)
    assert not verify(change(lines)).ok


def _chain(count: int) -> list[str]:
    events = [
        AuditEvent(id=f"{n}-0", type="refused", at=n, data={"n": n}) for n in range(1, count + 1)
    ]
    return [*map(event_line, events), seal_line(seal_events(events, GENESIS))]


@given(st.integers(2, 12), st.data())
def test_no_edit_of_a_sealed_export_goes_unnoticed(count: int, data: st.DataObject) -> None:
    """Whatever single line is dropped, swapped or altered: it does not verify."""
    lines = _chain(count)
    assert verify(lines).ok
    at = data.draw(st.integers(0, count - 1))
    body = json.loads(lines[at])
    body["event"]["at"] += data.draw(st.integers(1, 9))
    altered = [*lines[:at], json.dumps(body), *lines[at + 1 :]]
    assert not verify(altered).ok
    assert not verify(lines[:at] + lines[at + 1 :]).ok


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        (["submitted", "approved", "denied"], "second time"),
        (["submitted", "approved"], "names no decider"),
        (["submitted", "submitted"], "is repeated"),
    ],
)
def test_impossible_histories_are_named(types: list[str], problem: str) -> None:
    """Two endings, an approval by nobody, a revision that comes twice."""
    same = problem == "is repeated"
    events = [
        AuditEvent(
            id=f"{n}-0",
            type=kind,
            at=n,
            request_id="r",
            revision=1 if same else n,
            data={} if problem == "names no decider" else {"decided_by": {"kind": "person"}},
        )
        for n, kind in enumerate(types, start=1)
    ]
    assert any(problem in found for found in verify(map(event_line, events)).problems)


async def test_many_replicas_make_one_chain(world: World) -> None:
    """They race for each batch; the chain has no fork."""
    for _ in range(5):
        await world.submit()
    sealers = [Sealer(world.store, world.feed) for _ in range(4)]
    await asyncio.gather(*(sealer.seal_all() for sealer in sealers))
    found = verify(await exported(world))
    assert (found.problems, found.unsealed) == ([], 0)


async def test_the_sealer_seals_what_happens_while_it_runs(world: World) -> None:
    """Also what happened before it began."""
    await world.submit()
    task = asyncio.create_task(Sealer(world.store, world.feed).run())
    while not await world.store.redis.xlen(world.store.keys.seals):
        await moment()
    task.cancel()


async def another_millisecond(world: World) -> None:
    """Return when the server's clock shows another millisecond than now."""
    began = (await world.store.redis.time())[1] // 1000
    while (await world.store.redis.time())[1] // 1000 == began:
        pass


async def test_retention_drops_the_old_together_with_their_bodies(world: World) -> None:
    """What remains still verifies; a request that waits keeps its events and everything after."""
    ended = await world.submit()
    await world.store.redis.xadd(world.store.keys.dead, {"agent": "bot"})
    await world.core.requests.decide(click(ended))
    await another_millisecond(world)
    await world.core.requests.decide(click(await world.submit()))
    await exported(world)
    await another_millisecond(world)
    waits = await world.submit()
    await world.core.requests.decide(click(await world.submit()))
    await exported(world)
    assert await Retention(world.store, StandingClock(FAR_OFF), days=1).trim() == 1
    assert await world.store.load(ended.id) is None
    assert await world.store.redis.xlen(world.store.keys.dead) == 0
    assert await world.store.load(waits.id) is not None
    found = verify(await exported(world))
    assert found.problems == []
    assert found.starts_at != GENESIS
    assert any(event.request_id == waits.id for event in await world.events())


async def test_retention_never_drops_what_is_not_sealed(world: World) -> None:
    """However old it is."""
    record = await world.submit()
    await world.core.requests.decide(click(record))
    before = len(await world.events())
    assert await Retention(world.store, StandingClock(LATER_STILL), days=1).trim() == 0
    assert len(await world.events()) == before


async def test_erasure_removes_the_payload_and_is_itself_an_event(world: World) -> None:
    """Digest, decision and chain stay; the arguments are nowhere any more."""
    record = await world.submit(arguments={"iban": "DE02 1203"}, hint="for Jo", payload={"k": 1})
    with pytest.raises(Conflict):
        await world.approvals.erase(record.id, by="ann")
    await world.core.requests.decide(
        click(record, Action.EDIT, arguments={"iban": "DE99"}, note="odd", message="ok")
    )
    await world.approvals.erase(record.id, by="ann")
    raw = await world.store.redis.hgetall(world.store.keys.record(record.id))
    for gone in ("DE02", "DE99", "for Jo", '"k"', "odd"):
        assert gone not in json.dumps(raw)
    assert "size" not in raw, "not even how long it was"
    found = await world.core.requests.get(record.id)
    assert (found.erased, found.request.digest) == (True, record.request.digest)
    assert found.decision is not None
    assert found.decision.decided_by.name == "ann"
    assert (await world.events())[-1].type == "erased"
    assert verify(await exported(world)).ok
    assert (await world.approvals.erase(record.id, by="ann")).revision == found.revision
