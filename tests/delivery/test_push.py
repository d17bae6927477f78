"""Web push below the pages: what is put on the queue, who sends when two look, sizes, signatures,
pauses, quiet hours."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway.domain.records import Approvers, Identity
from gateway.domain.time_and_tasks import Clock, SystemClock
from gateway.errors import Unreachable
from gateway.models import Action, Origin, Reason, Risk, RiskLevel
from gateway.ports.devices import PUSH, PushDevice, QuietHours
from gateway.ports.outgoing import CopyState, DeliveryFailed, RetryLater
from gateway.push.notifications import Notifications, target_of
from gateway.push.sending import MOST_BYTES, Push, PushKey, PushQueue, PushSender, encrypt
from gateway.stores.credentials import REDIS_ERRORS
from gateway.stores.devices import RedisDevices
from gateway.stores.outbox import RedisAdapterStorage
from tests.clocks import StandingClock
from tests.devices import push_device
from tests.web.phone import Phone, PushService, push_service, written
from tests.world import World, click, identity, over_http

pytestmark = pytest.mark.redis

KEY = base64.b64encode(b"k" * 32).decode()


async def is_ann(reference: str) -> Identity | None:
    """Return ann for every session."""
    return identity("ann") if reference else None


def device_of(phone: Phone, key: PushKey, **changes: Any) -> PushDevice:
    """Return ann's device as it is kept."""
    keys = phone.subscription["keys"]
    values: dict[str, Any] = {
        "id": phone.name,
        "label": "a phone",
        "endpoint": phone.endpoint,
        "key": keys["p256dh"],
        "auth": keys["auth"],
        "server_key": key.public,
    }
    return push_device(**{**values, **changes})


def sender_to(service: PushService, clock: Clock | None = None, **more: Any) -> PushSender:
    """Return what sends to this service."""
    return PushSender(
        PushKey(KEY),
        clock or SystemClock(),
        hosts=(service.host,),
        production=False,
        contact="https://approvals.example",
        **more,
    )


def telling(world: World, sender: PushSender) -> Notifications:
    """Return what looks at requests, as one replica has it."""
    devices = RedisDevices(world.store)
    notes = RedisAdapterStorage(world.store, PUSH)
    return Notifications(world.core, world.store, devices, is_ann, sender, notes, SystemClock())


async def test_two_replicas_send_once(world: World) -> None:
    """Both look at the same moment: one sends, the other comes again and finds that it was told."""
    async with push_service() as service:
        sender, phone = sender_to(service), service.phone()
        await RedisDevices(world.store).add(device_of(phone, sender.key))
        replicas = [telling(world, sender_to(service)) for _ in range(8)]
        record = await world.submit()
        await asyncio.gather(*(one.look(record.id) for one in replicas))
        await asyncio.gather(*(one.look(record.id) for one in replicas))
        assert len(phone.got) == 1
        await world.core.requests.decide(click(record, Action.DENY))
        await asyncio.gather(*(one.look(record.id) for one in replicas))
        await asyncio.gather(*(one.look(record.id) for one in replicas))
        assert [one.told["ended"] for one in phone.got] == [False, True]


@pytest.mark.parametrize("removed", [False, True], ids=["changed", "removed"])
async def test_what_is_done_while_a_push_is_sent_stays_done(world: World, *, removed: bool) -> None:
    """That it failed is written beside what its person said meanwhile, and over nothing; a device
    that was removed meanwhile stays removed."""
    async with push_service() as service:
        devices, phone = RedisDevices(world.store), service.phone()
        phone.answers.append((400, {}))
        device = device_of(phone, PushKey(KEY))

        async def change_meanwhile(host: str, port: int) -> list[str]:
            if removed:
                await devices.remove(device)
            else:
                await devices.change(device.id, discreet=True)
            return ["127.0.0.1"]

        await devices.add(device)
        record = await world.submit()
        await telling(world, sender_to(service, resolve=change_meanwhile)).look(record.id)
        left = await devices.of_person("ann")
        assert [one.discreet for one in left] == ([] if removed else [True])
        assert all("returned status 400" in one.failure for one in left)


async def test_two_changes_of_a_device_lose_nothing(world: World) -> None:
    """Of two that were begun at once each keeps what the other changed."""
    async with push_service() as service:
        devices = RedisDevices(world.store)
        for number in range(8):
            device = device_of(service.phone(f"phone {number}"), PushKey(KEY))
            await devices.add(device)
            changes = ({"discreet": True}, {"failure": "it was off"}, {"failed_at": 7})
            await asyncio.gather(*(devices.change(device.id, **one) for one in changes))
            assert await devices.get(device.id) == replace(
                device, discreet=True, failure="it was off", failed_at=7
            )


