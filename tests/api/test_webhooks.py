"""Signed webhooks: delivered at least once, in order, to a real receiver on loopback."""

import asyncio
import base64
import hmac
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from gateway.delivery.egress_guard import Forbidden, Resolve
from gateway.delivery.webhooks import Webhook, WebhookEnvironment, Webhooks
from gateway.domain.time_and_tasks import SystemClock
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.event_feed import RedisCursor
from tests.api.replica import POLICY, Replica, made, replica, until
from tests.api.test_operations import figures

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@dataclass
class Receiver:
    """What arrived, and the statuses to answer with (200 when they run out)."""

    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0

    async def take(self, request: web.Request) -> web.Response:
        """Take a call and answer as told."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.paths.append(request.path)
        self.got.append((headers, await request.read()))
        status = self.answers.pop(0) if self.answers else 200
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    @property
    def bodies(self) -> list[Any]:
        """The bodies that arrived."""
        return [json.loads(body) for _, body in self.got]


class NotedCursor(RedisCursor):
    """The cursor of a sender that goes by its name after a restart too, so that it need not wait
    for its own claim; and the places that were saved."""

    def __init__(self, gate: Replica, sender: str) -> None:
        super().__init__(gate.store)
        self._sender = sender
        self.saved = list[str]()

    async def save_cursor(self, event_id: str) -> None:
        """Save it."""
        await super().save_cursor(event_id)
        self.saved.append(event_id)


@dataclass
class Pauses:
    """Remembers the pauses that were asked for, and takes none."""

    asked: list[float] = field(default_factory=list)

    async def __call__(self, seconds: float) -> None:
        """Go on at once."""
        self.asked.append(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def receiving(address: str) -> AsyncIterator[Receiver]:
    """Run a receiver on a loopback address."""
    one = Receiver()
    app = web.Application()
    app.router.add_post("/{path:.*}", one.take)
    served = web.AppRunner(app)
    await served.setup()
    await web.TCPSite(served, address, 0).start()
    one.port = served.addresses[0][1]
    yield one
    await served.cleanup()


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver on loopback."""
    async with receiving("127.0.0.1") as one:
        yield one


def hook_to(receiver: Receiver) -> Webhook:
    """Return the settings of a webhook to the receiver."""
    host = f"localhost:{receiver.port}"
    return Webhook(url=f"http://{host}/hook", secret=SECRET, hosts=(host,), production=False)


async def at_home(host: str, port: int) -> list[str]:
    """Resolve every name to loopback."""
    return ["127.0.0.1"]


def webhooks_of(
    gate: Replica, hook: Webhook, cursor: RedisCursor | None = None, **outside: Any
) -> Webhooks:
    """Return what posts; it resolves every name to loopback unless told otherwise."""
    return Webhooks(
        hook,
        gate.core.feed,
        gate.store.history,
        cursor or RedisCursor(gate.store),
        SystemClock(),
        tally=gate.core.tally,
        store_errors=REDIS_ERRORS,
        outside=WebhookEnvironment(**{"resolve": at_home, **outside}),
    )


