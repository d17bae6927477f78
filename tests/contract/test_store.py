"""One contract for the store, over fakeredis and over the real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import fakeredis
import pytest

from gateway.approvals.transitions import close_record
from gateway.domain.policy_document import Budget, PolicyDocument, Route
from gateway.domain.records import SCHEMA_VERSION, SYSTEM, Query, RequestOutcome, StoredRequest
from gateway.domain.store import ChangeKind, MessageContext, Transition, WriteResult
from gateway.errors import Conflict
from gateway.models import DecidedBy, DeciderKind, Status
from gateway.policy.grants.grant import Effect, Grant, Match, Shape
from gateway.stores.connect import connect
from gateway.stores.grants import RedisGrants
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from tests.unit.test_transitions import record
from tests.world import AGENT, PROCESS, over_http, request

ROOM: dict[str, Any] = {"budget": Budget(), "posts": False}


@pytest.fixture(params=["fakeredis", "server"])
async def store(
    request: pytest.FixtureRequest, server_url: str, namespace: str
) -> AsyncIterator[RedisStore]:
    """Yield a store on each engine."""
    if request.param == "server":
        client = connect(server_url)
    else:
        client = fakeredis.FakeAsyncRedis(decode_responses=True, version=(7,))
    made = RedisStore(client, Keys(namespace))
    await made.check_schema()
    yield made
    await client.aclose()


def pending(**changes: object) -> StoredRequest:
    """Return a pending record that a process waits for."""
    asked = request(**changes)
    return record(request=asked, process=PROCESS, attached=(PROCESS,))


async def create(
    store: RedisStore, made: StoredRequest, *, timeout_ms: int = 60_000
) -> StoredRequest:
    """Create a record, as submitted over HTTP."""
    outcome, stored = await store.create(
        made, over_http(), generation=0, data={}, timeout_ms=timeout_ms, **ROOM
    )
    assert outcome == WriteResult.OK
    return stored


async def create_under(store: RedisStore, generation: int) -> StoredRequest:
    """Create a record under a generation of the policy."""
    outcome, stored = await store.create(
        pending(), over_http(), generation=generation, data={}, timeout_ms=60_000, **ROOM
    )
    assert outcome == WriteResult.OK
    return stored


def denied(
    before: StoredRequest, by: DecidedBy = SYSTEM, status: Status = Status.DENIED
) -> Transition:
    """Return a transition that denies, or ends otherwise."""
    after = close_record(
        before,
        RequestOutcome(status=status, reason="rule", by=by),  # type: ignore[arg-type]
        revision=before.revision + 1,
        now=1,
        sign=lambda made: made,
    )
    return Transition(before, after, "denied", ChangeKind.STEP)


async def test_what_is_created_is_loaded(store: RedisStore) -> None:
    """Every member of a record comes back as it was stored."""
    stored = await create(store, pending(hint="why", timeout=3.0))
    assert await store.load(stored.id) == stored
    assert await store.load_many([stored.id, "0" * 32]) == [stored, None]
    assert stored.deadline - stored.created == 60_000


async def test_no_secret_stands_in_an_event(store: RedisStore) -> None:
    """Whoever writes it down, and however deep it stands: the event keeps a mask."""
    said = {"why": "--password=hunter2hunter2 was refused", "more": [{"token": "hunter2hunter2"}]}
    await store.note("refused", agent=AGENT, data=said)
    (event,) = await store.history(None, 10)
    assert "hunter2" not in str(event.data)
    assert "secret of" in str(event.data["why"])


async def test_an_id_is_taken_once(store: RedisStore) -> None:
    """A second creation changes nothing and writes no event."""
    stored = await create(store, pending())
    outcome, _ = await store.create(
        pending(id=stored.id, tool="other"),
        over_http(),
        generation=0,
        data={},
        timeout_ms=1,
        **ROOM,
    )
    assert outcome == WriteResult.EXISTS
    assert await store.load(stored.id) == stored
    assert len(await store.history(None, 10)) == 1


async def test_a_change_needs_the_current_revision(store: RedisStore) -> None:
    """Of two changes made from the same picture one wins, and the loser writes nothing."""
    stored = await create(store, pending())
    assert await store.change(denied(stored)) == WriteResult.OK
    assert await store.change(denied(stored)) == WriteResult.STALE
    found = await store.load(stored.id)
    assert found is not None
    assert (found.status, found.revision) == (Status.DENIED, 2)
    assert [event.type for event in await store.history(None, 10)] == ["submitted", "denied"]


async def test_a_record_made_anew_under_an_old_id_is_not_the_one_that_was_seen(
    store: RedisStore,
) -> None:
    """What was remembered of a record that is gone changes none that took its id."""
    seen = await create(store, pending())
    await store.redis.delete(store.keys.record(seen.id))
    while await store.redis.time() <= (seen.created // 1000, seen.created % 1000 * 1000 + 999):
        pass
    anew = await create(store, pending(id=seen.id, tool="other"))
    assert await store.change(denied(seen)) == WriteResult.STALE
    assert await store.load(seen.id) == anew


async def test_a_change_of_nothing_is_gone(store: RedisStore) -> None:
    """A record that does not exist is not brought to life by a change."""
    stray = replace(pending(), created=1, deadline=2)
    assert await store.change(denied(stray)) == WriteResult.GONE
    assert await store.load(stray.id) is None


async def test_an_ending_is_pushed_to_a_process_that_listens_and_to_no_other(
    store: RedisStore,
) -> None:
    """A stream that expired is not made anew, without an end, for a process that may be gone."""
    stored, replies = await create(store, pending()), store.keys.replies(AGENT, PROCESS)
    assert await store.change(denied(stored)) == WriteResult.OK
    assert not await store.redis.exists(replies)
    await store.redis.xadd(replies, {"re": "sync"}, id="0-1")
    other = await create(store, pending())
    assert await store.change(denied(other)) == WriteResult.OK
    [_, (place, pushed)] = await store.redis.xrange(replies)
    assert (place, pushed["re"], pushed["id"]) == ("0-2", "push", other.id)


async def test_a_retried_change_is_told_that_it_won(store: RedisStore) -> None:
    """The same nonce again is a replay, not a conflict."""
    stored = await create(store, pending())
    change = denied(stored)
    change = change._replace(after=replace(change.after, nonces=("n1",)))
    assert await store.change(change) == WriteResult.OK
    assert await store.change(change) == WriteResult.REPLAY


async def test_several_changes_are_made_together_or_not_at_all(store: RedisStore) -> None:
    """One that is refused, wherever it stands, keeps all the others from being written."""
    first, second, third = [await create(store, pending()) for _ in range(3)]
    assert await store.change(denied(second)) == WriteResult.OK
    known = await store.history(None, 10)
    for order in ((second, first, third), (first, third, second), (first, second, third)):
        changes = [denied(one) for one in order]
        assert await store.change_all(changes) == (WriteResult.STALE, second.id)
    assert await store.change_all([denied(first), denied(first)]) == (WriteResult.STALE, first.id)
    assert await store.history(None, 10) == known
    assert await store.load_many([first.id, third.id]) == [first, third]
    assert await store.change_all([denied(first), denied(third)]) == (WriteResult.OK, "")
    found = await store.load_many([first.id, second.id, third.id])
    assert [one and (one.status, one.revision) for one in found] == [(Status.DENIED, 2)] * 3
    events = await store.history(None, 10)
    assert [(one.type, one.request_id) for one in events[4:]] == [
        ("denied", first.id),
        ("denied", third.id),
    ]
    assert await store.pending_of(AGENT) == []


async def test_a_grant_is_used_by_one_of_several_changes_at_most(store: RedisStore) -> None:
    """Uses are counted exactly: a second one was checked before the first was counted."""
    grants = RedisGrants(store)
    grant = Grant(
        id="9" * 32,
        effect=Effect.DENY,
        agent=AGENT,
        match=Match(shape=Shape.TOOL, tool="shell"),
        made_by="ann",
        made_at=1,
        max_uses=1,
        words="the tool",
    )
    assert await grants.add(grant) == WriteResult.OK
    by = DecidedBy(kind=DeciderKind.GRANT, name=grant.id)
    records = [await create_under(store, 1) for _ in range(2)]
    changes = [denied(one, by=by) for one in records]
    assert await store.change_all(changes) == (WriteResult.SPENT, records[1].id)
    assert await store.change_all(changes[:1]) == (WriteResult.OK, "")
    assert await store.change_all(changes[1:]) == (WriteResult.SPENT, records[1].id)


async def test_a_grant_that_was_taken_back_decides_nothing(store: RedisStore) -> None:
    """The script itself refuses it, under whatever policy it was found."""
    grants = RedisGrants(store)
    match = Match(shape=Shape.TOOL, tool="shell")
    grant = Grant(
        id="8" * 32, effect=Effect.DENY, agent=AGENT, match=match, made_by="ann", made_at=1
    )
    assert await grants.add(grant) == WriteResult.OK
    assert await grants.end(grant, why="revoked", by="ann")
    record = await create_under(store, await store.generation())
    by = DecidedBy(kind=DeciderKind.GRANT, name=grant.id)
    assert await store.change_all([denied(record, by=by)]) == (WriteResult.SPENT, record.id)


async def test_decisions_end_at_the_deadline_and_expiry_begins_there(store: RedisStore) -> None:
    """The server's clock refuses late decisions and early expiries."""
    stored = await create(store, pending())
    assert await store.change(denied(stored)._replace(kind=ChangeKind.EXPIRY)) == WriteResult.EARLY
    short = await create(store, pending(), timeout_ms=1)
    while not (await store.due(idle_ms=10**9, limit=10)).expired:
        pass
    assert await store.change(denied(short)) == WriteResult.LATE
    assert await store.change(denied(short)._replace(kind=ChangeKind.EXPIRY)) == WriteResult.OK
    assert (await store.due(idle_ms=10**9, limit=10)).expired == ()