async def test_what_is_told_no_more_leaves_a_devices_line(world: World) -> None:
    """A phone had its dozen in a minute, and another request waits; taken back, it waits no more,
    and what stood behind it is looked at again."""
    async with push_service() as service:
        sender, phone = sender_to(service), service.phone()
        await RedisDevices(world.store).add(device_of(phone, sender.key))
        replica, store = telling(world, sender), world.store
        records = [await world.submit(arguments={"n": n}) for n in range(14)]
        assert [bool(await replica.look(one.id)) for one in records] == [True] * 14
        line = store.keys.note(PUSH, f"line push {phone.name}")
        assert await store.redis.zcard(line) == 2
        first, behind = await store.redis.zrange(line, 0, -1)
        assert len(phone.got) == 12
        await world.approvals.cancel(first, over_http(), reason=Reason.CANCELLED_BY_AGENT)
        await replica.look(first)
        assert await store.redis.zrange(line, 0, -1) == [behind]


async def test_a_session_that_ended_is_told_nothing(world: World) -> None:
    """It is forgotten instead, and the audit says so."""
    async with push_service() as service:
        sender, phone = sender_to(service), service.phone()
        await RedisDevices(world.store).add(device_of(phone, sender.key, session=""))
        record = await world.submit()
        assert await telling(world, sender).look(record.id) is None
        assert phone.got == []
        assert await RedisDevices(world.store).count() == 0
        assert [one.type for one in await world.events()][-1] == "push_removed"


async def test_who_asked_is_not_told(world: World) -> None:
    """High risk is decided by somebody else than who asked: their own device stays silent."""
    async with push_service() as service:
        sender, phone = sender_to(service), service.phone()
        await RedisDevices(world.store).add(device_of(phone, sender.key))
        chat = Origin(channel="token", sender="ann")
        record = await world.submit(origin=chat, risk=Risk(level=RiskLevel.HIGH))
        asked = record.copy_with(approvers=Approvers(names=("ann",)))
        listed = await telling(world, sender)._list_told(asked)  # as if the list were out of date
        assert listed == []
        await telling(world, sender).look(record.id)
        assert phone.got == []


async def test_a_crash_while_sending_is_made_good(world: World) -> None:
    """What was begun and not ended is sent again once whoever did it must have ended; until then
    nobody else does."""
    async with push_service() as service:
        sender, phone = sender_to(service), service.phone()
        device = device_of(phone, sender.key)
        await RedisDevices(world.store).add(device)
        record = await world.submit()
        look, outbox = telling(world, sender).look, world.core.outbox
        assert await look(record.id)
        (told,) = (await outbox.copies(record.id)).values()
        assert (told.target, told.state) == (target_of(device), CopyState.POSTED)
        began = replace(told, state=CopyState.INTENDED, at=SystemClock().now_ms(), revision=0)
        assert await outbox.put_copy(record.id, began, before=told)
        wait = await look(record.id)
        assert wait is not None
        assert 20 < wait <= 30
        assert len(phone.got) == 1
        assert await outbox.put_copy(record.id, replace(began, at=0), before=began)
        await look(record.id)
        assert len(phone.got) == 2


async def test_all_that_waits_is_looked_at_when_listening_begins(world: World) -> None:
    """What happened while nobody listened is put on the queue, and what a notification may stand
    for; without devices nothing is."""
    async with push_service() as service:
        devices, tidied = RedisDevices(world.store), []

        async def tidy() -> None:
            tidied.append(1)

        queue = PushQueue(
            world.core.feed,
            world.core.requests,
            world.core.outbox,
            devices,
            tidy=tidy,
            store_errors=REDIS_ERRORS,
        )
        waits, ended = await world.submit(), await world.submit(tool="other")
        async with queue.changes():
            assert await world.core.outbox.queued(PUSH, limit=10) == []
        await devices.add(device_of(service.phone(), PushKey(KEY)))
        far = SystemClock().now_ms() + 900_000
        await world.store.redis.zadd(world.store.keys.dirty(PUSH), {ended.id: far})
        await world.core.requests.decide(click(ended, Action.DENY))
        async with queue.changes() as events:
            found = dict(await world.core.outbox.queued(PUSH, limit=10))
            assert set(found) == {waits.id, ended.id}
            assert max(found.values()) < far
            later = await world.submit(tool="third")
            async for event in events:
                if event.request_id == later.id:
                    break
            assert later.id in dict(await world.core.outbox.queued(PUSH, limit=10))
        assert len(tidied) == 2


