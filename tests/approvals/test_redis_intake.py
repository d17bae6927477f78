"""What the readers of the agents' streams do with bad entries, and with each other."""

from __future__ import annotations

import json

from gateway.domain.store import MessageContext
from gateway.domain.time_and_tasks import SystemClock
from gateway.models import (
    Status,
)
from gateway.stores.credentials import RedisCredentials
from gateway.stores.ingress import MOST_ATTEMPTS
from gateway.wire.codec import plain
from tests.waiting import moment
from tests.world import (
    AGENT,
    PROCESS,
    World,
    assembled,
    request,
)

BAD_ENTRIES: tuple[dict[str, str], ...] = (
    {},
    {"v": "2"},
    {"verb": "approve"},
    {"verb": "submit", "body": "{"},
    {"verb": "submit", "body": "[]"},
    {"verb": "submit", "body": '{"id":1}'},
    {"verb": "submit", "body": '{"a":1,"a":2}'},
    {"verb": "submit", "body": "x" * 1_100_000},
    {"verb": "submit", "body": json.dumps({**plain(request()), "digest": "0" * 64})},
    {"verb": "submit", "body": json.dumps({**plain(request()), "risk_free": True})},
    {"verb": "sync", "body": json.dumps({"ids": ["0" * 32] * 1001})},
    {"verb": "sync", "body": '{"ids":["../x"]}'},
    {"verb": "cancel", "body": "{}"},
    {"verb": "cancel", "body": json.dumps({"id": "0" * 32, "reason": "person"})},
    {"verb": "cancel", "body": json.dumps({"id": "0" * 32, "reason": "quarantined"})},
    {"verb": "consume", "body": '{"id":"x"}'},
    {"verb": "report", "body": json.dumps({"id": "0" * 32, "report": {"execution": "approved"}})},
    {"verb": "sync", "process": "../../x"},
)


async def test_malformed_entries_are_refused_and_never_block(world: World) -> None:
    """Each is audited, answered where there is an address, deleted; the good one behind passes."""
    stream = world.store.keys.ingress(AGENT)
    for bad in BAD_ENTRIES:
        entry = {"v": "1", "process": PROCESS, "nonce": "n", "body": "{}", **bad}
        await world.store.redis.xadd(stream, entry)
    asked = request()
    await world.send("submit", plain(asked))
    async with world.ingress().running():
        while await world.store.redis.xlen(stream):
            await moment()
    assert any(event.request_id == asked.id for event in await world.events())
    refused = [event for event in await world.events() if event.type == "refused"]
    assert len(refused) == len(BAD_ENTRIES)
    codes = {(await world.reply()).get("error", {}).get("code") for _ in BAD_ENTRIES[:-1]}
    assert codes <= {"invalid_request", "not_found", None}


async def test_an_entry_that_keeps_failing_goes_to_the_dead_letters(world: World) -> None:
    """After five attempts it is put aside and answered; the others went on long before. What it
    said is not kept: no retention and no erasure would find it there."""
    poison, good = request(tool="poison", arguments={"note": "swordfish"}), request()

    async def handle(agent: str, entry: str, fields: dict[str, str]) -> None:
        if "poison" in fields["body"]:
            raise RuntimeError("broken")
        await world.intake.handle(agent, entry, fields)

    await world.send("submit", plain(poison))
    await world.send("submit", plain(good))
    async with world.ingress(handle).running():
        events = await world.until(lambda found: any(e.type == "dead_letter" for e in found))
        assert any(event.request_id == good.id for event in events)
        assert (await world.reply())["id"] == good.id
        assert (await world.reply())["error"]["code"] == "error"
        while await world.store.redis.hlen(world.store.keys.attempts):
            await moment()
    ((_, letter),) = await world.store.redis.xrange(world.store.keys.dead)
    assert (letter["agent"], letter["verb"]) == ("bot", "submit")
    assert "swordfish" not in str(letter)
    assert MOST_ATTEMPTS == 5