async def test_a_request_that_arrives_after_its_time_is_late(store: RedisStore) -> None:
    """An entry written long ago has used up its time, whenever it is read."""
    old = MessageContext(agent=AGENT, process=PROCESS, arrived_ms=1)
    outcome, _ = await store.create(pending(), old, generation=0, data={}, timeout_ms=1000, **ROOM)
    assert outcome == WriteResult.LATE


async def test_an_arrival_in_the_future_gives_no_extra_time(store: RedisStore) -> None:
    """An agent can choose its entry's id, so only the earlier time counts."""
    made = pending()
    far = MessageContext(agent=AGENT, process=PROCESS, arrived_ms=10**14)
    outcome, stored = await store.create(made, far, generation=0, data={}, timeout_ms=1000, **ROOM)
    assert outcome == WriteResult.OK
    assert stored.deadline == stored.created + 1000


async def test_the_kill_switch_stops_what_would_open_or_approve(store: RedisStore) -> None:
    """While it is on nothing begins, and denials still pass."""
    stored = await create(store, pending())
    await store.set_stopped(True, by="test")
    outcome, _ = await store.create(
        pending(), over_http(), generation=0, data={}, timeout_ms=9, **ROOM
    )
    assert outcome == WriteResult.STOPPED
    assert await store.change(denied(stored)._replace(kind=ChangeKind.USE)) == WriteResult.STOPPED
    assert await store.change(denied(stored)) == WriteResult.OK
    await store.set_stopped(False, by="test")
    await create(store, pending())


