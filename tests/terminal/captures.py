"""Takes the pictures of the terminal for the documents: `python -m tests.terminal.captures`."""

from __future__ import annotations

import asyncio
import base64
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.models import Action, Context
from gateway.stores.embedded_server import running_engine
from tests.picture_files import picture_file
from tests.terminal.scenes import settle
from tests.terminal.seat import Seat, by_bob, seated, staffed
from tests.terminal.test_terminal import FORM
from tests.web.chromium import Page, chromium
from tests.web.inbox import COMMAND, FILE_CHANGE, HOSTILE, LONG
from tests.world import World, assembled, click, identity

SIZE = (92, 30)
PICTURE = (1160, 800)
PLACE = {"context": Context(cwd="/srv/shop", host="build-3")}


async def main() -> None:
    """Take every picture."""
    with tempfile.TemporaryDirectory() as folder:
        async with running_engine(Path(folder)) as engine, chromium() as page:
            await page.size(PICTURE)
            for name, state in STATES.items():
                async with assembled(engine.url, f"t-{name}") as world:
                    await staffed(world)
                    async with state(world) as seat:
                        await taken(seat, page, name)


async def taken(seat: Seat, page: Page, name: str) -> None:
    """Keep what the screen shows as a picture."""
    await settle(seat.pilot)
    drawn = seat.screen.export_screenshot(title="gateway adapter terminal")
    drawn = re.sub(r"@font-face\s*{[^}]*}", "", drawn)
    drawn = re.sub(r"font-family: [^;]*;", "font-family: DejaVu Sans Mono, monospace;", drawn)
    svg = base64.b64encode(drawn.encode()).decode()
    picture = f"<img width=1160 src='data:image/svg+xml;base64,{svg}'>"
    body = f"<body style='margin:0;background:#111'>{picture}"
    await page.goto("data:text/html;base64," + base64.b64encode(body.encode()).decode())
    await page.until("document.images[0].complete")
    await page.screenshot(picture_file(f"terminal-{name}.png"), whole=True)


@asynccontextmanager
async def opened(world: World, *words: str) -> AsyncIterator[Seat]:
    """Sit ann down, once the screen shows these words."""
    async with seated(world, size=SIZE) as seat:
        await seat.sees(*words)
        yield seat


def asked(words: str, request: Any, then: str, *keys: str) -> Any:
    """Return a state: a request, what the screen shows, keys, and what it shows then."""

    @asynccontextmanager
    async def state(world: World) -> AsyncIterator[Seat]:
        await world.submit(**{**PLACE, **request})
        async with opened(world, words) as seat:
            await seat.press(*keys)
            await seat.sees(then)
            yield seat

    return state


@asynccontextmanager
async def queue(world: World) -> AsyncIterator[Seat]:
    """Several wait, and all that is plain is about to be approved."""
    for name in ("make lint", "make test", "git status"):
        await world.submit(arguments={"command": name}, **PLACE)
    await world.submit(arguments={"command": "deploy prod"}, **PLACE)
    async with opened(world, "1 of 4") as seat:
        await seat.press("a")
        await seat.sees("Approve how many?")
        await seat.type("")
        await seat.sees("Approve these 3?")
        yield seat


@asynccontextmanager
async def elsewhere(world: World) -> AsyncIterator[Seat]:
    """Decided by somebody else while it was being read."""
    record = await world.submit(**PLACE)
    async with opened(world, "Approval needed") as seat:
        await by_bob(world, record)
        await seat.sees("approved by bob")
        yield seat


@asynccontextmanager
async def partial(world: World) -> AsyncIterator[Seat]:
    """One of two has approved an edit, another looks, and nobody waits any more."""
    await staffed(world, quorum=2)
    record = await world.submit(**PLACE, **COMMAND)
    tap = click(
        record, Action.EDIT, identity=identity("bob"), arguments={"command": "make dry-run"}
    )
    edited = await world.core.requests.decide(tap)
    await world.store.redis.delete(world.store.keys.processes)
    await world.store.expire_process("bot", "p" * 16)
    assert replace(edited).votes
    async with opened(world, "1 of 2 approvals", "stopped waiting") as seat:
        yield seat


@asynccontextmanager
async def empty(world: World) -> AsyncIterator[Seat]:
    """No pending requests."""
    async with opened(world, "No pending requests") as seat:
        yield seat


@asynccontextmanager
async def stranger(world: World) -> AsyncIterator[Seat]:
    """Somebody who may only look."""
    await world.submit(**PLACE)
    async with seated(world, "eve", size=SIZE) as seat:
        await seat.sees("You can read this request but")
        yield seat


PROD = {"arguments": {"command": "deploy prod"}}
STATES: dict[str, Any] = {
    "command": asked("Approval needed", COMMAND, "rsync"),
    "diff": asked("Approval needed", FILE_CHANGE, "RATES"),
    "hostile": asked("Hidden", HOSTILE, "U+202E"),
    "cut": asked("characters shown", LONG, "press f"),
    "full": asked("Approval needed", LONG, "digest", "f"),
    "high-risk": asked("high risk", PROD, "Type yes", "y"),
    "deny": asked("Approval needed", COMMAND, "Message to the agent", "n"),
    "form": asked("Question", FORM, "Password?", "y"),
    "help": asked("Approval needed", COMMAND, "several", "question_mark"),
    "remember": asked("Approval needed", {"arguments": {"command": "git status"}}, "how long", "r"),
    "several": queue,
    "elsewhere": elsewhere,
    "partial": partial,
    "empty": empty,
    "stranger": stranger,
}

if __name__ == "__main__":
    asyncio.run(main())
