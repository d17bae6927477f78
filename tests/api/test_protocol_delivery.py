"""The Agent Approval Protocol's webhooks: receivers prove themselves, and hear of every end."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
import pytest_asyncio
from aiohttp import web

from gateway.approval_protocol.instances import WINDOW_MS, Instance, ProtocolNotice, RedisNotices
from gateway.approval_protocol.webhooks import PollInterval, ProtocolNotices, ProtocolReceivers
from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Person
from gateway.domain.time_and_tasks import SystemClock, cancel_and_wait
from gateway.server.app import notices_of
from gateway.stores.credentials import RedisCredentials
from tests.api.replica import ANN_TOKEN, Answer, Replica, replica, until
from tests.api.test_approval_protocol import act, create, provision, refusal
from tests.clocks import ShiftedClock
from tests.waiting import moment

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER_SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
REGISTRATION = "8246931c-4ce0-4c15-a94a-e9c078ad06e2"
INSTANCES = "/aap/v1/instances"

Reply = Callable[[Any], web.Response]


@dataclass
class Place:
    """A receiver on loopback: what arrived, and what it answers instead of the right thing."""

    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[web.Response] = field(default_factory=list)
    verifying: Reply | None = None
    held: asyncio.Event | None = None
    open_calls: int = 0
    most_open: int = 0
    port: int = 0
    secret: str = SECRET

    @property
    def url(self) -> str:
        """Where it is called."""
        return f"http://localhost:{self.port}/events"

    def delivery(self, **more: Any) -> dict[str, Any]:
        """Return the delivery that names this receiver."""
        return {
            "type": "webhook",
            "url": self.url,
            "registration_id": REGISTRATION,
            "signing_secret": self.secret,
            **more,
        }

    def told(self, kind: str) -> list[Any]:
        """Return the messages of a type that arrived, each with a good signature."""
        found = []
        for headers, body in self.got:
            message = json.loads(body)
            if message["type"] != kind:
                continue
            key = base64.b64decode(self.secret.removeprefix("whsec_"))
            signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
            good = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
            assert headers["webhook-signature"] == f"v1,{good}"
            assert headers["webhook-id"] == message["id"]
            assert "authorization" not in headers
            found.append(message)
        return found

    @property
    def notices(self) -> list[Any]:
        """The notices that arrived."""
        return self.told("request.resolved")

    async def take(self, request: web.Request) -> web.Response:
        """Take a call and answer as told."""
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append((headers, body))
        self.open_calls += 1
        self.most_open = max(self.most_open, self.open_calls)
        try:
            if self.held is not None:
                await self.held.wait()
        finally:
            self.open_calls -= 1
        message = json.loads(body)
        if message["type"] == "webhook.verification":
            if self.verifying is not None:
                return self.verifying(message)
            return web.json_response({"challenge": message["challenge"]})
        return self.answers.pop(0) if self.answers else web.Response(status=204)


@asynccontextmanager
async def listening() -> AsyncIterator[Place]:
    """Run a receiver."""
    place = Place()
    app = web.Application()
    app.router.add_post("/{path:.*}", place.take)
    served = web.AppRunner(app, shutdown_timeout=0.1)
    await served.setup()
    await web.TCPSite(served, "127.0.0.1", 0).start()
    place.port = served.addresses[0][1]
    try:
        yield place
    finally:
        await served.cleanup()


@pytest_asyncio.fixture
async def place() -> AsyncIterator[Place]:
    """A receiver on loopback."""
    async with listening() as one:
        yield one


@pytest_asyncio.fixture
async def other() -> AsyncIterator[Place]:
    """Another receiver."""
    async with listening() as one:
        yield one


async def at_home(host: str, port: int) -> list[str]:
    """Resolve every name to loopback."""
    return ["127.0.0.1"]


def calling(*places: Place, seconds: float = 10.0, **more: Any) -> ProtocolReceivers:
    """Return what calls these receivers."""
    hosts = tuple(f"localhost:{one.port}" for one in places)
    values = {"hosts": hosts, "production": False, "resolve": at_home, "seconds": seconds}
    return ProtocolReceivers(SystemClock(), **{**values, **more})


@dataclass
class ProtocolDesk:
    """A replica with its admins, a receiver, and the calls that the tests make."""

    gate: Replica
    admin: str
    second: str

    async def patch(self, made: Answer, body: Any, key: str = "u", **more: Any) -> Answer:
        """Update an instance."""
        token = more.get("token", self.admin)
        headers = {"Idempotency-Key": key}
        path = f"{INSTANCES}/{made.json['instance']['id']}"
        return await self.gate.call("PATCH", path, body, token=token, headers=headers)

    async def ask(self, made: Answer, key: str) -> Answer:
        """Ask as an instance."""
        token = made.json["credential"]["token"]
        return await create(self.gate, key={"Idempotency-Key": key}, token=token)

    async def end(self, asked: Answer, made: Answer) -> None:
        """End a request: its agent withdraws it."""
        done = await act(self.gate, "DELETE", asked, token=made.json["credential"]["token"])
        assert done.status == 200, done.text

    async def look(self, made: Answer) -> Any:
        """Return an instance as its provisioner sees it."""
        path = f"{INSTANCES}/{made.json['instance']['id']}"
        return (await self.gate.call("GET", path, token=self.admin)).json


@asynccontextmanager
async def desk_on(
    url: str, namespace: str, receivers: ProtocolReceivers
) -> AsyncIterator[ProtocolDesk]:
    """Run a replica with two admins."""
    async with replica(url, namespace, registered=True, receivers=receivers) as gate:
        policy = PolicyDocument(people=(Person(name="ann"),), routes=(Route(),))
        await gate.store.apply(policy, by="test")
        credentials = RedisCredentials(gate.store, SystemClock())
        first = await credentials.add_approver("ops", admin=True)
        second = await credentials.add_approver("ops2", admin=True)
        yield ProtocolDesk(gate, first.token, second.token)


@pytest_asyncio.fixture
async def api(
    server_url: str, namespace: str, place: Place, other: Place
) -> AsyncIterator[ProtocolDesk]:
    """A replica that may call both receivers."""
    async with desk_on(server_url, namespace, calling(place, other)) as one:
        yield one


def telling_of(
    api: ProtocolDesk, *places: Place, clock: Any = None, **more: Any
) -> ProtocolNotices:
    """Return what makes and sends the notices."""
    rhythm = PollInterval(nap=0.02, jitter=lambda: 1.0)
    receivers = calling(*places, **more)
    return notices_of(api.gate.core, api.gate.store, receivers, clock=clock, rhythm=rhythm)


@asynccontextmanager
async def telling(
    api: ProtocolDesk, *places: Place, clock: Any = None, **more: Any
) -> AsyncIterator[None]:
    """Make and send notices beside the test."""
    task = asyncio.create_task(telling_of(api, *places, clock=clock, **more).run())
    try:
        yield
    finally:
        await cancel_and_wait(task)


async def settled(api: ProtocolDesk, *, left: int = 0) -> None:
    """Wait until all events were looked at and only so many notices are queued."""
    keys, redis = api.gate.store.keys, api.gate.store.redis
    notices = RedisNotices(api.gate.store)
    while not (
        await notices.load_cursor() == (await api.gate.store.latest(1))[-1].id
        and await redis.zcard(keys.of("aap", "due")) == left
    ):
        await moment()


async def test_events_are_followed_once_there_is_a_receiver(
    api: ProtocolDesk, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody uses the protocol, nothing that happens wakes it."""
    notices, begun, looks = telling_of(api, place), asyncio.Event(), list[bool]()
    is_used = notices._is_used

    async def look() -> bool:
        looks.append(await is_used())
        return looks[-1]

    async def follow() -> None:
        begun.set()
        await asyncio.Future()

    monkeypatch.setattr(notices, "_is_used", look)
    monkeypatch.setattr(notices, "_make_all", follow)
    task = asyncio.create_task(notices.run())
    try:
        while len(looks) < 3:
            await moment()
        assert not any(looks) and not begun.is_set()
        made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
        assert made.status == 201, made.text
        async with asyncio.timeout(10):
            await begun.wait()
    finally:
        await cancel_and_wait(task)