@asynccontextmanager
async def sending(
    gate: Replica,
    hook: Webhook,
    *,
    sender: str = "a",
    resolve: Resolve = at_home,
    pauses: Pauses | None = None,
) -> AsyncIterator[NotedCursor]:
    """Run webhooks beside the test; their cursor begins at the first event."""
    cursor = NotedCursor(gate, sender)
    hooks = webhooks_of(gate, hook, cursor, resolve=resolve, pause=pauses or Pauses())
    if await cursor.load_cursor() is None:
        await cursor.save_cursor("0-0")
    task = asyncio.create_task(hooks.run())
    try:
        yield cursor
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_outcomes_arrive_signed_and_without_what_was_said(
    gate: Replica, receiver: Receiver
) -> None:
    """The receiver can verify each call, and learns status, digest and reason, but no content."""
    request = made(arguments={"command": "s3cr3t-command"}, hint="s3cr3t-hint")
    async with sending(gate, hook_to(receiver)):
        await gate.submitted(request)
        await gate.decided(request.id, "deny", message="s3cr3t-message", note="s3cr3t-note")
        await until(lambda: len(receiver.got) == 2)
    for headers, body in receiver.got:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        good = base64.b64encode(hmac.digest(KEY, signed, "sha256")).decode()
        assert headers["webhook-signature"] == f"v1,{good}"
        assert b"s3cr3t" not in body
        assert "authorization" not in headers
    first, last = receiver.bodies
    assert (first["type"], first["data"]["status"]) == ("request.submitted", "pending")
    assert last["type"] == "request.denied"
    assert last["data"] == {
        "id": request.id,
        "agent": "agent1",
        "revision": 2,
        "status": "denied",
        "digest": request.digest,
        "reason": "person",
    }


async def test_what_waits_is_told_with_where_to_answer_it(
    gate: Replica, receiver: Receiver
) -> None:
    """Where the inbox has an address; what has ended is answered nowhere."""
    request = made()
    async with sending(gate, replace(hook_to(receiver), inbox="https://gw.example/inbox")):
        await gate.submitted(request)
        await gate.decided(request.id, "deny")
        await until(lambda: len(receiver.got) == 2)
    first, last = receiver.bodies
    assert first["data"]["answer_at"] == f"https://gw.example/inbox/r/{request.id}"
    assert "answer_at" not in last["data"]


async def test_a_refused_call_is_repeated_with_growing_pauses(
    gate: Replica, receiver: Receiver
) -> None:
    """The same event comes again under the same id until it is taken."""
    receiver.answers, pauses = [500, 503, 404, 200], Pauses()
    async with sending(gate, hook_to(receiver), pauses=pauses):
        await gate.submitted()
        await until(lambda: len(receiver.got) == 4)
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
    assert pauses.asked[:3] == [1.0, 2.0, 4.0]


