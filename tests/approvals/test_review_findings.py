"""Faults that a reviewer found, each with the test that would have found it."""

from __future__ import annotations

import asyncio

import pytest

from gateway.approvals.request_writer import Writer
from gateway.domain.health_and_metrics import Health, Tally
from gateway.domain.policy_document import Mode, PolicyDocument, Route
from gateway.domain.records import Query
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import InvalidRequest
from gateway.models import Action, Kind, Question, Status
from gateway.policy.grant_book import GrantBook
from gateway.server.background import NOT_FOLLOWING, HealthWatch
from gateway.stores import ingress
from gateway.stores.event_feed import RedisFeed
from gateway.stores.grants import RedisGrants
from gateway.stores.requests import RedisStore
from gateway.wire.canonical_json import MAX_BYTES, parse
from gateway.wire.codec import plain
from tests.waiting import moment
from tests.world import World, click, identity, over_http, policy, request

OTHER = "q" * 16


async def test_bytes_that_are_no_text_do_not_stop_the_other_agents(world: World) -> None:
    """One agent's garbage is refused; its neighbour in the shard is read."""
    await world.credentials.add_agent("bad")
    raw = world.store.redis
    async with world.ingress().running():
        await raw.execute_command("XADD", world.store.keys.ingress("bad"), "*", b"\xff", b"\xfe")
        asked = request()
        await world.send("submit", plain(asked))
        assert (await world.reply())["id"] == asked.id
        await world.until(lambda found: any(event.type == "refused" for event in found))