OK, LATE, EARLY = WriteResult.OK, WriteResult.LATE, WriteResult.EARLY
STOPPED, AGAIN = WriteResult.STOPPED, WriteResult.AGAIN
# By the kind of a change and how it leaves the request: what the store says in time, once the
# deadline is over, with the kill switch on, and under another policy.
PROTECTED = [
    (ChangeKind.DECISION, Status.APPROVED, (OK, LATE, STOPPED, AGAIN)),
    (ChangeKind.DECISION, Status.PENDING, (OK, LATE, STOPPED, AGAIN)),
    (ChangeKind.DECISION, Status.DENIED, (OK, LATE, OK, AGAIN)),
    (ChangeKind.USE, Status.APPROVED, (OK, LATE, STOPPED, OK)),
    (ChangeKind.STEP, Status.PENDING, (OK, LATE, OK, OK)),
    (ChangeKind.EXPIRY, Status.EXPIRED, (EARLY, OK, EARLY, EARLY)),
    (ChangeKind.FACT, Status.CANCELLED, (OK, OK, OK, OK)),
]


@pytest.mark.parametrize(("kind", "status", "answers"), PROTECTED)
async def test_the_kind_of_a_change_says_what_protects_it(
    store: RedisStore, kind: ChangeKind, status: Status, answers: tuple[WriteResult, ...]
) -> None:
    """Deadline, kill switch and policy follow from the kind, whoever makes the change."""

    async def write(stored: StoredRequest) -> WriteResult:
        change = denied(stored, status=status)
        if status is Status.PENDING:
            change = change._replace(after=replace(stored, revision=2, reminders=1))
        return await store.change(change._replace(kind=kind, generation=0))

    in_time = await write(await create(store, pending()))
    short = await create(store, pending(), timeout_ms=1)
    while not (await store.due(idle_ms=10**9, limit=10)).expired:
        pass
    late = await write(short)
    waiting = await create(store, pending())
    await store.set_stopped(True, by="test")
    stopped = await write(waiting)
    await store.set_stopped(False, by="test")
    waiting = await create(store, pending())
    await store.apply(PolicyDocument(routes=(Route(),)), by="test")
    assert (in_time, late, stopped, await write(waiting)) == answers


