"""A whole gateway on the real server with the Discord adapter, for the scenarios."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.approvals.agent_service import Approvals
from gateway.approvals.services import Core
from gateway.domain.policy_document import Budget, PolicyDocument, Route
from gateway.domain.records import Person, StoredRequest
from gateway.domain.risk import RiskRule
from gateway.server.app import Gateway, run_gateway
from gateway.server.settings import Settings
from gateway.stores.outbox import RedisOutbox
from tests.discord.furnished import Server
from tests.discord.interactions import Interaction
from tests.discord.messages import buttons, shown_text
from tests.discord.person import Person as Finger
from tests.discord.town import Channel, Json
from tests.waiting import moment
from tests.world import over_http, request

AGENT = "bot"


@dataclass
class Stage:
    """A gateway that runs, the Discord it talks to, and what tests do with both."""

    server: Server
    gateway: Gateway

    @property
    def core(self) -> Core:
        return self.gateway.core

    @property
    def approvals(self) -> Approvals:
        return self.core.approvals

    @property
    def target(self) -> str:
        return f"discord:{self.server.guild.id}/{self.server.channel.id}"

    async def policy(
        self, *routes: Route, risks: tuple[RiskRule, ...] = (), budgets: tuple[Budget, ...] = ()
    ) -> None:
        """Put these routes in force; ann, bob and eve are people known by their Discord ids."""
        store = self.gateway.backend.store
        current = await store.policy()
        people = tuple(
            Person(name=who.user.name, identities=(f"discord:{who.id}",))
            for who in (self.server.ann, self.server.bob, self.server.eve)
        )
        document = PolicyDocument(
            generation=current.generation,
            people=people,
            routes=routes,
            risks=risks,
            budgets=budgets,
        )
        await store.apply(document, by="test")
        self.core.writer.forget_policy()

    def route(self, **changes: Any) -> Route:
        """Return a route to the channel of approvals on which ann and bob may decide."""
        values: Json = {"approvers": ("ann", "bob"), "targets": (self.target,)}
        return Route(**{**values, **changes})

    async def ask(self, **changes: Any) -> StoredRequest:
        """Submit a request as the agent does."""
        record, _ = await self.approvals.submit(request(**changes), over_http())
        return record

    async def card(self, record: StoredRequest, channel: Channel | None = None) -> Json:
        """Return the posted message of a request, once it is there."""
        place = channel or self.server.channel
        return await self.seen(lambda: self._posted(record, place), 40)  # type: ignore[no-any-return]

    def _posted(self, record: StoredRequest, place: Channel) -> Json | None:
        found = (m for m in place.messages.values() if record.id[:8] in shown_text(m))
        return next(found, None)

    async def spread(
        self, count: int, *, each: int = 2
    ) -> list[tuple[StoredRequest, Channel, Json]]:
        """Ask for many things, `each` of them in a channel of its own; return the cards."""
        server = self.server
        places = [
            server.discord.town.channel(server.guild, f"room-{number}")
            for number in range(-(-count // each))
        ]
        rooms = [
            self.route(
                name=place.name,
                tools=(place.name,),
                targets=(f"discord:{server.guild.id}/{place.id}",),
            )
            for place in places
        ]
        await self.policy(*rooms, self.route(), budgets=(Budget(cards=count),))
        asked = []
        for number in range(count):
            place = places[number // each]
            said = {"command": f"ls {number}"}
            record = await self.ask(tool=place.name, timeout=86_400, arguments=said)
            asked.append((record, place))
        return [(record, place, await self.card(record, place)) for record, place in asked]

    async def shows(self, message: Json, *words: str) -> str:
        """Return a message's text once it shows these words."""
        await self.seen(lambda: all(word in shown_text(message) for word in words))
        return shown_text(message)

    @property
    def outbox(self) -> RedisOutbox:
        return RedisOutbox(self.gateway.backend.store)

    async def seen(self, look: Any, seconds: float = 40) -> Any:
        """Return what `look` finds, once it finds something."""
        async with asyncio.timeout(seconds):
            while not (found := look()):
                await moment()
        return found

    async def ended(self, record: StoredRequest) -> StoredRequest:
        """Return a request once it has ended."""
        async with asyncio.timeout(40):
            while not (now := await self.core.requests.get(record.id)).final:
                await moment()
        return now

    async def events(self, *types: str) -> list[Any]:
        """Return the events of these types so far."""
        found = await self.gateway.backend.store.history(None, 10_000)
        return [event for event in found if event.type in types]

    async def click(
        self,
        who: Finger,
        message: Json,
        label: str,
        *,
        channel: Channel | None = None,
        wait: bool = True,
    ) -> Interaction:
        """Press a button as a person does; what stands behind "More…", after that."""
        place = channel or self.server.channel
        if label not in buttons(message) and "More…" in buttons(message):
            more = await who.click(self.server.app, place, message, "More…")
            if not more.private or label not in buttons(more.private[0]):
                return more
            message = more.private[0]
        return await who.click(self.server.app, place, message, label, wait=wait)

    async def asked(self, **changes: Any) -> tuple[StoredRequest, Json]:
        """Submit a request and return it with its posted card."""
        record = await self.ask(**changes)
        return record, await self.card(record)


def settings(url: str, namespace: str, folder: Path, **changes: Any) -> Settings:
    """Return the settings of a gateway that answers in Discord."""
    values: Json = {
        "REDIS_URL": url,
        "namespace": namespace,
        "data_dir": folder,
        "port": 0,
        "adapters": ("discord",),
    }
    return Settings(**{**values, **changes})


def environment(monkeypatch: pytest.MonkeyPatch, server: Server, **more: str) -> None:
    """Set what an operator sets for Discord."""
    values = {
        "TOKEN": server.app.token,
        "API_BASE": server.discord.api_base,
        "GATEWAY_URL": server.discord.gateway_url,
        **more,
    }
    for name, value in values.items():
        monkeypatch.setenv(f"GATEWAY_DISCORD_{name}", value)


@asynccontextmanager
async def staged(
    server: Server, url: str, namespace: str, folder: Path, **changes: Any
) -> AsyncIterator[Stage]:
    """Run a gateway until the bot is on the line; ann and bob may approve in `approvals`."""
    lines = server.discord.gateway.connected
    async with run_gateway(settings(url, namespace, folder, **changes)) as gateway:
        stage = Stage(server, gateway)
        known = {person.name for person in (await gateway.backend.store.policy()).people}
        if server.ann.user.name not in known:
            await gateway.backend.store.register_agent(AGENT)
            await stage.policy(stage.route())
        if server.app.endpoint is None and "adapters" not in changes:
            await server.discord.gateway.until(
                lambda: server.discord.gateway.connected > lines or lines > 0
            )
        yield stage


def private_text(done: Interaction) -> str:
    """Return what only the person sees after an interaction."""
    return "\n".join(shown_text(one) for one in done.private)


async def told_privately(done: Interaction) -> str:
    """Return what only the person sees after a tap that also brought the card up to date."""
    async with asyncio.timeout(10):
        while not done.private:
            await moment()
    return private_text(done)


def labels(message: Json) -> set[str]:
    """Return the labels of the buttons that can be pressed."""
    return set(buttons(message))