async def test_a_verified_receiver_hears_of_each_end(api: ProtocolDesk, place: Place) -> None:
    """Before the credential is given out it answers a signed challenge; then one notice of each
    request, whose moment is the decision's, and nothing of what was asked."""
    gate = api.gate
    made = await provision(gate, api.admin, {"delivery": place.delivery()})
    assert made.status == 201, made.text
    (asked,) = place.told("webhook.verification")
    instance = made.json["instance"]
    assert (asked["registration_id"], asked["instance_id"]) == (REGISTRATION, instance["id"])
    told = {"type": "webhook", "url": place.url, "registration_id": REGISTRATION}
    assert instance["delivery"] == told
    assert (await api.look(made))["delivery"] == told
    again = await provision(gate, api.admin, {"delivery": place.delivery()})
    assert (again.status, again.json, len(place.got)) == (200, made.json, 1)
    assert SECRET not in made.text + again.text
    async with telling(api, place):
        requests = [await api.ask(made, key) for key in ("one", "two")]
        for one in requests:
            await api.end(one, made)
        await settled(api)
    assert sorted(one["request_id"] for one in place.notices) == sorted(
        one.json["id"] for one in requests
    )
    for notice in place.notices:
        assert set(notice) == {"id", "type", "instance_id", "request_id", "created_at"}
        record = await gate.call(
            "GET",
            f"/aap/v1/requests/{notice['request_id']}",
            token=made.json["credential"]["token"],
        )
        assert notice["created_at"] == record.json["decision"]["decided_at"]


