"""The log in JSON: each line about a request has its ids, so that one search finds them all."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from adapters.web.live_updates import News
from gateway.cli.serve import CountingHandler, log_handler
from gateway.domain.log_context import add_ids, log_about, log_also
from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.errors import Unreachable
from gateway.policy.verdict import Verdict
from gateway.ports.outgoing import DeliveryFailed
from gateway.server.settings import Settings
from gateway.wire.codec import plain
from tests.api.replica import ANN_TOKEN, Replica, made
from tests.api.test_grants import LOG, remembered
from tests.delivery.test_outbox import Office, route
from tests.waiting import moment
from tests.world import World, assembled, click, over_http, request

Lines = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Log as `gateway up` does with GATEWAY_LOG_JSON; yield what finds the lines of an event."""
    text = io.StringIO()
    logger = logging.getLogger("gateway")
    handler = log_handler(Settings(log_json=True), text)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)

    def of(event: str) -> list[dict[str, Any]]:
        written = map(json.loads, text.getvalue().splitlines())
        return [one for one in written if one.get("event") == event]

    yield of
    logger.removeHandler(handler)
    logger.setLevel(level)


async def test_calls_name_request_agent_and_caller(gate: Replica, lines: Lines) -> None:
    """Whoever calls, by whatever route: what is asked, decided and looked at."""
    request = made()
    await gate.submitted(request)
    await gate.decided(request.id)
    await gate.call("GET", f"/v1/requests/{request.id}")
    await gate.call("GET", "/v1/requests/prepare", token=ANN_TOKEN)
    asked, decided, looked, other = lines("call")
    for line in (asked, decided, looked):
        assert (line["request"], line["agent"]) == (request.id, "agent1")
        assert len(line["request_id"]) == 32
    assert "request" not in other
    assert decided["caller"] == "approver ann"


async def test_only_ids_of_the_path_are_logged(gate: Replica, lines: Lines) -> None:
    """No word of a caller's becomes a member of a line."""
    await gate.call("GET", "/v1/requests/no-such-id", token=ANN_TOKEN)
    await gate.call("GET", f"/v1/requests/{'f' * 31}G", token=ANN_TOKEN)
    for line in lines("call"):
        assert "request" not in line


async def test_a_grant_that_decides_is_named(gate: Replica, lines: Lines) -> None:
    """In the line of the call that it decided."""
    grant = await remembered(gate)
    again = await gate.submitted(made(**LOG))
    assert again.json["status"] == "approved"
    assert lines("call")[-1]["grant"] == grant
    assert [one["grant"] for one in lines("call") if "grant" in one] == [grant]


async def test_a_card_that_fails_names_its_request(world: World, lines: Lines) -> None:
    """The lines of a platform's refusal, and of an adapter that breaks."""
    await route(world)
    office = Office(world)
    record = await world.submit()
    await office.settle()
    office.adapter.failures = [DeliveryFailed("locked")]
    await office.api.requests.decide(click(record))
    await office.settle()
    (line,) = lines("update_failed")
    assert (line["request"], line["agent"]) == (record.id, "bot")
    assert lines("outbox_failed") == []


class Broken:
    """A decider that fails."""

    name = "broken"
    priority = 1

    async def decide(self, record: StoredRequest, route: Route) -> Verdict | None:
        """Fail."""
        raise RuntimeError("it broke")


@pytest.mark.parametrize("redis", [False, True])
async def test_a_decider_that_fails_names_the_request(
    server_url: str, namespace: str, lines: Lines, redis: bool
) -> None:
    """Over HTTP and over Redis."""
    asked = request()
    async with assembled(server_url, namespace, (Broken(),)) as world:
        if redis:
            await world.send("submit", plain(asked))
            await world.handled()
        else:
            await world.approvals.submit(asked, over_http())
    (line,) = lines("decider_failed")
    assert (line["request"], line["agent"]) == (asked.id, "bot")


async def test_a_message_that_fails_names_its_request(world: World, lines: Lines) -> None:
    """The reader of the streams tells which agent's message it could not handle, and of what."""

    async def handle(agent: str, entry: str, fields: dict[str, str]) -> None:
        await world.intake.handle(agent, entry, fields)
        raise RuntimeError("it broke")

    asked = request()
    await world.send("submit", plain(asked))
    async with world.ingress(handle).running():
        while not (found := lines("entry_failed")):
            await moment()
    assert (found[0]["request"], found[0]["agent"]) == (asked.id, "bot")


async def test_a_deadline_that_fails_names_its_request(world: World, lines: Lines) -> None:
    """The sweeper goes on, and says which request it could not end."""
    record = await world.submit()
    store = world.store
    await store.redis.zadd(store.keys.deadlines, {record.id: 1})
    await store.redis.hset(store.keys.record(record.id), "status", "odd")
    await world.sweeper.sweep()
    (line,) = lines("sweep_item_failed")
    assert line["request"] == record.id


def test_ids_end_with_their_block(lines: Lines) -> None:
    """What is added inside is gone outside; a member of the line wins; outside nothing is kept."""
    log = logging.getLogger("gateway.test")
    log_also(request="stray")
    with log_about(request="one", agent=""):
        with log_about(grant="g"):
            log_also(agent="bot")
            log.info("a", extra={"event": "in"})
        log.info("b", extra={"event": "in", "request": "own"})
    log.info("c", extra={"event": "in"})
    inner, outer, after = lines("in")
    assert {name: inner.get(name) for name in ("request", "agent", "grant")} == {
        "request": "one",
        "agent": "bot",
        "grant": "g",
    }
    assert outer["request"] == "own"
    assert not {"agent", "grant"} & outer.keys()
    assert not {"request", "agent", "grant"} & after.keys()


async def test_a_reader_for_all_has_the_ids_of_none(world: World, lines: Lines) -> None:
    """The feed starts with the first call that waits, and outlives it."""
    with log_about(request="a" * 32, agent="first"):
        async with world.feed.changes():
            pass
    await world.store.redis.xadd(world.store.keys.events, {"odd": "entry"})
    while not (found := lines("bad_event")):
        await moment()
    assert not {"request", "agent"} & found[0].keys()


async def test_a_reader_for_all_pages_has_the_ids_of_none() -> None:
    """It starts with the first page of the inbox."""
    seen: list[str | None] = []
    empty: Any = None

    class Watched:
        @asynccontextmanager
        async def changes(self) -> AsyncIterator[AsyncIterator[Any]]:
            record = logging.makeLogRecord({})
            add_ids(record)
            seen.append(record.__dict__.get("request_id"))
            if seen:
                raise Unreachable("it broke")
            yield empty

    feed: Any = Watched()
    with log_about(request_id="a" * 32):
        async with News(feed).subscribe():
            pass
    assert seen == [None]


def test_the_count_of_repeats_names_no_request(lines: Lines) -> None:
    """Each may be about another one."""
    log = logging.getLogger("gateway.test")
    for letter in "abc":
        with log_about(request=letter * 32):
            log.warning("it failed", extra={"event": "repeated"})
    for handler in logging.getLogger("gateway").handlers:
        if isinstance(handler, CountingHandler):
            handler.close()
    first, count = lines("repeated")
    assert first["request"] == "a" * 32
    assert "2 times more" in count["message"] and "request" not in count
