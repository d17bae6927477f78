"""A person at a terminal, for the tests: the real screen, driven by keys, over a real gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input, Static

from adapters.terminal.screen import TerminalApp
from gateway.domain.policy_document import PolicyDocument, Route
from gateway.domain.records import Identity, Person, StoredRequest
from gateway.domain.risk import RiskRule
from gateway.domain.time_and_tasks import SystemClock
from gateway.models import RiskLevel
from gateway.server.background import adapter_api
from tests.waiting import moment
from tests.world import World, click, identity

SIZE = (90, 36)
PEOPLE = tuple(
    Person(name=name, identities=(f"terminal:{name}", f"token:{name}"))
    for name in ("ann", "bob", "eve")
)
RISKS = (RiskRule(name="prod", level=RiskLevel.HIGH, reason="touches prod", contains=("prod",)),)


@dataclass
class Seat:
    """One person's screen."""

    world: World
    screen: TerminalApp
    pilot: Pilot[None]

    async def press(self, *keys: str) -> None:
        """Press keys, one after another."""
        await self.pilot.press(*keys)

    async def type(self, words: str) -> None:
        """Type words into the line that is asked for, and press Enter."""
        await self.until(lambda: isinstance(self.screen.focused, Input))
        await self.pilot.press(*("space" if char == " " else char for char in words), "enter")

    def text(self) -> str:
        """Return all that the screen shows now, notifications too."""
        lines = self.screen.screen._compositor.render_strips(self.screen.size)
        return "\n".join("".join(segment.text for segment in strip) for strip in lines)

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait for what the screen shows in its own time."""
        async with asyncio.timeout(40):
            while not holds():
                await moment()

    async def sees(self, *words: str) -> None:
        """Wait until the screen shows all these words."""

        def shown() -> bool:
            text = self.text()
            return all(word in text for word in words)

        try:
            await self.until(shown)
        except TimeoutError:
            raise AssertionError(f"{words} not on the screen:\n{self.text()}") from None

    async def ended(self, record: StoredRequest) -> StoredRequest:
        """Return a request once it is decided."""
        async with asyncio.timeout(40):
            while not (now := await self.world.core.requests.get(record.id)).final:
                await moment()
        return now

    def card(self) -> Static:
        """Return the widget that holds the card."""
        return self.screen.screen_stack[0].query_one("#card", Static)


@asynccontextmanager
async def seated(
    world: World, name: str = "ann", size: tuple[int, int] = SIZE
) -> AsyncIterator[Seat]:
    """Sit a person down at a terminal."""
    api = adapter_api("terminal", world.core, world.store)
    screen = TerminalApp(api, Identity(platform="terminal", id=name), SystemClock())
    async with screen.run_test(size=size, notifications=True) as pilot:
        yield Seat(world, screen, pilot)


async def staffed(world: World, **route: Any) -> None:
    """Let ann and bob answer at terminals."""
    now = await world.store.policy()
    routes = (Route(**{"approvers": ("ann", "bob"), "targets": ("terminal",), **route}),)
    policy = PolicyDocument(generation=now.generation, people=PEOPLE, routes=routes, risks=RISKS)
    await world.store.apply(policy, by="test")
    world.core.writer.forget_policy()


async def by_bob(world: World, record: StoredRequest, **more: Any) -> None:
    """Have bob decide elsewhere."""
    tap = replace(click(record), identity=identity("bob"), **more)
    await world.core.requests.decide(tap)