def _answering(value: Any, status: int = 200) -> Reply:
    return lambda message: web.json_response(value, status=status)


WRONG: dict[str, Reply] = {
    "refused": _answering({}, 403),
    "bare": lambda message: web.Response(status=200),
    "other": _answering({"challenge": "x"}),
    "not 200": lambda message: web.json_response({"challenge": message["challenge"]}, status=201),
    "more": lambda message: web.json_response({"challenge": message["challenge"], "a": 1}),
    "long": lambda message: web.Response(text=json.dumps(message) + " " * 9000),
    "redirect": lambda message: web.Response(status=307, headers={"Location": "/else"}),
}


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
async def test_an_unproven_receiver_changes_nothing(
    api: ProtocolDesk, place: Place, other: Place, answer: Reply
) -> None:
    """No instance, no credential, and an update leaves name and receiver; one attempt each, and
    the same key may be tried again."""
    gate = api.gate
    place.verifying = answer
    body = {"delivery": place.delivery()}
    failed = await provision(gate, api.admin, body)
    assert refusal(failed) == (422, "invalid_request", "webhook_verification_failed")
    assert await gate.store.redis.hlen(gate.store.keys.of("aap", "instances")) == 0
    assert len(place.got) == 1
    made = await provision(gate, api.admin, {"delivery": other.delivery()}, "other")
    before = await api.look(made)
    update = await api.patch(made, {"instance_name": "new", "delivery": place.delivery()})
    assert refusal(update) == (422, "invalid_request", "webhook_verification_failed")
    assert await api.look(made) == before
    place.verifying = None
    assert (await provision(gate, api.admin, body)).status == 201
    update = await api.patch(made, {"instance_name": "new", "delivery": place.delivery()})
    assert (update.status, update.json["name"]) == (200, "new")
    challenges = [one["challenge"] for one in place.told("webhook.verification")]
    assert len(set(challenges)) == 4


async def test_a_slow_receiver_is_not_waited_for(
    server_url: str, namespace: str, place: Place
) -> None:
    """An answer after the time has passed proves nothing."""
    place.held = asyncio.Event()
    async with desk_on(server_url, namespace, calling(place, seconds=0.05)) as api:
        slow = await provision(api.gate, api.admin, {"delivery": place.delivery()})
        place.held.set()
        assert refusal(slow) == (422, "invalid_request", "webhook_verification_failed")


