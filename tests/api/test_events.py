"""Server-sent events: complete, resumable, and only for who may see them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientResponse, ServerDisconnectedError
from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.http_exceptions import TransferEncodingError

from gateway.api.api_call import Limits
from tests.api.replica import ANN_TOKEN, POLICY, Replica, made, replica, until


@asynccontextmanager
async def listening(
    gate: Replica, last: str | None = None, token: str = ANN_TOKEN
) -> AsyncIterator[ClientResponse]:
    """Open the event stream, after an event id or from now on."""
    headers = {"Last-Event-ID": last} if last else None
    async with gate.opened("GET", "/v1/events", token=token, headers=headers) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield answer


async def heard(answer: ClientResponse, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Read this many events: their names and contents."""
    found: list[tuple[str, dict[str, Any]]] = []
    while len(found) < count:
        frame = (await asyncio.wait_for(answer.content.readuntil(b"\n\n"), 60)).decode()
        if not frame.startswith(":"):
            members = dict(line.split(": ", 1) for line in frame.strip().split("\n"))
            data = json.loads(members["data"])
            assert members["id"] == data["id"]
            found.append((members["event"], data))
    return found


async def test_events_come_as_they_happen_from_every_replica(
    server_url: str, namespace: str
) -> None:
    """A listener on one replica hears what another one did."""
    async with replica(server_url, namespace) as one, replica(server_url, namespace) as two:
        await one.store.apply(POLICY, by="test")
        request = made()
        async with listening(two) as answer:
            await one.submitted(request)
            await one.decided(request.id)
            events = await heard(answer, 2)
    assert [name for name, _ in events] == ["submitted", "approved"]
    assert {data["request_id"] for _, data in events} == {request.id}


async def test_resuming_misses_nothing_and_repeats_nothing(gate: Replica) -> None:
    """After a reconnect the stream goes on after the last id, through history into the present."""
    async with listening(gate) as answer:
        await gate.submitted()
        first = (await heard(answer, 1))[0][1]["id"]
    missed = [(await gate.submitted()).json["id"] for _ in range(450)]

    # More come while history is read, so that history and present overlap.
    more = [asyncio.create_task(gate.submitted()) for _ in range(200)]
    await until(lambda: any(one.done() for one in more))
    async with listening(gate, last=first) as answer:
        events = await heard(answer, 650)
        final = (await gate.submitted()).json["id"]
        events += await heard(answer, 1)
    heard_ids = [data["request_id"] for _, data in events]
    assert heard_ids[:450] == missed
    assert set(heard_ids[450:650]) == {(await one).json["id"] for one in more}
    assert heard_ids[650:] == [final]


async def test_an_id_ahead_of_the_stream_hears_what_happens(gate: Replica) -> None:
    """After the server counts from lower ids again, a listener is not deaf until they catch up."""
    async with listening(gate, last="99999999999999-0") as answer:
        request = (await gate.submitted()).json["id"]
        assert (await heard(answer, 1))[0][1]["request_id"] == request


async def test_a_last_event_id_that_is_none_is_refused(gate: Replica) -> None:
    """The id is one that the stream gave."""
    headers = {"Last-Event-ID": "$"}
    answer = await gate.call("GET", "/v1/events", token=ANN_TOKEN, headers=headers)
    assert answer.problem == (422, "invalid_request")


async def test_a_quiet_stream_shows_that_it_lives(server_url: str, namespace: str) -> None:
    """Comments between events keep proxies from closing the connection."""
    limits = Limits(heartbeat_seconds=0.02)
    async with replica(server_url, namespace, limits=limits) as gate, listening(gate) as answer:
        frame = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), 15)
    assert frame.startswith(b":")


async def ended(answer: ClientResponse) -> bool:
    """Read to the end of the stream; it must be cut off."""
    try:
        await asyncio.wait_for(answer.content.read(), 15)
    except (ClientPayloadError, ServerDisconnectedError, TransferEncodingError, ConnectionError):
        return True
    return False


async def test_a_revoked_listener_hears_nothing_more(server_url: str, namespace: str) -> None:
    """With the next heartbeat, or the event about people, the stream of a revoked token ends."""
    limits = Limits(heartbeat_seconds=0.05)
    async with replica(server_url, namespace, limits=limits) as gate, listening(gate) as answer:
        del gate.credentials.known[ANN_TOKEN]
        assert await ended(answer)


async def test_an_event_about_people_checks_the_listener_at_once(gate: Replica) -> None:
    """Revoking does not wait for a heartbeat."""
    async with listening(gate) as answer:
        del gate.credentials.known[ANN_TOKEN]
        await gate.store.note("agent_revoked", data={"agent": "ann"})
        assert await ended(answer)


async def test_a_slow_listener_is_cut_off(server_url: str, namespace: str) -> None:
    """Who does not read holds neither memory nor a place: the stream ends, and can be resumed."""
    async with replica(server_url, namespace, limits=Limits(heartbeat_seconds=0.2)) as gate:
        host, port = gate.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(
            f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {ANN_TOKEN}\r\n\r\n".encode()
        )
        assert (await reader.read(15)).startswith(b"HTTP/1.1 200")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: gate.hanging)
        while gate.hanging:
            await gate.store.note("filler", data={"text": "x" * 100_000})
        writer.close()


async def test_streams_are_limited(server_url: str, namespace: str) -> None:
    """Open streams are bounded, and a place is free again when one ends."""
    async with replica(server_url, namespace, limits=Limits(event_streams=1)) as gate:
        async with listening(gate):
            refused = await gate.call("GET", "/v1/events", token=ANN_TOKEN)
            assert refused.problem == (429, "too_many_requests")
        await until(lambda: not gate.hanging)
        async with listening(gate):
            pass