def test_a_decision_names_the_policy_that_it_was_made_under() -> None:
    """A change that says nothing of itself is a decision, and is never written unguarded."""
    record = pending()
    with pytest.raises(ValueError, match="needs the generation"):
        Transition(record, record, "approved").guards()


async def test_what_was_decided_under_an_older_policy_is_refused(store: RedisStore) -> None:
    """A removed approver cannot win a race: the script compares generations."""
    stored = await create(store, pending())
    assert await store.apply(PolicyDocument(routes=(Route(),)), by="test") == 1
    outcome, _ = await store.create(
        pending(), over_http(), generation=0, data={}, timeout_ms=9, **ROOM
    )
    assert outcome == WriteResult.AGAIN
    decided = denied(stored)._replace(kind=ChangeKind.DECISION)
    assert await store.change(decided._replace(generation=0)) == WriteResult.AGAIN
    assert await store.change(decided._replace(generation=1)) == WriteResult.OK
    with pytest.raises(Conflict):
        await store.apply(PolicyDocument(), by="test")
    assert (await store.policy()).routes == (Route(),)


async def test_attach_sees_only_the_agents_own(store: RedisStore) -> None:
    """Another agent's id is as unknown as one that does not exist."""
    stored = await create(store, pending())
    mine, other = over_http(), over_http(agent="other")
    assert await store.attach([stored.id, "0" * 32], mine) == [stored.id]
    assert await store.attach([stored.id], other) == []


async def test_a_lapsed_process_names_what_it_waited_for_once(store: RedisStore) -> None:
    """A lease that still runs is not lapsed; one that ran out is, and only once."""
    stored = await create(store, pending())
    assert await store.expire_process(AGENT, PROCESS) == []
    await store.redis.zadd(store.keys.processes, {f"{AGENT} {PROCESS}": 1})
    assert (await store.due(idle_ms=10**9, limit=9)).lapsed == ((AGENT, PROCESS),)
    assert await store.expire_process(AGENT, PROCESS) == [stored.id]
    assert await store.expire_process(AGENT, PROCESS) == []


async def test_a_process_that_waits_for_many_lapses_whole(store: RedisStore) -> None:
    """Told in bounded steps; the ended ones are left as they are."""
    few = RedisStore(store.redis, store.keys, at_once=2)
    made = [await create(store, pending()) for _ in range(5)]
    assert await store.change(denied(made[0])) == WriteResult.OK
    await store.redis.zadd(store.keys.processes, {f"{AGENT} {PROCESS}": 1})
    assert sorted(await few.expire_process(AGENT, PROCESS)) == sorted(one.id for one in made[1:])
    assert [one and one.waiting for one in await store.load_many([m.id for m in made])] == [
        True,
        *[False] * 4,
    ]
    assert (await store.due(idle_ms=10**9, limit=9)).lapsed == ()


async def test_pages_cover_everything_once_while_requests_end(store: RedisStore) -> None:
    """Paging neither skips nor repeats a request that waits, though others end meanwhile."""
    made = [await create(store, pending()) for _ in range(25)]
    first = await store.page(Query(limit=10))
    for gone in (first.items[3], first.items[9]):
        assert await store.change(denied(gone)) == WriteResult.OK
    seen, cursor = [item.id for item in first.items], first.next
    while cursor is not None:
        page = await store.page(Query(limit=10, after=cursor))
        seen += [item.id for item in page.items]
        cursor = page.next
    assert sorted(seen) == sorted(item.id for item in made)
    history = await store.page(Query(final=True))
    assert {item.id for item in history.items} == {first.items[3].id, first.items[9].id}