async def test_one_verification_at_a_time(api: ProtocolDesk, place: Place) -> None:
    """Calls with the same key verify once between them, and make one instance."""
    place.held = asyncio.Event()
    body = {"delivery": place.delivery()}
    first = asyncio.create_task(provision(api.gate, api.admin, body))
    await until(lambda: place.got)
    second = await provision(api.gate, api.admin, body)
    assert refusal(second)[:2] == (429, "rate_limit")
    place.held.set()
    assert (await first).status == 201
    assert (await provision(api.gate, api.admin, body)).json == (await first).json
    assert len(place.got) == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"type": "socket"}, "unsupported_delivery_type"),
        ({"type": None}, "unsupported_delivery_type"),
        ({"url": "http://elsewhere.example/"}, "invalid_webhook_url"),
        ({"url": "https://elsewhere.example/"}, "invalid_webhook_url"),
        ({"url": "https://169.254.169.254/"}, "invalid_webhook_url"),
        ({"url": "https://[::1"}, "invalid_webhook_url"),
        ({"url": "x" * 3000}, "invalid_webhook_url"),
        ({"signing_secret": "whsec_c2hvcnQ="}, "invalid_request"),
        ({"signing_secret": SECRET.removeprefix("whsec_")}, "invalid_request"),
        ({"registration_id": "x"}, "invalid_request"),
        ({"more": "x"}, "invalid_request"),
        ({"signing_secret": 3}, "invalid_request"),
    ],
)
async def test_a_bad_delivery_is_refused_uncalled(
    api: ProtocolDesk, place: Place, change: Any, code: str
) -> None:
    """With the protocol's code, and nobody is called."""
    answer = await provision(api.gate, api.admin, {"delivery": place.delivery(**change)})
    assert refusal(answer) == (400, "invalid_request", code)
    assert SECRET not in answer.text
    assert place.got == []


async def test_a_private_address_is_never_called(
    server_url: str, namespace: str, place: Place
) -> None:
    """A public name that leads into the own network is no receiver's."""
    hosts = (f"hooks.example:{place.port}",)
    async with desk_on(server_url, namespace, calling(place, hosts=hosts)) as api:
        delivery = place.delivery(url=f"https://hooks.example:{place.port}/")
        answer = await provision(api.gate, api.admin, {"delivery": delivery})
        assert refusal(answer) == (400, "invalid_request", "invalid_webhook_url")
    assert place.got == []


async def test_registrations_are_bounded(api: ProtocolDesk, place: Place) -> None:
    """More than thirty at once are refused before anybody is called, whatever their paths."""
    place.verifying = _answering({}, 403)
    answers = [
        await provision(
            api.gate, api.admin, {"delivery": place.delivery(url=f"{place.url}/{n}")}, str(n)
        )
        for n in range(40)
    ]
    assert {one.status for one in answers} == {422, 429}
    assert "Retry-After" in answers[-1].headers
    assert len(place.got) < 40


async def test_an_update_is_applied_once(api: ProtocolDesk, place: Place, other: Place) -> None:
    """Its repetition is answered as the first call and undoes no later one; other input with its
    key is a conflict; null removes; others' and deleted instances are not there."""
    made = await provision(api.gate, api.admin, {})
    first = {"instance_name": "a", "delivery": place.delivery()}
    one = await api.patch(made, first, "1")
    two = await api.patch(made, {"instance_name": "b", "delivery": None}, "2")
    assert (one.json["name"], one.json["delivery"]["url"]) == ("a", place.url)
    assert two.json == {"id": made.json["instance"]["id"], "name": "b"}
    again = await api.patch(made, first, "1")
    assert (again.status, again.json, len(place.got)) == (200, one.json, 1)
    assert await api.look(made) == two.json
    for body in ({"instance_name": "c"}, {"delivery": place.delivery(url=other.url)}):
        changed = await api.patch(made, body, "1")
        assert refusal(changed) == (409, "conflict", "idempotency_conflict")
    bad: list[Any] = [{}, {"instance_name": ""}, {"delivery": {}}, {"more": 1}]
    for wrong in bad:
        assert (await api.patch(made, wrong, "3")).status == 400, wrong
    foreign = await api.patch(made, {"instance_name": "c"}, "4", token=api.second)
    assert refusal(foreign) == (404, "not_found", "not_found")
    agent = await api.patch(
        made, {"instance_name": "c"}, "4", token=made.json["credential"]["token"]
    )
    assert refusal(agent)[0] == 403
    path = f"{INSTANCES}/{made.json['instance']['id']}"
    await api.gate.call("DELETE", path, token=api.admin)
    for key in ("1", "5"):
        gone = await api.patch(made, first, key)
        assert refusal(gone) == (404, "not_found", "not_found")