def test_hostile_quotes_are_scanned_in_linear_time() -> None:
    """A megabyte of them is refused in milliseconds; in quadratic time this would never end."""
    with pytest.raises(InvalidRequest):
        parse(b'"' + b'\\"' * (MAX_BYTES // 2 - 1))


async def test_a_removed_approvers_earlier_vote_does_not_count(world: World) -> None:
    """Quorum two, one voter removed: the other alone does not make two."""
    await world.route(Route(approvers=("ann", "bob"), quorum=2))
    record = await world.submit()
    await world.core.requests.decide(click(record))
    await policy(world.store, Route(approvers=("bob", "eve"), quorum=2))
    voted = await world.core.requests.decide(click(record, identity=identity("bob")))
    assert voted.status is Status.PENDING
    assert [vote.person for vote in voted.votes] == ["bob"]


async def test_no_rule_approves_what_does_not_allow_approval(world: World) -> None:
    """Auto-approve leaves it to people."""
    await world.route(Route(approvers=("ann",), mode=Mode.AUTO_APPROVE))
    record = await world.submit(allowed=(Action.DENY, Action.RESPOND))
    assert record.status is Status.PENDING


async def test_a_nonce_is_one_persons(world: World) -> None:
    """Another person's click with the same nonce is a click of its own."""
    await world.route(Route(approvers=("ann", "bob"), quorum=2))
    record = await world.submit()
    await world.core.requests.decide(click(record, nonce="same"))
    denied = await world.core.requests.decide(
        click(record, Action.DENY, nonce="same", identity=identity("bob"))
    )
    assert denied.status is Status.DENIED


async def test_a_second_consumer_that_syncs_is_warned_again(world: World) -> None:
    """Sync gives the last consumer its decision, with the warning."""
    record = await world.submit()
    await world.core.requests.decide(click(record))
    await world.approvals.consume(record.id, over_http(OTHER))
    await world.send("sync", {"ids": [record.id]}, process=OTHER)
    await world.handled()
    state = (await world.reply(process=OTHER))["state"]
    assert state["may_have_run"]
    assert state["decision"]["status"] == "approved"


async def test_consume_brings_secret_answers(world: World) -> None:
    """A question asked without waiting gives its secrets to whoever takes the answer."""
    fields = (Question(id="pw", text="?", secret=True),)
    asked = request(kind=Kind.QUESTION, questions=fields, allowed=(Action.ANSWER,))
    await world.approvals.submit(asked, over_http(), detached=True)
    record = await world.core.requests.get(asked.id)
    await world.core.requests.decide(click(record, Action.ANSWER, answers={"pw": "s3cret"}))
    await world.send("consume", {"id": asked.id})
    await world.handled()
    assert (await world.reply())["state"]["secrets"] == {"pw": "s3cret"}


async def test_a_partner_who_approves_an_edit_approves_an_edit(world: World) -> None:
    """Whoever runs it is told that the arguments are not its own."""
    await world.route(Route(approvers=("ann", "bob"), quorum=2))
    record = await world.submit()
    edited = await world.core.requests.decide(
        click(record, Action.EDIT, arguments={"command": "pwd"})
    )
    final = await world.core.requests.decide(click(edited, identity=identity("bob")))
    assert final.decision is not None
    assert (final.decision.action, final.decision.arguments) == (Action.EDIT, {"command": "pwd"})


@pytest.mark.parametrize(
    "schema",
    [{"type": "strnig"}, {"properties": {"command": {"multipleOf": 0}}}, {"properties": 5}],
)
async def test_a_broken_schema_refuses_the_edit(world: World, schema: dict[str, object]) -> None:
    """Whatever it does to the validator."""
    record = await world.submit(schema=schema, arguments={"command": 1})
    with pytest.raises(InvalidRequest):
        await world.core.requests.decide(click(record, Action.EDIT, arguments={"command": 2}))


async def test_an_odd_entry_among_the_events_does_not_blind_the_feed(world: World) -> None:
    """What is no event is skipped and logged; the next one wakes its watchers."""
    deep = {"t": "odd", "at": "1", "agent": "", "id": "", "rev": "1", "d": "[" * 100_000}
    for odd in ({"x": "y"}, deep):
        await world.store.redis.xadd(world.store.keys.events, odd)
    record = await world.submit()
    async with world.core.feed.watch(record.id) as wait:
        await world.core.requests.decide(click(record))
        assert await wait(5)


async def test_a_feed_that_cannot_read_says_so_and_goes_on_when_it_can(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something else lies where the events should: the feed is not ready until they are back."""
    feed = RedisFeed(world.blocking, world.store.keys, block_ms=100, patience=0.0)
    record = await world.submit()
    raw, events = world.store.redis, world.store.keys.events
    monkeypatch.setattr("gateway.server.background._FRESH_SECONDS", 0.0)
    watching = HealthWatch(Health(), world.store, (), {NOT_FOLLOWING: feed}, serves_api=True)

    async def troubles() -> tuple[str, ...]:
        return (await watching.look()).problems

    assert await troubles() == ()
    async with feed.running(), feed.watch(record.id) as wait, asyncio.timeout(40):
        await raw.rename(events, f"{events}:away")
        await raw.set(events, "no stream")
        while not (found := await troubles()):
            await moment()
        assert found == ("this replica cannot read events, so it does not learn of decisions",)
        await raw.rename(f"{events}:away", events)
        await world.core.requests.decide(click(record))
        while await troubles() or not await wait(1):
            pass


async def test_whoever_watches_everything_hears_of_everything(world: World) -> None:
    """One bell for all requests, which no burst can fill."""
    async with world.core.feed.watch(None) as wait:
        for _ in range(2):
            record = await world.submit()
            assert await wait(5)
        await world.core.requests.decide(click(record))
        assert await wait(5)
        assert not await wait(0.01)


async def test_a_gateway_that_stops_hands_its_shards_over_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one does not wait for a lease to run out, which would take an hour here."""
    monkeypatch.setattr(ingress, "REPLICA_LEASE_MS", 3_600_000)
    async with world.ingress().running():
        pass
    asked = request()
    async with world.ingress().running():
        await world.send("submit", plain(asked))
        async with asyncio.timeout(40):
            assert (await world.reply())["id"] == asked.id


async def test_a_new_approver_is_known_at_the_first_click(world: World) -> None:
    """A refusal is checked against the policy in force before it is given."""
    record = await world.submit()
    await policy(world.store, Route(approvers=("eve",)))
    assert (await world.core.requests.decide(click(record, identity=identity("eve")))).final


async def test_a_session_in_which_something_waits_is_not_idle(world: World) -> None:
    """However long ago it was asked: the request waits on, and so does what ends with the session.
    Once it is answered the session has its whole idle time before it."""
    record = await world.submit(session="old", timeout=0)
    await world.store.redis.zadd(world.store.keys.sessions, {"bot old": 1})
    await world.sweeper.sweep()
    assert not (await world.core.requests.get(record.id)).final
    [session] = await world.core.operator.list_sessions("bot")
    assert session.last_seen >= record.created
    await world.core.requests.decide(click(record))
    await world.sweeper.sweep()
    assert await world.core.operator.list_sessions("bot") == [session]


async def test_an_idle_session_ends_and_takes_no_request_along(world: World) -> None:
    """Neither one of another session nor an answer that was given."""
    await world.core.requests.decide(click(await world.submit(session="old")))
    other = await world.submit(session="new")
    await world.store.redis.zadd(world.store.keys.sessions, {"bot old": 1})
    await world.sweeper.sweep()
    assert [one.name for one in await world.core.operator.list_sessions("bot")] == ["new"]
    assert not (await world.core.requests.get(other.id)).final
    ended = [one.data for one in await world.events() if one.type == "session_ended"]
    assert ended == [{"session": "old", "cancelled": []}]


class Slow(RedisStore):
    """A store whose first answer about the policy is long on its way."""

    def __init__(self, store: RedisStore) -> None:
        super().__init__(store.redis, store.keys)
        self.read, self.arrived = asyncio.Event(), asyncio.Event()

    async def policy(self) -> PolicyDocument:
        found = await super().policy()
        if not self.read.is_set():
            self.read.set()
            await self.arrived.wait()
        return found


async def test_a_policy_that_was_replaced_while_it_was_read_is_read_again(world: World) -> None:
    """An answer from before it was forgotten is not what is known from then on."""
    store, clock = Slow(world.store), SystemClock()
    writer = Writer(store, clock, None, GrantBook(RedisGrants(world.store), clock), tally=Tally())
    reading = asyncio.create_task(writer.policy())
    await store.read.wait()
    await policy(world.store, Route(approvers=("eve",)))
    writer.forget_policy()
    store.arrived.set()
    assert (await reading).routes == (await writer.policy()).routes == (Route(approvers=("eve",)),)


async def test_what_is_corrupt_does_not_stop_the_clock_for_others(world: World) -> None:
    """The sweep goes on past what it cannot read, a request or a remembered decision."""
    broken, good = await world.submit(timeout=0.001), await world.submit(timeout=0.001)
    redis, keys = world.store.redis, world.store.keys
    await redis.hset(keys.record(broken.id), "body", "{")
    await redis.hset(keys.grant("0" * 32), "body", "{")
    await redis.zadd(keys.grants_due, {"0" * 32: 1})
    while not (await world.core.requests.get(good.id)).final:
        await world.sweeper.sweep()


@pytest.mark.parametrize(
    "spoilt", [{"body": "{"}, {"status": "odd"}, {"risk": "5"}, {"rev": ""}, {"votes": "[7]"}]
)
async def test_what_is_corrupt_hides_no_other_request(
    world: World, spoilt: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Lists go on without it, agents hear of their others, and the log names it."""
    broken, good = await world.submit(session="s"), await world.submit(session="s")
    await world.store.redis.hset(world.store.keys.record(broken.id), mapping=spoilt)
    assert [one.id for one in (await world.core.requests.page(Query())).items] == [good.id]
    seen = await world.approvals.sync([broken.id, good.id], over_http())
    assert [state.id for state in seen] == [good.id]
    assert await world.core.sessions.end("s", over_http()) == [good.id]
    [first, *_] = [one for one in caplog.records if "cannot read" in one.message]
    assert broken.id in first.message