async def test_pages_by_deadline_skip_and_repeat_nothing(store: RedisStore) -> None:
    """The soonest first, each once, though the very one that a cursor names ends meanwhile; an
    approval that nobody has taken yet stands among the deadlines, and waits no longer."""
    times = [9, 3, 7, 1, 5, 3, 3]
    made = [await create(store, pending(), timeout_ms=60_000 * one) for one in times]
    order = [one.id for one in sorted(made, key=lambda one: (one.deadline, one.id))]
    page = await store.page(Query(soonest=True, limit=3))
    assert [one.id for one in page.items] == order[:3]
    assert await store.change(denied(page.items[2])) == WriteResult.OK
    rest = await store.page(Query(soonest=True, limit=3, after=page.next))
    assert [one.id for one in rest.items] == order[3:6]
    last = await store.page(Query(soonest=True, limit=3, after=rest.next))
    assert ([one.id for one in last.items], last.next) == (order[6:], None)
    await store.redis.zadd(store.keys.deadlines, {order[2]: 1})
    again = await store.page(Query(soonest=True))
    assert [one.id for one in again.items] == order[:2] + order[3:]


async def test_pages_go_on_by_the_servers_clock(store: RedisStore) -> None:
    """A request that leaves the list between two pages costs none of its neighbours, however wrong
    the gateway's own clock was when it decided."""
    for _ in range(6):
        await store.change(denied(await create(store, pending())))
    whole = [one.id for one in (await store.page(Query(final=True))).items]
    first = await store.page(Query(final=True, limit=3))
    await store.redis.zrem(store.keys.done, whole[2])
    rest = await store.page(Query(final=True, after=first.next))
    assert [one.id for one in (*first.items, *rest.items)] == whole


async def test_pages_are_narrowed(store: RedisStore) -> None:
    """By agent, session and status."""
    mine = await create(store, pending(session="a"))
    other = await create(store, pending(session="b"))
    assert [one.id for one in (await store.page(Query(session="a"))).items] == [mine.id]
    assert (await store.page(Query(agent="nobody"))).items == ()
    await store.change(denied(other))
    assert (await store.page(Query(final=True, status=Status.APPROVED))).items == ()
    assert len((await store.page(Query(final=True, status=Status.DENIED))).items) == 1


async def test_sessions_begin_with_a_request_and_end(store: RedisStore) -> None:
    """Listed until they end; idle ones become due."""
    await create(store, pending(session="s1"))
    assert [(one.agent, one.name) for one in await store.sessions(AGENT)] == [(AGENT, "s1")]
    assert await store.sessions("other") == []
    assert (await store.due(idle_ms=-1000, limit=9)).idle == ((AGENT, "s1"),)
    await store.redis.zadd(store.keys.sessions, {f"{AGENT} s1": 1})
    await store.touch_session(AGENT, "s1")
    assert (await store.due(idle_ms=60_000, limit=9)).idle == ()
    assert await store.end_session(AGENT, "s1")
    assert not await store.end_session(AGENT, "s1")
    await store.touch_session(AGENT, "s1")
    assert await store.sessions(AGENT) == []


async def test_fields_of_a_newer_version_are_kept(store: RedisStore) -> None:
    """An older gateway ignores what it does not know, and loses none of it."""
    stored = await create(store, pending())
    key = store.keys.record(stored.id)
    await store.redis.hset(key, "newer", "x")
    assert await store.load(stored.id) == stored
    assert await store.change(denied(stored)) == WriteResult.OK
    assert await store.redis.hget(key, "newer") == "x"


@pytest.mark.parametrize("other", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
async def test_another_schema_is_refused(store: RedisStore, other: int) -> None:
    """A gateway does not write into a namespace that it cannot read, and says why."""
    await store.check_schema()
    await store.redis.hset(store.keys.meta, "schema", other)
    with pytest.raises(Conflict, match=f"has schema {other}, and .* reads only {SCHEMA_VERSION}:"):
        await store.check_schema()
    assert int(await store.redis.hget(store.keys.meta, "schema")) == other


async def test_a_newer_version_that_marks_a_new_namespace_first_is_seen(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions start at once, and the newer one marks it between our look and our mark."""
    await store.redis.delete(store.keys.meta)
    look = store.redis.hget

    async def outrun(key: str, name: str) -> Any:
        found = await look(key, name)
        await store.redis.hsetnx(key, name, 99)
        return found

    monkeypatch.setattr(store.redis, "hget", outrun)
    with pytest.raises(Conflict, match="99"):
        await store.check_schema()