async def test_a_deletion_during_verification_wins(api: ProtocolDesk, place: Place) -> None:
    """The update finds no instance any more, and restores none."""
    made = await provision(api.gate, api.admin, {})
    place.held = asyncio.Event()
    update = asyncio.create_task(api.patch(made, {"delivery": place.delivery()}))
    await until(lambda: place.got)
    path = f"{INSTANCES}/{made.json['instance']['id']}"
    assert (await api.gate.call("DELETE", path, token=api.admin)).status == 204
    place.held.set()
    assert refusal(await update)[0] == 404
    assert refusal(await api.gate.call("GET", path, token=api.admin))[0] == 404
    kept = await api.gate.store.redis.hgetall(api.gate.store.keys.of("aap", "instances"))
    assert SECRET not in str(kept)


async def test_a_failure_is_tried_again_with_the_same_words(
    api: ProtocolDesk, place: Place
) -> None:
    """A refusal, a redirect that nobody follows, then an answer: the same id and body, each time
    signed anew; pauses grow, and nothing comes after it was taken."""
    clock = ShiftedClock()
    place.answers = [
        web.Response(status=500),
        web.Response(status=307, headers={"Location": place.url}),
    ]
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    asked = await api.ask(made, "one")
    await api.end(asked, made)
    notices = RedisNotices(api.gate.store)
    async with telling(api, place, clock=clock):
        for attempts, pause in ((1, 5), (2, 10)):
            while len(place.notices) != attempts:
                await moment()
            await settled(api, left=1)
            await put_off(api, attempts)
            clock.ahead += pause - 4.5
            assert not await notices.find_due(clock.now_ms(), 9), "not before its time"
            clock.ahead += 4.6
        await until(lambda: len(place.notices) == 3)
        await settled(api)
    bodies = [body for _, body in place.got if b"request.resolved" in body]
    assert len(set(bodies)) == 1


async def put_off(api: ProtocolDesk, attempts: int) -> None:
    """Wait until the only notice is known to have been tried so often."""
    (name,) = [
        one
        async for one in api.gate.store.redis.scan_iter(
            match=api.gate.store.keys.of("aap", "notice", "*")
        )
    ]
    notices = RedisNotices(api.gate.store)
    while (await loaded(notices, name)).attempts != attempts:
        await moment()


async def loaded(notices: RedisNotices, name: str) -> ProtocolNotice:
    """Return a notice by the name of its key."""
    found = await notices.load(name.rpartition(":")[2])
    assert found is not None
    return found


async def test_a_receiver_may_ask_for_time(api: ProtocolDesk, place: Place) -> None:
    """Retry-After of 429 and 503 is respected; of another answer it is not looked at."""
    clock = ShiftedClock()
    place.answers = [web.Response(status=429, headers={"Retry-After": "600"})]
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    await api.end(await api.ask(made, "one"), made)
    async with telling(api, place, clock=clock):
        await until(lambda: len(place.notices) == 1)
        await put_off(api, 1)
        (due,) = await dues(api)
        assert 590_000 < due - SystemClock().now_ms() <= 600_000
        clock.ahead = 601
        await until(lambda: len(place.notices) == 2)
        await settled(api)


