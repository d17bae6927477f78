"""Scenario 45: a day of Discord in minutes. `python -m tests.discord.soak KIND HOURS PAUSE`.

Real discord.py, its heartbeat thread, the adapter, courier, follow-ups and sweeper run against the
wire-level Discord and fakeredis, on a simulated clock. People do what people do, and the connection
breaks in every way that is known. Prints what was counted, as JSON, and fails when anything is
untrue or grows.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import discord
import fakeredis

from adapters.discord.adapter import DiscordAdapter
from gateway.approvals.deadlines import Sweeper
from gateway.delivery.outbox_worker import Timings
from gateway.domain.records import StoredRequest
from gateway.domain.time_and_tasks import SystemClock
from gateway.models import Reason, Status
from gateway.policy.chain import ModeDecider
from gateway.server.app import Gateway
from gateway.server.background import adapter_api, run_in_background, run_reminders, serve_adapters
from gateway.server.connections import Backend, core_over
from gateway.sign_in.logins import Ways
from gateway.stores.credentials import RedisCredentials
from gateway.stores.event_feed import RedisFeed
from gateway.stores.keys import Keys
from gateway.stores.requests import RedisStore
from gateway.wire.signatures import Signer
from tests.discord import simulated
from tests.discord.furnished import Server, furnished
from tests.discord.messages import shown_text
from tests.discord.server import running_discord
from tests.discord.stage import AGENT, Stage, labels
from tests.discord.town import Json
from tests.world import SEED, over_http

FAULT_EVERY = {"day": 7, "brief": 1}  # things that people do, one fault after so many
WAIT = 600.0  # the life of a request
_LOOK = 0.05


@dataclass
class Soaked(Stage):
    """A stage on which waiting lets the simulated time pass."""

    async def seen(self, look: Any, seconds: float = 400) -> Any:
        async with asyncio.timeout(seconds):
            while not (found := look()):
                await asyncio.sleep(_LOOK)
        return found

    async def ended(self, record: StoredRequest) -> StoredRequest:
        async with asyncio.timeout(WAIT + 60):
            while not (now := await self.core.requests.get(record.id)).final:
                await asyncio.sleep(_LOOK)
        return now


@dataclass
class Tally:
    """What happened: by name, and how each request was meant to end."""

    did: Counter[str] = field(default_factory=Counter)
    ends: dict[str, Status] = field(default_factory=dict)
    cards: dict[str, Json] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


class Errors(logging.Handler):
    """Keeps what was logged as an error: nothing of this day is one."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(logging.ERROR)
        self._tally = tally

    def emit(self, record: logging.LogRecord) -> None:
        if "Attempting a reconnect" not in record.getMessage():  # which is what it should do
            self._tally.errors.append(f"{record.name}: {record.getMessage()} {record.exc_info}")


# --- people -------------------------------------------------------------------------------------


async def approve(stage: Stage, record: StoredRequest, card: Json) -> Status:
    """One tap."""
    await stage.click(stage.server.ann, card, "Approve")
    return Status.APPROVED


async def deny(stage: Stage, record: StoredRequest, card: Json) -> Status:
    """A modal with a reason."""
    opened = await stage.click(stage.server.bob, card, "Deny")
    await asyncio.sleep(20)
    await stage.server.bob.submit(opened, reason="not now")
    return Status.DENIED


async def edit(stage: Stage, record: StoredRequest, card: Json) -> Status:
    """A modal with other arguments."""
    opened = await stage.click(stage.server.ann, card, "Edit")
    shown = await stage.server.ann.submit(opened, arg0="ls -l")
    await stage.click(stage.server.ann, shown.private[0], "Approve these changes")
    return Status.APPROVED


async def read_first(stage: Stage, record: StoredRequest, card: Json) -> Status:
    """Look, tell the others, and approve from the full view."""
    await stage.click(stage.server.ann, card, "I'm looking")
    view = await stage.click(stage.server.ann, card, "Details")
    await stage.click(stage.server.ann, view.private[0], "Approve")
    return Status.APPROVED


async def leave_a_modal(stage: Stage, record: StoredRequest, card: Json) -> Status:
    """Open two modals and answer none: the request expires."""
    await stage.click(stage.server.ann, card, "Deny")
    await stage.click(stage.server.bob, card, "Edit")
    return Status.EXPIRED


async def remember(stage: Stage, record: StoredRequest, card: Json) -> Status:
    """Remember a denial for this session, and take it back."""
    offer = await stage.click(stage.server.ann, card, "Remember…")
    opened = await stage.click(stage.server.ann, offer.private[0], "Deny and remember…")
    done = await stage.server.ann.submit(opened)
    kept = done.response if done.response is not None else done.private[0]
    await stage.click(stage.server.ann, kept, "Revoke")
    return Status.DENIED