async def test_an_agent_that_registers_is_read_at_once(world: World) -> None:
    """New agents are announced to the readers, not found by polling."""
    async with world.ingress().running():
        for number in range(60):
            await world.credentials.add_agent(f"new{number}")
        asked = request(agent="new59")
        await world.send("submit", plain(asked), agent="new59")
        assert (await world.reply(agent="new59"))["id"] == asked.id


async def test_another_replica_takes_over_what_was_left(world: World) -> None:
    """Entries of a replica that died are read from the start by the next owner, once."""
    lost: list[str] = []

    async def die(agent: str, entry: str, fields: dict[str, str]) -> None:
        lost.append(entry)
        raise RuntimeError("killed")

    asked = request()
    async with world.ingress(die).running():
        await world.send("submit", plain(asked))
        while not lost:
            await world.store.redis.ping()
    await world.store.redis.delete(world.store.keys.replicas)
    async with world.ingress().running():
        assert (await world.reply())["id"] == asked.id
    assert [event.type for event in await world.events(asked.id)] == ["submitted"]


async def test_two_replicas_share_the_shards_and_do_no_harm_to_each_other(
    world: World, server_url: str, namespace: str
) -> None:
    """Handled by one or by both, each request is one request."""
    for number in range(120):
        await world.credentials.add_agent(f"a{number}")
    async with (
        assembled(server_url, namespace) as second,
        world.ingress().running(),
        second.ingress().running(),
    ):
        asked = [request(agent=f"a{number}") for number in range(120)]
        for one in asked:
            await world.send("submit", plain(one), agent=one.agent)
        await world.until(lambda found: sum(e.type == "submitted" for e in found) >= len(asked))
    submitted = [e.request_id for e in await world.events() if e.type == "submitted"]
    assert sorted(submitted) == sorted(one.id for one in asked)


async def test_a_key_that_is_no_stream_stops_its_agent_alone(world: World) -> None:
    """An operator slips: the other agents are read, and this one too once the key is gone."""
    await world.credentials.add_agent("odd")
    odd = world.store.keys.ingress("odd")
    async with world.ingress().running():
        await world.store.redis.set(odd, "a slip")
        asked = request()
        await world.send("submit", plain(asked))
        assert (await world.reply())["id"] == asked.id
        await world.store.redis.delete(odd)
        late = request(agent="odd")
        await world.send("submit", plain(late), agent="odd")
        assert (await world.reply(agent="odd"))["id"] == late.id


async def test_what_a_revoked_agent_wrote_is_not_handled(world: World) -> None:
    """Its queue goes with its credential; what is written in its name later is refused, audited."""
    queue = world.store.keys.ingress(AGENT)
    before, after = request(), request()
    await world.send("submit", plain(before))
    await world.credentials.revoke_agent(AGENT)
    assert not await world.store.redis.exists(queue)
    await world.send("submit", plain(after))
    await world.handled()
    assert not await world.store.redis.xlen(queue)
    assert [event.type for event in await world.events() if event.request_id] == []
    assert [event.data["code"] for event in await world.events() if event.type == "refused"] == [
        "unauthorized"
    ]


async def test_an_agent_made_elsewhere_a_moment_ago_is_not_refused(world: World) -> None:
    """What this replica knows of credentials may be half a second old; it looks again."""
    assert (await world.credentials.holder(AGENT)).owner is None
    await RedisCredentials(world.store, SystemClock()).add_agent("new", "ann")
    assert (await world.credentials.holder("new")).owner == "ann"


async def test_nothing_an_agent_sends_can_decide(world: World) -> None:
    """There is no verb for it, and people's clicks need a person's identity."""
    record = await world.submit()
    for verb in ("decide", "approve", "push"):
        await world.send(verb, {"id": record.id, "action": "approve"})
    await world.handled()
    assert (await world.core.requests.get(record.id)).status is Status.PENDING


def test_origins_default_to_nobody() -> None:
    """A message without process waits for nothing."""
    assert MessageContext(agent=AGENT).process is None