async def dues(api: ProtocolDesk) -> list[int]:
    """Return when the notices are due."""
    rows = await api.gate.store.redis.zrange(
        api.gate.store.keys.of("aap", "due"), 0, -1, withscores=True
    )
    return [int(score) for _, score in rows]


@pytest.mark.parametrize("asked", ["9999999", "9" * 400], ids=["long", "endless"])
async def test_after_seven_days_it_is_given_up(api: ProtocolDesk, place: Place, asked: str) -> None:
    """However long its receiver asked to wait: no attempt is made any more, and the loss is
    counted."""
    clock = ShiftedClock()
    place.answers = [web.Response(status=503, headers={"Retry-After": asked})]
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    await api.end(await api.ask(made, "one"), made)
    async with telling(api, place, clock=clock):
        await until(lambda: len(place.notices) == 1)
        await put_off(api, 1)
        clock.ahead = WINDOW_MS / 1000 + 1
        await settled(api)
    assert len(place.notices) == 1
    assert api.gate.core.tally.webhooks_lost == 1


async def test_a_new_receiver_gets_what_is_queued(
    api: ProtocolDesk, place: Place, other: Place
) -> None:
    """With its own secret and the old id and body; what was taken does not come again."""
    clock = ShiftedClock()
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    done, asked = await api.ask(made, "one"), await api.ask(made, "two")
    await api.end(done, made)
    async with telling(api, place, other, clock=clock):
        await settled(api)
        place.answers = [web.Response(status=500)]
        await api.end(asked, made)
        await until(lambda: len(place.notices) == 2)
        await settled(api, left=1)
        other.secret = OTHER_SECRET
        moved = await api.patch(made, {"delivery": other.delivery(registration_id=str(uuid4()))})
        assert moved.status == 200, moved.text
        clock.ahead = 60
        await until(lambda: other.notices)
        await settled(api)
    assert other.notices == place.notices[1:]
    assert len(place.notices) == 2


@pytest.mark.parametrize("way", ["removed", "deleted", "removed and added"])
async def test_a_removed_receiver_hears_nothing_more(
    api: ProtocolDesk, place: Place, way: str
) -> None:
    """Nor of what a deletion cancels, nor, when it is added again, of what ended before."""
    clock = ShiftedClock()
    place.answers = [web.Response(status=500)]
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    await api.end(await api.ask(made, "one"), made)
    waiting = await api.ask(made, "two")
    async with telling(api, place, clock=clock):
        await until(lambda: len(place.notices) == 1)
        await put_off(api, 1)
        if way == "deleted":
            path = f"{INSTANCES}/{made.json['instance']['id']}"
            await api.gate.call("DELETE", path, token=api.admin)
        else:
            await api.patch(made, {"delivery": None}, "remove")
            await api.end(waiting, made)
        if way == "removed and added":
            added = await api.patch(made, {"delivery": place.delivery()}, "add")
            assert added.status == 200
        clock.ahead = 60
        await settled(api)
    assert len(place.notices) == 1
    record = await api.gate.store.load(UUID(waiting.json["id"]).hex)
    assert record is not None and record.status == "cancelled"


async def test_other_requests_are_not_told_of(api: ProtocolDesk, place: Place) -> None:
    """Those that ended before there was a receiver, and those of an instance without one."""
    made = await provision(api.gate, api.admin, {})
    quiet = await provision(api.gate, api.admin, {}, "quiet")
    await api.end(await api.ask(made, "old"), made)
    await api.patch(made, {"delivery": place.delivery()})
    await api.end(await api.ask(quiet, "one"), quiet)
    new = await api.ask(made, "new")
    await api.end(new, made)
    async with telling(api, place):
        await settled(api)
    assert [one["request_id"] for one in place.notices] == [new.json["id"]]


class Died(Exception):
    """The gateway was killed here."""


class Dying(RedisNotices):
    """Dies at a step, before or after it was done."""

    def __init__(self, api: ProtocolDesk, step: str, *, done: bool) -> None:
        super().__init__(api.gate.store)
        self._step, self._done = step, done

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name != self._step:
            return found

        async def die(*words: Any) -> None:
            if self._done:
                await found(*words)
            raise Died

        return die