async def by_command(stage: Stage, record: StoredRequest, card: Json) -> Status:
    """A stranger is refused; the command decides."""
    server = stage.server
    await stage.click(server.eve, card, "Approve")
    await server.bob.complete(server.app, server.channel, "deny", "request")
    await server.bob.command(server.app, server.channel, "deny", request=record.id)
    return Status.DENIED


async def cancelled(stage: Stage, record: StoredRequest, card: Json) -> Status:
    """The agent gives up, and somebody taps all the same."""
    await stage.click(stage.server.ann, card, "Details")
    await stage.approvals.cancel(record.id, over_http(), reason=Reason.CANCELLED_BY_AGENT)
    return Status.CANCELLED


PEOPLE = (approve, deny, edit, read_first, leave_a_modal, remember, by_command, cancelled)


# --- the connection -----------------------------------------------------------------------------


async def cut(server: Server) -> None:
    """The line is gone for a moment."""
    await server.discord.gateway.drop()


async def forgotten(server: Server) -> None:
    """Ten minutes without Discord: handshakes fail, and the session is forgotten."""
    gateway = server.discord.gateway
    gateway.down = 10**6
    await gateway.drop(forget=True)
    await asyncio.sleep(600)
    gateway.down = 0


async def reconnect(server: Server) -> None:
    """Op 7."""
    await server.discord.gateway.command(7)


async def resumable(server: Server) -> None:
    """Op 9, true."""
    await server.discord.gateway.command(9, True)


async def invalid(server: Server) -> None:
    """Op 9, false."""
    await server.discord.gateway.command(9, False)


async def zombie(server: Server) -> None:
    """Nothing is answered any more, and nobody hangs up."""
    gateway = server.discord.gateway
    before = gateway.connections
    gateway.mute = True
    await gateway.until(lambda: gateway.connections > before, 600)
    gateway.mute = False


async def broken_event(server: Server) -> None:
    """An interaction that discord.py cannot read (T5)."""
    await server.discord.gateway.send_raw("INTERACTION_CREATE", {"broken": True})


async def sick(server: Server) -> None:
    """Discord's own failures: 502, 503, an answer that never comes."""
    rest = server.discord.rest
    plain = {"Content-Type": "application/json"}
    rest.stage("POST", r"/channels/\d+/messages", status=503, body={"message": "x"}, headers=plain)
    rest.stage("PATCH", "/messages", status=502, body={"message": "x"}, headers=plain)
    rest.stage("POST", r"/channels/\d+/messages", drop=True)


FAULTS = (cut, forgotten, reconnect, resumable, invalid, zombie, broken_event, sick)


# --- the day ------------------------------------------------------------------------------------


@asynccontextmanager
async def stage() -> AsyncIterator[Soaked]:
    """Everything behind a card, without intake and HTTP."""
    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(running_discord())
        server = furnished(fake)
        os.environ["GATEWAY_DISCORD_TOKEN"] = server.app.token
        os.environ["GATEWAY_DISCORD_API_BASE"] = fake.api_base
        os.environ["GATEWAY_DISCORD_GATEWAY_URL"] = fake.gateway_url
        engine = fakeredis.FakeServer(version=(7,))
        redis, blocking = (
            fakeredis.FakeAsyncRedis(server=engine, decode_responses=True) for _ in range(2)
        )
        store = RedisStore(redis, Keys("soak"))
        await store.check_schema()
        feed = RedisFeed(blocking, store.keys)
        clock = SystemClock()
        core = core_over(store, feed, [ModeDecider()], clock, Signer(SEED))
        await stack.enter_async_context(feed.running())
        backend = Backend(
            store=store,
            credentials=RedisCredentials(store, clock),
            logins=Ways(store, clock),
            url="",
        )
        made = Soaked(server, Gateway(backend=backend, core=core, url="", public_key=""))
        await store.register_agent(AGENT)
        await made.policy(made.route())
        # Nothing here waits for these two, and a simulated day has 86 400 of their seconds.
        sweeper = Sweeper(core, store, session_idle_hours=24, tick=10.0)
        timings = Timings(idle=10.0)
        await stack.enter_async_context(run_in_background("sweeper", sweeper.run))
        await stack.enter_async_context(run_reminders(core))
        api = adapter_api("discord", core, store)
        await stack.enter_async_context(
            serve_adapters(DiscordAdapter(), api, core, timings=timings)
        )
        await fake.gateway.until(lambda: fake.gateway.connected == 1)
        yield made


async def one(stage: Soaked, tally: Tally, person: Any, number: int) -> None:
    """Ask for something, and let somebody deal with it."""
    record = await stage.ask(
        arguments={"command": f"echo {number}"}, timeout=WAIT, session=f"s{number}"
    )
    card = await stage.card(record)
    tally.cards[record.id] = card
    tally.did[person.__name__] += 1
    tally.ends[record.id] = await person(stage, record, card)


