"""Entries that no client of ours writes: refused with a reason, audited, and in nobody's way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.models import new_id
from gateway.stores.audit import Sealer, export
from gateway.stores.connect import connect
from gateway.wire.codec import plain
from tests.faults.invariants import problems
from tests.faults.test_cursors import FAR_AHEAD, GREATEST
from tests.world import AGENT, PROCESS, World, click, request

Fields = dict[str | bytes, Any]


def submit(**arguments: Any) -> Fields:
    """Return the fields of a submit, right but for what the arguments hold."""
    return {"verb": "submit", "body": json.dumps(plain(request()) | {"arguments": arguments})}


def nested(depth: int) -> Any:
    """Return a list in a list in a list."""
    return json.loads("[" * depth + "]" * depth)


VERBS = "the verb must be one of submit, sync, cancel, consume, report, fetch"
BAD: dict[str, tuple[Fields, str]] = {
    "no body": ({"verb": "submit"}, "id is missing"),
    "2 MB": (submit(text="x" * 2_000_000), "more than 1048576"),
    "2 MB of brackets": ({"verb": "sync", "body": "[" * 2_000_000}, "more than 1048576"),
    "deep": ({"verb": "sync", "body": "[" * 100_000 + "]" * 100_000}, "nested deeper than 64"),
    "deep arguments": (submit(deep=nested(64)), "nested deeper than 64"),
    "keys that come twice": (
        {"verb": "submit", "body": '{"arguments":{"a":{"b":1,"b":2}}}'},
        "the same key twice",
    ),
    "half a character": (submit(text="\ud800"), "no canonical JSON form"),
    "half a character in a name": ({"verb": "sync", "body": '{"\\ud800":1}'}, "no canonical"),
    "NUL": (submit(text="a\0b"), "NUL character"),
    "not a number": ({"verb": "sync", "body": '{"ids":[NaN]}'}, "NaN is not JSON"),
    "bytes that are no text": ({"verb": b"\xff\xfe", "body": b"\xff"}, VERBS),
    "a very long verb": ({"verb": "submit" * 100_000}, VERBS),
    "another version": ({"v": "999", "verb": "submit"}, "supports only version 1"),
    "no version": ({"v": "", "verb": "submit"}, "supports only version 1"),
    "two verbs in one": ({"verb": "submit cancel"}, VERBS),
    "an unknown member": ({"verb": "sync", "body": '{"ids":[],"as":"ann"}'}, "as is not a known"),
    "another type": ({"verb": "sync", "body": '{"ids":"all"}'}, "ids: "),
    "a status": (
        {"verb": "report", "body": json.dumps({"id": new_id(), "status": "approved"})},
        "report is missing",
    ),
}
UNANSWERABLE: dict[str, Fields] = {
    "wrong names": {"version": "1", "action": "submit", "payload": "{}"},
    "no process": {"v": "1", "verb": "sync"},
    "another agent's replies": {"v": "1", "verb": "sync", "process": "x:y"},
    "a process that is too long": {"v": "1", "verb": "sync", "process": "p" * 65},
    "two thousand fields": {f"field{number}": "x" for number in range(2000)},
}


async def write(world: World, fields: Fields, entry: str = "*") -> None:
    """Write raw fields to the agent's stream."""
    await world.store.redis.xadd(world.store.keys.ingress(AGENT), fields, id=entry)


async def read_on(world: World) -> None:
    """Have a good request behind it all taken in, and nothing left; the audit is sound."""
    good = request()
    await world.send("submit", plain(good), process="q" * 16)
    async with world.ingress().running():
        assert (await world.reply(process="q" * 16))["id"] == good.id
        while await world.store.redis.exists(world.store.keys.ingress(AGENT)):
            await world.store.redis.ping()
    await Sealer(world.store, world.feed).seal_all()
    lines = [line async for line in export(world.store)]
    assert problems(lines, settled=False) == []


async def refusals(world: World) -> list[tuple[str, str]]:
    """Return the codes and reasons of what was refused."""
    events = [event for event in await world.events() if event.type == "refused"]
    return [(event.data["code"], event.data["why"]) for event in events]


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_entry_is_refused_with_a_reason(world: World, name: str) -> None:
    """The process hears the same reason that the audit keeps."""
    fields, why = BAD[name]
    await write(world, {"v": "1", "process": PROCESS, "nonce": "n", **fields})
    await read_on(world)
    ((code, said),) = await refusals(world)
    assert code == "invalid_request"
    assert why in said
    reply = await world.reply()
    assert (reply["nonce"], reply["error"]) == ("n", {"code": code, "detail": said})


@pytest.mark.parametrize("name", UNANSWERABLE)
async def test_what_has_no_address_is_refused_all_the_same(world: World, name: str) -> None:
    """It is audited; there is nobody to answer."""
    await write(world, UNANSWERABLE[name])
    await read_on(world)
    assert [code for code, _ in await refusals(world)] == ["invalid_request"]
    replies = await world.store.redis.keys(world.store.keys.replies(AGENT, "*"))
    assert replies == [world.store.keys.replies(AGENT, "q" * 16)]


@pytest.mark.parametrize("entry", [FAR_AHEAD, GREATEST])
async def test_nonsense_at_a_made_up_id_is_in_nobodys_way(world: World, entry: str) -> None:
    """Whatever id the agent chose, the entry goes and the stream can be written again."""
    await write(world, {"v": "1"}, FAR_AHEAD if entry == GREATEST else "1-1")
    await write(world, {"v": "1"}, entry)
    async with world.ingress().running():
        while await world.store.redis.exists(world.store.keys.ingress(AGENT)):
            await world.store.redis.ping()
    await read_on(world)
    assert len(await refusals(world)) == 2


async def test_a_field_that_comes_twice_is_read_once(world: World, server_url: str) -> None:
    """No two readers of one entry disagree about what it says: the last one holds."""
    client = connect(server_url)
    pairs = ("v", "1", "process", PROCESS, "nonce", "n", "verb", "sync", "verb", "approve")
    await client.execute_command("XADD", world.store.keys.ingress(AGENT), "*", *pairs)
    await client.aclose()
    await read_on(world)
    assert await refusals(world) == [("invalid_request", VERBS)]


async def test_an_agents_words_cannot_bloat_the_audit(world: World) -> None:
    """What it says of a cancel or a report is kept up to a length; both count all the same."""
    record, other = await world.submit(), await world.submit()
    await world.core.requests.decide(click(other))
    words = "x" * 500_000
    await world.send("cancel", {"id": record.id, "message": words})
    report = {"execution": "failed", "detail": words}
    await world.send("report", {"id": other.id, "report": report})
    await world.handled()
    events = await world.events()
    assert {"cancelled", "reported"} <= {event.type for event in events}
    assert all(len(json.dumps(event.data)) < 5000 for event in events)