@pytest.mark.parametrize(
    ("step", "done"),
    [("add", False), ("add", True), ("save_cursor", False), ("save_cursor", True)],
)
async def test_a_kill_while_writing_loses_and_doubles_nothing(
    api: ProtocolDesk, place: Place, step: str, done: bool
) -> None:
    """Between event, notice and cursor, with what was sent before the death and after it."""
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    asked = await api.ask(made, "one")
    await api.end(asked, made)
    dying = telling_of(api, place)
    dying._notices = Dying(api, step, done=done)
    with pytest.raises(Died):
        await dying.catch_up()
    for _ in range(2):
        async with telling(api, place):
            await settled(api)
    assert [one["request_id"] for one in place.notices] == [asked.json["id"]]


async def test_a_notice_that_cannot_be_read_keeps_no_other(
    api: ProtocolDesk, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """It is given up, counted and logged; the next one is sent."""
    redis, keys = api.gate.store.redis, api.gate.store.keys
    await redis.set(keys.of("aap", "notice", "broken"), '{"id": 7}')
    await redis.zadd(keys.of("aap", "due"), {"broken": 1})
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    await api.end(await api.ask(made, "one"), made)
    async with telling(api, place):
        await until(lambda: len(place.notices) == 1)
        await settled(api)
    assert api.gate.core.tally.webhooks_lost == 1
    assert "a notice was not delivered, and is not tried again" in caplog.text


async def test_a_taken_notice_is_not_queued_again(api: ProtocolDesk, place: Place) -> None:
    """By whoever looks at its event once more, since the cursor was lost."""
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    await api.end(await api.ask(made, "one"), made)
    async with telling(api, place):
        await settled(api)
    await api.gate.store.redis.delete(api.gate.store.keys.of("aap", "cursor"))
    await telling_of(api, place).catch_up()
    assert await dues(api) == []
    assert len(place.notices) == 1


async def test_two_replicas_send_one_attempt_at_a_time(api: ProtocolDesk, place: Place) -> None:
    """While the duty moves two may be at it: each notice is sent once, by one of them."""
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    requests = [await api.ask(made, str(number)) for number in range(4)]
    for one in requests:
        await api.end(one, made)
    place.held = asyncio.Event()
    async with telling(api, place), telling(api, place):
        await until(lambda: place.open_calls >= 4)
        for _ in range(10):
            await moment()
        told = [one["request_id"] for one in place.notices]
        assert len(told) == len(set(told)), "nobody is told of a request twice at once"
        place.held.set()
        await settled(api)
    assert sorted(one["request_id"] for one in place.notices) == sorted(
        one.json["id"] for one in requests
    )


async def test_a_host_is_called_a_few_times_at_once(api: ProtocolDesk, place: Place) -> None:
    """A receiver that hangs has four calls open, whatever waits for it."""
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    for number in range(7):
        await api.end(await api.ask(made, str(number)), made)
    place.held, clock = asyncio.Event(), ShiftedClock()
    async with telling(api, place, clock=clock):
        await until(lambda: place.open_calls == 4)
        clock.ahead = 6
        for _ in range(10):
            await moment()
        assert place.most_open == 4
        place.held.set()
        while len({one["id"] for one in place.notices}) != 7:
            clock.ahead += 6
            await moment()
        await settled(api)


async def test_the_secret_is_shown_nowhere(
    api: ProtocolDesk, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in answers, errors, logs or what a traceback prints."""
    caplog.set_level("DEBUG")
    place.verifying = _answering({}, 500)
    failed = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    place.verifying = None
    made = await provision(api.gate, api.admin, {"delivery": place.delivery()})
    kept = await RedisNotices(api.gate.store).instance(UUID(made.json["instance"]["id"]).hex)
    assert isinstance(kept, Instance) and kept.receiver is not None
    assert kept.receiver.secret == SECRET
    said = failed.text + made.text + caplog.text + repr(kept)
    assert SECRET not in said and SECRET.removeprefix("whsec_") not in said
    assert ANN_TOKEN not in said