async def test_attempts_are_bounded_and_the_next_event_goes_on(
    gate: Replica, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """A receiver that refuses one event for ever does not block the others; the loss is logged."""
    receiver.answers = [500, 500, 500]
    async with sending(gate, replace(hook_to(receiver), attempts=3)):
        await gate.submitted()
        await gate.submitted()
        await until(lambda: len(receiver.got) == 4)
    assert [
        one.__dict__.get("event") for one in caplog.records if one.levelno == logging.ERROR
    ] == ["webhook_lost"]
    assert (gate.core.tally.webhook_failures, gate.core.tally.webhooks_lost) == (3, 1)
    told = await figures(gate)
    assert told["gateway_webhook_failures_total"] == 3
    assert told["gateway_webhooks_lost_total"] == 1


async def test_sending_goes_on_where_it_ended(gate: Replica, receiver: Receiver) -> None:
    """What happened while nobody sent is sent afterwards, once."""
    async with sending(gate, hook_to(receiver)) as cursor:
        first = made()
        await gate.submitted(first)
        await until(lambda: len(receiver.got) == 1)
        await until(lambda: cursor.saved[2:])
    missed = made()
    await gate.submitted(missed)
    async with sending(gate, hook_to(receiver)):
        await until(lambda: len(receiver.got) == 2)
    assert [body["data"]["id"] for body in receiver.bodies] == [first.id, missed.id]


async def test_a_first_start_begins_with_what_happens_then(
    gate: Replica, receiver: Receiver
) -> None:
    """Switching webhooks on does not send the past."""
    await gate.submitted()
    hooks = webhooks_of(gate, hook_to(receiver))
    task = asyncio.create_task(hooks.run())
    async with gate.core.feed.changes():  # the task has had its turn to subscribe as well
        later = made()
        await gate.submitted(later)
        await until(lambda: receiver.got)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [body["data"]["id"] for body in receiver.bodies] == [later.id]


async def test_two_replicas_send_each_event_once(
    server_url: str, namespace: str, receiver: Receiver
) -> None:
    """The claim makes one of them the sender."""
    async with replica(server_url, namespace) as one, replica(server_url, namespace) as two:
        await one.store.apply(POLICY, by="test")
        await RedisCursor(one.store).save_cursor("0-0")
        hook = hook_to(receiver)
        async with sending(one, hook, sender="a"), sending(two, hook, sender="b"):
            requests = [made() for _ in range(5)]
            for request in requests:
                await one.submitted(request)
            await until(lambda: len(receiver.got) >= 5)
    assert [body["data"]["id"] for body in receiver.bodies] == [one.id for one in requests]


async def test_a_redirect_is_a_refusal(gate: Replica, receiver: Receiver) -> None:
    """A receiver cannot send the gateway on to somewhere else."""
    receiver.answers = [307, 302, 200]
    async with sending(gate, hook_to(receiver)):
        await gate.submitted()
        await until(lambda: len(receiver.got) == 3)
    assert set(receiver.paths) == {"/hook"}


async def test_no_proxy_of_the_environment_stands_between(
    gate: Replica, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be what the connection goes to, instead of the address that was checked."""
    async with receiving("127.0.0.1") as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        async with sending(gate, hook_to(receiver)):
            await gate.submitted()
            await until(lambda: receiver.got or proxy.got)
        assert proxy.got == []


async def test_a_silent_receiver_is_left_after_the_timeout(gate: Replica) -> None:
    """A connection that is taken and never answered costs one attempt, not the sender."""
    held: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        host = f"localhost:{server.sockets[0].getsockname()[1]}"
        hook = Webhook(
            url=f"http://{host}/",
            secret=SECRET,
            hosts=(host,),
            production=False,
            timeout=0.05,
            attempts=2,
        )
        async with sending(gate, hook):
            await gate.submitted()
            await until(lambda: len(held) == 2)
        for writer in held:
            writer.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second loopback address")
async def test_the_name_is_resolved_once_and_the_connection_goes_there(gate: Replica) -> None:
    """The connection goes to the checked address; the name is not asked for again (rebinding)."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.2"]  # where the system's own resolver would never send it

    async with (
        receiving("127.0.0.2") as receiver,
        sending(gate, hook_to(receiver), resolve=resolve),
    ):
        await gate.submitted()
        await until(lambda: receiver.got)
    assert asked == ["localhost"]


async def test_a_private_address_is_never_called(
    gate: Replica, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """A public name that resolves into the own network is refused at every attempt."""

    hook = Webhook(
        url=f"https://hooks.example:{receiver.port}/",
        secret=SECRET,
        hosts=(f"hooks.example:{receiver.port}",),
        production=False,
        attempts=1,
    )
    async with sending(gate, hook):
        await gate.submitted()
        await until(lambda: "not public" in caplog.text)
    assert receiver.got == []


@pytest.mark.parametrize("secret", ["", "abc", "whsec_", "whsec_c2hvcnQ=", "whsec_***"])
async def test_a_weak_secret_is_refused_at_the_start(
    gate: Replica, receiver: Receiver, secret: str
) -> None:
    """A webhook without a proper key does not run at all."""
    with pytest.raises(ValueError, match="secret must be whsec_"):
        webhooks_of(gate, replace(hook_to(receiver), secret=secret))


async def test_a_forbidden_address_is_refused_at_the_start(
    gate: Replica, receiver: Receiver
) -> None:
    """A mistake in the settings shows when the gateway starts."""
    with pytest.raises(Forbidden):
        webhooks_of(gate, replace(hook_to(receiver), production=True))


def test_the_secret_is_not_shown() -> None:
    """A traceback or log of the settings does not give the key away."""
    hook = Webhook(url="https://a.example/", secret=SECRET, hosts=(), production=True)
    assert SECRET not in repr(hook)