async def test_a_store_that_does_not_answer_is_listened_to_again(world: World) -> None:
    """The worker is told that it may have missed something, and comes again."""

    async def tidy() -> None:
        raise REDIS_ERRORS[0]("down")

    queue = PushQueue(
        world.core.feed,
        world.core.requests,
        world.core.outbox,
        RedisDevices(world.store),
        tidy=tidy,
        store_errors=REDIS_ERRORS,
    )
    with pytest.raises(Unreachable):
        async with queue.changes():
            pass


def test_a_body_is_never_too_long() -> None:
    """3,993 bytes of text make exactly what push services take; one more is refused."""
    key = ec.generate_private_key(ec.SECP256R1())
    point = written(key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))
    secret = b"a" * 16
    body = encrypt(b"x" * MOST_BYTES, point, written(secret))
    assert len(body) == 4096
    text = http_ece.decrypt(body, private_key=key, auth_secret=secret, version="aes128gcm")
    assert text == b"x" * MOST_BYTES
    with pytest.raises(ValueError, match="3993"):
        encrypt(b"x" * (MOST_BYTES + 1), point, written(secret))


@pytest.mark.parametrize("text", ["", "AAAA", "k" * 44, base64.b64encode(b"\xff" * 32).decode()])
def test_a_push_key_is_32_bytes_below_the_order(text: str) -> None:
    """Anything else is refused when it is read, not when something is sent."""
    with pytest.raises(ValueError, match=r".+"):
        PushKey(text)


async def test_retry_after_may_be_a_date(world: World) -> None:
    """Seconds, a date, nonsense or nothing; never longer than an hour."""
    at = StandingClock(1_795_500_000_000)  # Tue, 24 Nov 2026 06:00:00 GMT
    async with push_service() as service:
        sender, phone = sender_to(service, at), service.phone()
        device = device_of(phone, sender.key)
        for said, seconds in (
            ("90", 90),
            ("Tue, 24 Nov 2026 06:00:30 GMT", 30),
            ("Tue, 24 Nov 2026 05:00:00 GMT", 0),
            ("999999", 3600),
            ("soon", 0),
            ("", 0),
        ):
            phone.answers.append((429, {"Retry-After": said}))
            with pytest.raises(RetryLater) as put_off:
                await sender.send(device, Push(content={}, ttl=1, topic="t"))
            assert put_off.value.seconds == seconds, said


async def test_a_device_of_another_key_is_not_sent_to(world: World) -> None:
    """Its push service would refuse it: it is said instead."""
    async with push_service() as service:
        sender, phone = sender_to(service), service.phone()
        device = device_of(phone, sender.key, server_key="other")
        with pytest.raises(DeliveryFailed, match="different key"):
            await sender.send(device, Push(content={}, ttl=1, topic="t"))
        assert service.calls == []


@pytest.mark.parametrize(
    ("begin", "end", "zone", "at", "left"),
    [
        ("22:00", "07:00", "UTC", "2026-11-24T23:00", 8 * 3600),
        ("22:00", "07:00", "UTC", "2026-11-24T06:59", 60),
        ("22:00", "07:00", "UTC", "2026-11-24T07:00", 0),
        ("22:00", "07:00", "UTC", "2026-11-24T21:59", 0),
        ("12:00", "13:00", "Europe/Berlin", "2026-11-24T12:30", 1800),
        ("12:00", "13:00", "Asia/Tokyo", "2026-11-24T13:30", 0),
        # The night in which clocks go forward has an hour less, the other an hour more.
        ("22:00", "07:00", "Europe/Berlin", "2026-03-28T23:00", 7 * 3600),
        ("22:00", "07:00", "Europe/Berlin", "2026-10-24T23:00", 9 * 3600),
        ("22:00", "07:00", "Nowhere/None", "2026-11-24T23:00", 0),
    ],
)
def test_quiet_hours_are_the_persons_own(
    begin: str, end: str, zone: str, at: str, left: int
) -> None:
    """By the clock of their zone, over midnight and over the change of clocks; one that is not
    known here any more rings."""

    known = ZoneInfo(zone if zone != "Nowhere/None" else "UTC")
    now = datetime.fromisoformat(at).replace(tzinfo=known).timestamp()
    hours = QuietHours(begin=begin, end=end, zone=zone)
    assert hours.seconds_left(int(now * 1000)) == left