async def fault(stage: Soaked, tally: Tally, broken: Any) -> None:
    """Break something, and wait until we are on the line again."""
    tally.did[broken.__name__] += 1
    await broken(stage.server)
    gateway = stage.server.discord.gateway
    await asyncio.sleep(1)
    try:
        await gateway.until(lambda: gateway.connected == 1, 900)
    except TimeoutError:
        raise AssertionError(f"{broken.__name__}: {gateway.connected} {tally}") from None


async def true_at_the_end(stage: Soaked, tally: Tally) -> None:
    """Check that each request ended as meant, once, and that its card says so."""
    ended = Counter(
        event.request_id
        for event in await stage.events("approved", "denied", "expired", "cancelled")
    )
    words = {
        Status.APPROVED: "approved",  # or changed and approved
        Status.DENIED: "denied",
        Status.EXPIRED: "expired",
        Status.CANCELLED: "cancelled",
    }
    for request_id, status in tally.ends.items():
        record = await stage.core.requests.get(request_id)
        assert record.status is status, (request_id, record.status, status)
        assert ended[request_id] == 1
        card = tally.cards[request_id]
        assert words[status] in shown_text(card).lower(), shown_text(card)
        assert labels(card) == {"Details"}


def grown() -> Counter[str]:
    """Count what discord.py and the adapter keep, by class, and what runs."""
    gc.collect()
    kept = Counter(
        f"{type(one).__module__}.{type(one).__qualname__}"
        for one in gc.get_objects()
        if str(type(one).__module__).startswith(("discord.", "adapters.discord"))
    )
    kept["tasks"] = len(asyncio.all_tasks())
    kept["threads"] = threading.active_count()
    return kept


def caches() -> list[Any]:
    """Return everything in the caches of the living clients, where views and modals would stay."""
    clients = [x for x in gc.get_objects() if isinstance(x, discord.Client) and not x.is_closed()]
    assert clients
    found: list[Any] = []
    for client in clients:
        store = client._connection._view_store
        found += [*store._views, *store._modals, *store._dynamic_items]
        found += [*(client._connection._messages or ())]
    return found


async def storm(hours: float, pause: float) -> Json:
    """Discord ends every session as it begins, for hours; then it is well again."""
    async with stage() as made:
        gateway = made.server.discord.gateway
        gateway.fickle = True
        await gateway.command(9, False)
        await asyncio.sleep(hours * 3600)
        gateway.fickle = False
        begun = gateway.identified
        await gateway.until(lambda: gateway.connected == 1, 600)
        record = await made.ask()
        await approve(made, record, await made.card(record))
        assert (await made.ended(record)).status is Status.APPROVED
        return {"identified": begun}


async def day(hours: float, pause: float, fault_every: int) -> Json:
    """Live through it, `pause` seconds between what people do; return what was counted."""
    chance = random.Random(hours)
    tally = Tally()
    logging.getLogger().addHandler(Errors(tally))
    async with stage() as made:
        loop = asyncio.get_running_loop()
        began, round_number, first = loop.time(), 0, Counter[str]()
        while loop.time() - began < hours * 3600:
            await one(made, tally, PEOPLE[round_number % len(PEOPLE)], round_number)
            if round_number % fault_every == fault_every - 1:
                await fault(made, tally, FAULTS[round_number // fault_every % len(FAULTS)])
            round_number += 1
            await asyncio.sleep(chance.uniform(0.5, 1.5) * pause)
            if not first and round_number == fault_every * len(FAULTS):
                await asyncio.sleep(2 * WAIT)
                first = grown()
        await asyncio.sleep(2 * WAIT)
        await true_at_the_end(made, tally)
        assert first, "too short to see anything grow"
        last = grown()
        gateway, rest = made.server.discord.gateway, made.server.discord.rest
        more = {name: last[name] - first[name] for name in last if last[name] > first[name]}
        return {
            "hours": round((loop.time() - began) / 3600, 1),
            "did": dict(tally.did),
            "connections": gateway.connections,
            "identified": gateway.identified,
            "resumed": gateway.resumed,
            "cached": len(caches()),
            "grown": more,
            "errors": tally.errors,
            "calls": len(rest.calls),
            "invalid": rest.invalid,
        }


def main() -> None:
    """Run it and print what was counted."""
    kind, hours, pause = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    if kind == "storm":
        counted = simulated.run(storm(hours, pause))
    else:
        counted = simulated.run(day(hours, pause, FAULT_EVERY[kind]))
    sys.stdout.write(json.dumps(counted))


if __name__ == "__main__":
    main()
